from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from schemas import Scored
from streams.store.writer import Writer
from tests.streams.results import scored
from tests.streams.store.records import TOPICS, Record, batch_of, result_record, task_record
from tests.streams.store.views.explorer.test_api import explorer
from tests.streams.store.views.incidents.test_grouping import alert
from tests.streams.worker.port.test_page import PICTURES_VARIABLE
from tests.toolbox import python_with, run, tool

pytestmark = [pytest.mark.tools, pytest.mark.timeout(240)]

_DRIVE = Path(__file__).parent / "drive.py"
_EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>\u202egnorw\u202c'
_FELL = alert("a", 90 * 60, started=60 * 60, labels={"app": _EVIL[:60]})
_ANSWER = "The key is in the cupboard. Evidence: [Page 2]\nIt opens the garage. Evidence: [Page 9]"


def _evidence() -> dict[str, Any]:
    """Return two claims: the first is on Page-2, the second cites a missing page."""
    claim = {"pages": [2], "supported": True, "relevant": True, "justification": "It says so.", "page": 2}
    return {
        "claims": [
            claim | {"claim_span": _ANSWER[:27], "claim_start": 0, "claim_end": 27, "page_start": 4,
                "page_end": 30},
            claim | {"claim_span": "It opens the garage.", "claim_start": 47, "claim_end": 67,
                "supported": False, "page": None},
        ]
    }  # fmt: skip


def _hostile() -> Scored:
    labels = {"app": _EVIL[:60], "<b>": "x" * 150}
    return scored(900, 5, labels=labels, justification=_EVIL, seconds=1.0)


def _fill(path: Path) -> None:
    writer = Writer(path)
    for number in range(120):
        result = scored(
            number, 1 if number == 7 else 2 + number % 4, seconds=number * 60.0,
            labels={"app": "support" if number % 3 else "docs",
                "prompt_version": "v8" if number > 60 else "v7"},
        )  # fmt: skip
        corrections = [{"kind": "score_lowered", "detail": "5 to 4"}] if number == 7 else []
        context = {"Page-1": "Nothing.", "Page-2": "So: The key hangs in the cupboard by the door."}
        writer.write(
            batch_of(
                result_record(result, number, evidence=_evidence(), corrections=corrections),
                task_record(
                    result, question="Where is the key?", answer=_ANSWER, context=context, offset=number
                ),
            )
        )
    writer.write(batch_of(Record(TOPICS.alerts, 0, 0, _FELL.model_dump_json().encode())))
    evil = _hostile()
    pages = {f"Page-{number}": f"{_EVIL} page {number}" for number in range(1, 2_001)}
    task = task_record(evil, question=_EVIL, answer=f"{_EVIL} " + "long " * 200_000, context=pages)
    writer.write(batch_of(result_record(evil, 900, evidence=_evidence()), task))
    writer.close()


async def test_the_explorer_works_and_executes_no_text(tmp_path: Path) -> None:
    """The explorer works by keys and pointer in each size and scheme, passes axe, and executes no text."""
    pictures = Path(os.environ.get(PICTURES_VARIABLE, tmp_path))
    python, chromium = python_with("axe_playwright_python"), tool("chromium")
    _fill(tmp_path / "s")
    async with explorer(tmp_path / "s") as (_, url):
        said = await asyncio.to_thread(
            run, python, _DRIVE, url, chromium, pictures, _hostile().result_id, _FELL.alert_id
        )
    for name, seen in json.loads(said).items():
        assert not any(seen["axe"].values()), (name, seen["axe"])
        assert max(seen["overflow"].values()) <= 0, name
        # A store without a worker has no overview, which gives a 404 on the console.
        assert [one for one in seen["said"] if "404" not in one] == [], name
        hosts = {one.split("/")[2] for one in seen["asked"] if not one.startswith("data:")}
        assert hosts == {url.split("/")[2]}
        counts = (seen["all"], seen["found"], seen["back"], seen["emptied"])
        assert counts == ("121 answers", "120 answers", "121 answers", "")
        assert seen["focused"] == 0
        assert seen["labelled"] == seen["shared"] == "80 answers"
        assert [one.replace("\n", "") for one in seen["marks"]] == [
            "good:The key is in the cupboard.1", "bad:It opens the garage.2",
            "good:The key hangs in the cupbo1",
        ]  # fmt: skip
        assert seen["lit"] == 2
        assert {seen["listed"], *seen["led"]} == {f"/explore/incident/{_FELL.alert_id[:12]}"}
        for words in ("relevance fell, 1 part affected", "Worst answers since", "Copy as Markdown"):
            assert words in seen["incident"]
        if name == "dark":
            continue
        assert "U+202E" in seen["texts"]
        assert "<script>" in seen["texts"]
        assert (seen["pages"], seen["all_pages"]) == (40, 2_000)
        assert seen["hacked"] is None
        assert seen["foreign"] == 0
        assert "No answer fits" in seen["nothing"]
