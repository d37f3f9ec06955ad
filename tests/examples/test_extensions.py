"""A reader, a sink and a metric of another package are found, validated and used like ours."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.examples.conftest import Run

COMMAND = "from streams.cli.main import run; run()"
SINK = """\
import asyncio, sys
from streams.settings.load import load_settings
from streams.sinks.base import Evaluation
from streams.sinks.delivery import open_sinks
from tests.streams.results import failed, scored, unscored

async def main():
    settings = load_settings("settings.yaml")
    counted = []
    count = lambda *outcome: counted.append(outcome)
    ways = open_sinks(settings, None, version="1", env={"KEY": "k1"}, on_outcome=count)
    (way,) = ways["verdicts"]
    results = [scored(1, 4), failed(2), unscored(3)]
    outcomes = await asyncio.gather(*(way.put(Evaluation.of(one)) for one in results), return_exceptions=True)
    print([repr(one) for one in outcomes], sorted(counted))

asyncio.run(main())
"""


METRIC = """\
import asyncio
from judge import Judge
from judge.endpoints.clients import ScriptedChat
from streams.judging.metrics import build_metrics
from streams.settings.load import load_settings

async def main():
    assert list(build_metrics(load_settings("settings.yaml"))) == ["acme_courtesy"]
    async with Judge(chat=ScriptedChat(["five", '{"score": 5, "justification": "Thanks."}'])) as judge:
        for answer in ("At 9, thanks for asking.", "Why do you ask?"):
            result = await judge.score({"question": "When?", "answer": answer}, "acme_courtesy")
            print(result.status, result.judge and result.judge.tries, result.evaluator.scoring)

asyncio.run(main())
"""


def write_settings(folder: Path, sink: dict[str, str]) -> None:
    (folder / "settings.yaml").write_text(json.dumps({"sinks": {"lines": {"kind": "acme_file", **sink}}}))


def test_a_sink_takes_verdicts(with_extensions: Run, tmp_path: Path) -> None:
    """Its path is relative to the settings file, its secret is read from the environment."""
    write_settings(tmp_path, {"path": "verdicts.txt", "prefix": "> ", "key_env": "KEY"})
    done = with_extensions("-c", SINK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "DeliveryRefusedError('it failed')" in done.stdout
    for outcome in ("delivered", "refused", "skipped"):
        assert f"('lines', '{outcome}', 1)" in done.stdout
    assert (tmp_path / "verdicts.txt").read_text() == "> e1 4 k1\n"


def test_a_metric_is_judged(with_extensions: Run, tmp_path: Path) -> None:
    """It is asked, its invalid reply is repaired, and it may leave an answer unscored."""
    (tmp_path / "settings.yaml").write_text(json.dumps({"metrics": {"acme_courtesy": {}}}))
    done = with_extensions("-c", METRIC, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["scored 2 acme-courtesy-1", "unscored None acme-courtesy-1"]
    model = {"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}
    checked = with_extensions("-c", COMMAND, "config", "check", "settings.yaml", cwd=tmp_path, **model)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("sink", "problems"),
    [
        (
            {"path": "verdicts.txt", "prefix": "far too long", "key": "in the file"},
            ["prefix: must have at most 10 characters", "key: must not be in the file; use key_env"],
        ),
        ({"paht": "x", "key_env": "KEY"}, ["path: is required", "paht is not a setting; did you mean path?"]),
    ],
)
def test_its_own_model_validates_its_settings(
    with_extensions: Run, tmp_path: Path, sink: dict[str, str], problems: list[str]
) -> None:
    write_settings(tmp_path, sink)
    done = with_extensions("-c", COMMAND, "config", "check", "settings.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert all(f"sinks.lines.{problem}" in done.stderr + done.stdout for problem in problems), done.stderr


def test_the_schema_for_editors_has_its_settings(with_extensions: Run, tmp_path: Path) -> None:
    done = with_extensions("-c", COMMAND, "config", "schema", cwd=tmp_path)
    schema = json.loads(done.stdout)
    (section,) = schema["properties"]["sinks"]["patternProperties"].values()
    sink = schema["$defs"][section["$ref"].rpartition("/")[2]]["properties"]
    assert "acme_file" in sink["kind"]["enum"]
    assert {"prefix", "key_env", "key_file"} <= sink.keys()


def map_records(run: Run, folder: Path, form: str) -> CompletedProcess[str]:
    settings = {"ingest": {"format": form}, "metrics": {"relevance": {"when": {"has": ["answer"]}}}}
    (folder / "settings.yaml").write_text(json.dumps(settings))
    (folder / "records.txt").write_text("e1|How?|So.\ne2|How?\n|How?|So.\n")
    command = ("map", "records.txt", "--config", "settings.yaml", "--json")
    return run("-c", COMMAND, *command, cwd=folder)


def test_a_reader_reads_records(with_extensions: Run, tmp_path: Path) -> None:
    done = map_records(with_extensions, tmp_path, "acme_pipe")
    assert done.returncode == 0, done.stderr
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert (first["event"]["event_id"], first["event"]["answer"]) == ("e1", "So.")
    assert (first["metrics"], first["kept"]) == (["relevance"], True)
    assert second["problem"] == "value: must have three texts, got 2"
    assert third["problem"].startswith("event_id: must have at least 1 character")


def test_a_reader_that_is_missing_is_named(with_extensions: Run, tmp_path: Path) -> None:
    done = map_records(with_extensions, tmp_path, "acme_pip")
    assert done.returncode == 2
    assert "ingest.format: acme_pip is not in judgestream.readers; did you mean acme_pipe?" in done.stderr
