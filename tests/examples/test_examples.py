"""Each program of `examples/` sends an event that its settings judge, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from judge import Judge, Scored
from streams.intake.trial import SettingsTrial, TrialOutcome, raw_record
from streams.kafka.record import Record
from streams.settings.load import load_settings
from tests.places import ROOT
from tests.streams.cli.commands.judge_server import judge_server
from tests.threaded_broker import broker_in_thread
from tests.toolbox import run

EXAMPLES = ROOT / "examples"
DEADLINE_SECONDS = 60.0


async def _sent(servers: str) -> Record:
    """The one record of the topic."""
    async with AIOKafkaConsumer(
        "qa.events", bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        record = await asyncio.wait_for(consumer.getone(), DEADLINE_SECONDS)
        return raw_record(record.value, record.key, tuple(record.headers), record.timestamp)


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
        record = await _sent(servers)
    settings = load_settings(file.parent / "settings.yaml", {})
    (outcome,) = SettingsTrial(settings).outcomes([record])
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


async def test_an_application_with_the_openai_sdk() -> None:
    """The application prints the answer, and its event names the model that answered."""
    said, outcome = await _program(EXAMPLES / "openai_sdk" / "app.py", "The Eiffel Tower is in Paris.")
    assert said.strip() == "The Eiffel Tower is in Paris."
    assert outcome.event is not None
    assert outcome.event.question == "Where is the Eiffel Tower?"
    assert outcome.event.labels["model"] == "small-2"
    assert outcome.metrics == ("answer_relevance",)
    await _verdict(outcome)


async def test_retrieval_with_pages() -> None:
    """The event has the retrieved pages, and its claim is supported by the page that it cites."""
    reply = "A full charge of the battery lasts 12 hours. Evidence: [Page 2]"
    _, outcome = await _program(EXAMPLES / "rag" / "app.py", reply)
    assert outcome.event is not None
    assert outcome.event.context is not None
    assert "Page-2" in outcome.event.context
    assert outcome.metrics == ("relevance",)
    assert (await _verdict(outcome)).score == 5


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
