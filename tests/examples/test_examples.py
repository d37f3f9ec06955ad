"""The programs of `examples/`, and a reader, a sink and a metric of another package, work like ours."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from judge import Judge, Scored
from streams.intake.trial import SettingsTrial, TrialOutcome
from streams.kafka.reader import TopicReader
from streams.settings.broker import KafkaSettings
from streams.settings.load import load_settings
from tests.examples.conftest import Run
from tests.places import ROOT
from tests.streams.cli.commands.judge_server import judge_server
from tests.streams.cli.processes import Ended
from tests.threaded_broker import broker_in_thread
from tests.toolbox import run

EXAMPLES = ROOT / "examples"
DEADLINE_SECONDS = 60.0


async def _program(file: Path, reply: str, *, path: str = "") -> tuple[str, TrialOutcome]:
    """Run a program; returns its output and what its settings make of its event."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "OPENAI_API_KEY": "k", "OPENAI_MODEL": "small-2"}
    with broker_in_thread(topics={"qa.events": 1}) as servers:
        async with judge_server(lambda _: reply) as model:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(file),
                env=env | {"KAFKA": servers, "OPENAI_BASE_URL": model.url},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await asyncio.wait_for(process.communicate(), DEADLINE_SECONDS)
        assert process.returncode == 0, said.decode()
        reader = TopicReader(KafkaSettings(bootstrap_servers=servers))
        records = [record async for record in reader.read("qa.events")]
    settings = load_settings(file.parent / "settings.yaml", {})
    (outcome,) = SettingsTrial(settings).outcomes(records)
    return said.decode(), outcome


async def _verdict(outcome: TrialOutcome) -> Scored:
    assert outcome.event is not None
    async with Judge() as judge:
        result = await judge.score(outcome.event, outcome.metrics[0])
    assert isinstance(result, Scored), result
    return result


async def test_a_producer_of_five_lines() -> None:
    file = EXAMPLES / "five_lines" / "producer.py"
    _, outcome = await _program(file, "")
    assert outcome.metrics == ("coverage",)
    assert (await _verdict(outcome)).score == 5


@pytest.mark.parametrize(
    ("file", "reply", "metric"),
    [
        ("openai_sdk/app.py", "The Eiffel Tower is in Paris.", "answer_relevance"),
        ("rag/app.py", "A full charge of the battery lasts 12 hours. Evidence: [Page 2]", "relevance"),
    ],
)
async def test_an_application(file: str, reply: str, metric: str) -> None:
    said, outcome = await _program(EXAMPLES / file, reply)
    assert reply in said
    assert outcome.event is not None
    assert (outcome.event.question[-1], outcome.event.answer) == ("?", reply)
    assert outcome.event.labels["model"] == "small-2"
    assert outcome.metrics == (metric,)
    verdict = await _verdict(outcome)
    assert metric != "relevance" or verdict.score == 5


@pytest.mark.tools
@pytest.mark.timeout(400)
async def test_langchain(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    command = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", packages)
    await asyncio.to_thread(run, sys.executable, *command, "langchain-core==1.2.0")
    program = tmp_path / "settings-beside" / "program.py"
    program.parent.mkdir()
    (program.parent / "settings.yaml").write_text((EXAMPLES / "langchain" / "settings.yaml").read_text())
    program.write_text(
        "import asyncio, os\n"
        "from aiokafka import AIOKafkaProducer\n"
        "from langchain_core.language_models.fake_chat_models import FakeListChatModel\n"
        "from langchain_core.prompts import ChatPromptTemplate\n"
        "from app import QualityEvents\n"
        "async def main():\n"
        "    chain = ChatPromptTemplate.from_messages([('system', 'Be short.'), ('human', '{question}')])\n"
        "    model = FakeListChatModel(responses=['The Eiffel Tower is in Paris.'])\n"
        "    async with AIOKafkaProducer(bootstrap_servers=os.environ['KAFKA']) as producer:\n"
        "        callbacks = {'callbacks': [QualityEvents(producer)]}\n"
        "        asked = {'question': 'Where is the Eiffel Tower?'}\n"
        "        print((await (chain | model).ainvoke(asked, config=callbacks)).text)\n"
        "asyncio.run(main())\n"
    )
    path = os.pathsep.join([str(packages), str(EXAMPLES / "langchain")])
    said, outcome = await _program(program, "", path=path)
    assert said.strip() == "The Eiffel Tower is in Paris."
    assert outcome.event is not None
    assert outcome.event.question == "Where is the Eiffel Tower?"
    assert outcome.metrics == ("answer_relevance",)
    await _verdict(outcome)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/settings.yaml")), ids=lambda file: file.parent.name)
def test_each_has_valid_settings(file: Path) -> None:
    settings = load_settings(file, {})
    assert json.loads(settings.model_dump_json())["topics"]["events"] == "qa.events"
    assert settings.judge.budget.unlimited


COMMAND = "from streams.cli.main import run; run()"
SINK = """\
import asyncio
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
from tests.judge.scripted import ScriptedChat
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
    write_settings(tmp_path, {"path": "verdicts.txt", "prefix": "> ", "key_env": "KEY"})
    done = with_extensions(tmp_path, SINK).done()
    assert "'it failed'" in done.out
    for outcome in ("delivered", "refused", "skipped"):
        assert f"('lines', '{outcome}', 1)" in done.out
    assert (tmp_path / "verdicts.txt").read_text() == "> e1 4 k1\n"


def test_a_metric_is_judged(with_extensions: Run, tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text(json.dumps({"metrics": {"acme_courtesy": {}}}))
    done = with_extensions(tmp_path, METRIC).done()
    assert done.out.splitlines() == ["scored 2 acme-courtesy-1", "unscored None acme-courtesy-1"]
    model = {"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}
    with_extensions(tmp_path, COMMAND, "config", "check", "settings.yaml", **model).done()


def test_a_metric_in_code_needs_no_endpoint(with_extensions: Run, tmp_path: Path) -> None:
    """It judges all events; the settings' sinks are named with the worker that they need."""
    settings = {"metrics": {"acme_brevity": {}}, "sampling": {"default_rate": 0.1}}
    sink = {"lines": {"kind": "acme_file", "path": "verdicts.txt", "key_env": "KEY"}}
    (tmp_path / "settings.yaml").write_text(json.dumps(settings | {"sinks": sink}))
    checked = with_extensions(tmp_path, COMMAND, "config", "check", "settings.yaml", KEY="k").done()
    assert "acme_brevity: 100% of all events" in checked.out
    assert "none: code decides all metrics" in checked.out
    assert "lines, by a worker with --agents sink" in checked.out
    (tmp_path / "events.jsonl").write_text('{"event_id": "1", "question": "When?", "answer": "At nine."}')
    judged = with_extensions(tmp_path, COMMAND, "judge", "events.jsonl", "--config", "settings.yaml")
    assert json.loads(judged.out)["value"] == 0.5


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
    done = with_extensions(tmp_path, COMMAND, "config", "check", "settings.yaml")
    assert done.code == 2
    assert all(f"sinks.lines.{problem}" in done.err + done.out for problem in problems), done.err


def test_the_schema_for_editors_has_its_settings(with_extensions: Run, tmp_path: Path) -> None:
    done = with_extensions(tmp_path, COMMAND, "config", "schema")
    schema = json.loads(done.out)
    (section,) = schema["properties"]["sinks"]["patternProperties"].values()
    sink = schema["$defs"][section["$ref"].rpartition("/")[2]]["properties"]
    assert "acme_file" in sink["kind"]["enum"]
    assert {"prefix", "key_env", "key_file"} <= sink.keys()


def test_a_reader_reads_records_and_one_that_is_missing_is_named(
    with_extensions: Run, tmp_path: Path
) -> None:
    def mapped(form: str) -> Ended:
        settings = {"ingest": {"format": form}, "metrics": {"relevance": {"when": {"has": ["answer"]}}}}
        (tmp_path / "settings.yaml").write_text(json.dumps(settings))
        return with_extensions(tmp_path, COMMAND, "map", "records.txt", "--config", "settings.yaml", "--json")

    (tmp_path / "records.txt").write_text("e1|How?|So.\ne2|How?\n|How?|So.\n")
    first, second, third = map(json.loads, mapped("acme_pipe").done().out.splitlines())
    assert (first["event"]["event_id"], first["event"]["answer"]) == ("e1", "So.")
    assert (first["metrics"], first["kept"]) == (["relevance"], True)
    assert second["problem"] == "value: must have three texts, got 2"
    assert third["problem"].startswith("event_id: must have at least 1 character")
    told = "ingest.format: acme_pip is not in judgestream.readers; did you mean acme_pipe?"
    mapped("acme_pip").fails(told)
