"""Argo Rollouts and Flagger get a release's answer from the explorer, by the URLs in deploy/releases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.places import ROOT
from tests.streams.results import scored
from tests.streams.store.records import StoreFile, result_record
from tests.streams.store.views.serving import explorer

FOLDER = ROOT / "deploy" / "releases"
WAYS = [("no worse", 4), ("worse", 1), ("not yet", None)]
"""An answer, and the score of the new version that leads to it; None: of twenty answers alone."""


def _store(path: Path, new: int | None) -> Path:
    results = [
        scored(number, (4 if new is None else new) if number % 2 else 4,
            labels={"prompt_version": f"v{7 + number % 2}"})
        for number in range(20 if new is None else 4_000)
    ]  # fmt: skip
    StoreFile(path).write(*(result_record(one, number) for number, one in enumerate(results)))
    return path


def _parts(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))["spec"]


@pytest.mark.parametrize(("answer", "new"), WAYS)
async def test_argo_measures_the_answer(tmp_path: Path, answer: str, new: int | None) -> None:
    spec = _parts("argo-rollouts.yaml")
    (metric,) = spec["metrics"]
    given = {"metric": "relevance", "old": "v7", "new": "v8"}
    async with explorer(_store(tmp_path / "s", new)) as (session, url):
        values = {one["name"]: one.get("value") for one in spec["args"]} | given | {"explorer": url}
        address = re.sub(r"{{args\.(\w+)}}", lambda found: values[found[1]], metric["provider"]["web"]["url"])
        async with session.get(address) as response:
            assert response.status == 200
            result = (await response.json())[metric["provider"]["web"]["jsonPath"].strip("{}$.")]
    assert result == answer
    conditions = {
        name: metric[f"{name}Condition"] == f'result == "{result}"' for name in ("success", "failure")
    }
    assert conditions == {"success": answer == "no worse", "failure": answer == "worse"}


@pytest.mark.parametrize(("answer", "new"), WAYS)
async def test_flagger_looks_at_the_status(tmp_path: Path, answer: str, new: int | None) -> None:
    statuses = {}
    async with explorer(_store(tmp_path / "s", new)) as (session, url):
        for hook in _parts("flagger.yaml")["analysis"]["webhooks"]:
            address = re.sub(r"http://[^/]+", url, hook["url"]).replace("metric=coverage", "metric=relevance")
            body = {"name": "answers", "namespace": "default", "phase": "Progressing", "checksum": "1"}
            async with session.post(address, json=body) as response:
                statuses[hook["type"]] = response.status
    assert statuses == {
        "confirm-promotion": 200 if answer == "no worse" else 409,
        "rollback": 200 if answer == "worse" else 409,
    }
