"""Nothing is published by a step that no dry run has tried."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import yaml

from tests.places import ROOT
from tests.streams.results import scored
from tests.streams.store.records import StoreFile
from tests.streams.store.views.serving import explorer
from tests.toolbox import run, tool

WORKFLOWS = ROOT / ".github/workflows"
_UNRELEASED = "## [Unreleased]\n"
SCRIPT = run_path(str(ROOT / ".ci/release.py"))
Release = SCRIPT["Release"]
VERSIONED = ("pyproject.toml", "CHANGELOG.md", "helm/Chart.yaml")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in VERSIONED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_versions_agree() -> None:
    Release().check()


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("helm/Chart.yaml", "\nversion: ", "\nversion: 9", "helm/Chart.yaml: version is 9"),
        ("helm/Chart.yaml", 'appVersion: "', 'appVersion: "9', "helm/Chart.yaml: appVersion is 9"),
        ("CHANGELOG.md", "## [", "## [9.9.9] - 2030-01-01\n\n## [", "the first released version is 9.9.9"),
        ("CHANGELOG.md", _UNRELEASED, f"{_UNRELEASED}\n- More.\n", "has changes under Unreleased"),
    ],
)
def test_a_version_that_differs_is_named(
    tree: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str, named: str
) -> None:
    monkeypatch.setenv("TAG", "v" + Release().version)
    text = (tree / file).read_text(encoding="utf-8")
    (tree / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SystemExit, match=re.escape(named)):
        Release(tree).check()


def test_another_tag_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAG", "v9.9.9")
    with pytest.raises(SystemExit, match=r"TAG is 9\.9\.9"):
        Release().check()


def test_the_notes_are_one_version_of_the_changelog(tree: Path) -> None:
    text = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    earlier = "## [0.0.1] - 2020-01-01\n\nEarlier.\n\n[Unreleased]: "
    (tree / "CHANGELOG.md").write_text(text.replace("[Unreleased]: ", earlier, 1), encoding="utf-8")
    notes = Release(tree).notes_of_version()
    assert notes.startswith("The first release")
    assert "Earlier" not in notes
    assert "[Unreleased]" not in notes


def test_the_release_workflow_runs_each_step_of_the_script_and_nothing_else() -> None:
    jobs = yaml.safe_load((WORKFLOWS / "release.yaml").read_text(encoding="utf-8"))["jobs"].values()
    commands = [
        step["run"] for job in jobs for step in job["steps"] if "login" not in step.get("run", "login")
    ]
    steps = [re.fullmatch(r'make release STEPS="([a-z -]+)"', command) for command in commands]
    assert all(steps), commands
    assert {name for step in steps if step for name in step[1].split()} == set(SCRIPT["STEPS"])


def test_a_dry_run_publishes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    release = Release(dry_run=True)
    release.root = Path("/nonexistent")  # a command that ran would fail here
    for name, step in SCRIPT["STEPS"].items():
        if name == "push-image" or ("publish" in name and name != "publish-release"):
            step(release)
    said = capsys.readouterr().out.splitlines()
    assert len(said) > 10
    assert all(line.startswith("would run: ") for line in said)


@pytest.mark.tools
def test_the_workflows_are_valid_and_have_no_known_weakness() -> None:
    run(tool("actionlint"), cwd=ROOT)
    run(tool("zizmor"), "--offline", "--quiet", WORKFLOWS)


FOLDER = ROOT / "deploy" / "releases"
WAYS = [("no worse", 4), ("worse", 1), ("not yet", None)]
"""An answer, and the score of the new version that leads to it; None: of twenty answers alone."""


def _store(path: Path, new: int | None) -> Path:
    results = [
        scored(number, (4 if new is None else new) if number % 2 else 4,
            labels={"prompt_version": f"v{7 + number % 2}"})
        for number in range(20 if new is None else 4_000)
    ]  # fmt: skip
    StoreFile(path).write(*results)
    return path


def _parts(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))["spec"]


@pytest.mark.parametrize(("answer", "new"), WAYS)
async def test_argo_measures_the_answer_and_flagger_looks_at_the_status(
    tmp_path: Path, answer: str, new: int | None
) -> None:
    spec, statuses = _parts("argo-rollouts.yaml"), {}
    (metric,) = spec["metrics"]
    given = {"metric": "relevance", "old": "v7", "new": "v8"}
    async with explorer(_store(tmp_path / "s", new)) as (session, url):
        values = {one["name"]: one.get("value") for one in spec["args"]} | given | {"explorer": url}
        address = re.sub(r"{{args\.(\w+)}}", lambda found: values[found[1]], metric["provider"]["web"]["url"])
        async with session.get(address) as response:
            assert response.status == 200
            result = (await response.json())[metric["provider"]["web"]["jsonPath"].strip("{}$.")]
        for hook in _parts("flagger.yaml")["analysis"]["webhooks"]:
            address = re.sub(r"http://[^/]+", url, hook["url"]).replace("metric=coverage", "metric=relevance")
            body = {"name": "answers", "namespace": "default", "phase": "Progressing", "checksum": "1"}
            async with session.post(address, json=body) as response:
                statuses[hook["type"]] = response.status
    assert result == answer
    conditions = {
        name: metric[f"{name}Condition"] == f'result == "{result}"' for name in ("success", "failure")
    }
    assert conditions == {"success": answer == "no worse", "failure": answer == "worse"}
    assert statuses == {
        "confirm-promotion": 200 if answer == "no worse" else 409,
        "rollback": 200 if answer == "worse" else 409,
    }
