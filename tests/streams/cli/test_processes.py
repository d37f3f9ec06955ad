from __future__ import annotations

import asyncio
import io
import json
import signal
import socket
from pathlib import Path

import aiohttp
import pytest
from aiokafka import AIOKafkaProducer

from streams.embedded.broker import EmbeddedBroker
from tests.streams.cli.processes import Service, judgestream, running
from tests.streams.cli.test_main import call
from tests.streams.results import scored, task_of

HOSTILE = "\x1b[2J\x1b[31m[bold]\u202eevil\x07"


def event_line(event_id: str, answer: str = "a") -> str:
    return json.dumps({"event_id": event_id, "question": "q", "answer": answer, "labels": {"app": "docs"}})


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join([event_line("one"), "not json", "", event_line("two", HOSTILE)]) + "\n")
    return path


async def next_lines(service: Service, count: int) -> list[str]:
    return [await service.line() for _ in range(count)]


async def test_produce_and_tail_work_with_the_broker_command() -> None:
    """`broker` prints its address, `produce` reads standard input, and `tail --json` prints the records."""
    async with running("broker", "--port", "0", "--topic", "qa.events:2", "--json") as broker:
        said = json.loads(await broker.line())
        assert said["topics"] == {"qa.events": 2}
        at = ("--bootstrap-servers", said["bootstrap_servers"])
        sent = await judgestream(
            "produce", "-", *at, "--json", stdin=b'{"event_id": "one",  "x": 1}\n\xff\xfe\n'
        )
        assert sent.code == 0, sent.err
        summary = json.loads(sent.out)
        assert (summary["topic"], summary["sent"], summary["without_key"]) == ("qa.events", 2, 1)
        async with running("tail", *at, "--topic", "qa.events", "--from-beginning", "--json") as tail:
            records = [json.loads(line) for line in await next_lines(tail, 2)]
            assert (await tail.stop(signal.SIGINT)).code == 0
        by_key = {record["key"]: record for record in records}
        assert by_key["one"]["value"] == {"event_id": "one", "x": 1}
        assert by_key[None]["value_base64"] == "//4="  # ff fe
        ended = await broker.stop()
        assert (ended.code, ended.err) == (0, "")


async def test_produce_leaves_lines_as_they_are_and_tail_shows_them_harmlessly(lines: Path) -> None:
    """`produce` sends the file's bytes unchanged, and `tail` escapes control characters."""
    async with EmbeddedBroker(topics={"qa.events": 1}) as broker:
        at = ("--bootstrap-servers", broker.bootstrap_servers)
        sent = await judgestream("produce", str(lines), *at)
        assert sent.out.startswith("3 records on qa.events in ")
        assert "1 of them without a key" in sent.out
        async with running("tail", *at, "--topic", "qa.events", "--from-beginning") as tail:
            shown = await next_lines(tail, 3)
        assert "one [app=docs] Q: q A: a" in shown[0]
        assert shown[1].endswith("not json")
        assert r"A: \x1b[2J\x1b[31m[bold]\u202eevil\x07" in shown[2]
        assert all(line.isprintable() for line in shown)


async def test_tail_shows_the_texts_of_results() -> None:
    """`tail --texts` shows question and answer from the tasks, or that they are not kept."""
    known, lost = scored(1, 4), scored(2, 2)
    async with EmbeddedBroker(topics={"qa.scores": 1, "judge.tasks.relevance": 1}) as broker:
        at = ("--bootstrap-servers", broker.bootstrap_servers)
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        task = task_of(known, question="Where is\nthe key?", answer="In the cupboard.")
        await producer.send_and_wait("judge.tasks.relevance", task.model_dump_json().encode())
        for one in (known, lost):
            headers = [("result_id", one.result_id.encode())]
            await producer.send_and_wait("qa.scores", one.model_dump_json().encode(), headers=headers)
        await producer.stop()
        async with running("tail", *at, "--texts", "--from-beginning") as tail:
            shown = await next_lines(tail, 5)
            assert (await tail.stop(signal.SIGINT)).code == 0
    assert "relevance 4 e1" in shown[0]
    assert shown[1:3] == ["    Q: Where is the key?", "    A: In the cupboard."]
    assert shown[4] == "    text not kept"
    refused = await judgestream("tail", "-b", "127.0.0.1:9", "--texts", "--json")
    assert "--texts is for the results' topic" in refused.err


@pytest.mark.slow
async def test_tail_follows_what_comes_after_it(lines: Path) -> None:
    """Without --from-beginning `tail` prints only records that arrive after it started."""
    async with EmbeddedBroker(topics={"qa.events": 1}) as broker:
        at = ("--bootstrap-servers", broker.bootstrap_servers)
        await judgestream("produce", str(lines), *at)
        async with running("tail", *at, "--topic", "qa.events") as tail:
            following = asyncio.create_task(tail.line())
            # `tail` does not report when it is subscribed, so events are sent until one arrives.
            for _ in range(50):
                await judgestream("produce", "-", *at, stdin=event_line("new").encode())
                await asyncio.wait({following}, timeout=0.2)
                if following.done():
                    break
            assert " new " in await following


async def test_produce_keeps_its_rate() -> None:
    """Four records at 20 a second take at least 3/20 s, because the first is sent at once."""
    async with EmbeddedBroker(topics={"qa.events": 1}) as broker:
        sent = await judgestream(
            "produce", "-", "-b", broker.bootstrap_servers, "--rate", "20", "--json", stdin=b"1\n2\n3\n4\n"
        )
        summary = json.loads(sent.out)
        assert summary["sent"] == 4
        assert summary["seconds"] >= 3 / 20


async def test_a_refused_record_is_named_by_its_line(tmp_path: Path) -> None:
    """A record above the broker's limit of 16 MiB is named by its line; the other is sent."""
    path = tmp_path / "events.jsonl"
    path.write_text(event_line("small") + "\n" + event_line("large", "x" * 17 * 1024 * 1024) + "\n")
    async with EmbeddedBroker(topics={"qa.events": 1}) as broker:
        ended = await judgestream("produce", str(path), "-b", broker.bootstrap_servers)
    assert ended.code == 1
    assert ended.out.startswith("1 record on")
    assert "the broker refused 1 of the records:\n  line 2: " in ended.err


async def test_a_missing_topic_is_named_with_the_topics_that_exist() -> None:
    """`produce` and `tail` create no topic and do not wait for one."""
    async with EmbeddedBroker(topics={"other": 1}) as broker:
        ended = await judgestream("produce", "-", "-b", broker.bootstrap_servers, stdin=b"{}\n")
        again = await judgestream("tail", "-b", broker.bootstrap_servers)
    assert ended.code == again.code == 1
    assert "there is no topic 'qa.events' at 127.0.0.1:" in ended.err
    assert "there is no topic 'qa.scores'" in again.err
    assert again.err.endswith("it has other\n")


def test_an_empty_settings_file_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Empty settings do not start a worker, even if the environment names a paid endpoint."""
    monkeypatch.setenv("OPENAI_API_KEY", "made-up")
    config = tmp_path / "settings.yaml"
    config.write_text("")
    for command in (("worker", "--config"), ("config", "check")):
        assert call(*command, str(config)) == 2
        said = capsys.readouterr().err
        assert "2 problems in the settings" in said
        assert "metrics: is required" in said
        assert (
            "judge.budget: is required, because gpt-4.1-mini at https://api.openai.com/v1 is paid per token"
            in said
        )


@pytest.mark.parametrize("command", [("tail",), ("produce", "-")])
def test_no_broker_is_one_error(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker that refuses the connection is one error (no process listens on port 1)."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{}\n")))
    assert call(*command, "--bootstrap-servers", "127.0.0.1:1") == 1
    assert capsys.readouterr().err.startswith("error: no Kafka broker answers at 127.0.0.1:1")


@pytest.mark.parametrize("command", ["broker", "offline-judge"])
def test_a_port_in_use_is_one_error(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A port in use gives exit code 1 and an error that names it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert call(command, "--port", str(port)) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


async def test_the_offline_judge_answers_like_an_openai_server() -> None:
    """The printed address lists the printed model, and SIGTERM ends the server with exit code 0."""
    async with running("offline-judge", "--port", "0", "--json") as server:
        said = json.loads(await server.line())
        async with aiohttp.ClientSession() as session, session.get(f"{said['base_url']}/models") as response:
            models = await response.json()
        assert [one["id"] for one in models["data"]] == [said["model"]]
        assert (await server.stop()).code == 0


@pytest.mark.slow
async def test_worker_judges_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """A worker judges an event, `tail` shows its result, and SIGTERM stops the worker with exit code 0."""
    config = tmp_path / "settings.yaml"
    event = {
        "event_id": "one", "question": "Where is the tower?",
        "reference": "The tower is in Paris.", "answer": "The tower is in Paris.",
    }  # fmt: skip
    async with (
        EmbeddedBroker(topics={"qa.events": 1}) as broker,
        running("offline-judge", "--port", "0", "--json") as judge,
    ):
        said = json.loads(await judge.line())
        config.write_text(
            json.dumps(
                {
                    "kafka": {"bootstrap_servers": broker.bootstrap_servers, "start": "earliest"},
                    "metrics": {"coverage": {}},
                    "topics": {"create": True},
                    "judge": {
                        "endpoints": [
                            {"name": "offline", "base_url": said["base_url"], "model": said["model"]}
                        ]
                    },
                    "telemetry": {"port": 0},
                }
            )
        )
        at = ("--bootstrap-servers", broker.bootstrap_servers)
        assert (await judgestream("produce", "-", *at, stdin=json.dumps(event).encode())).code == 0
        async with running("worker", "--config", str(config)) as worker:
            # The worker creates the topic of results when it starts.
            for _ in range(100):
                if "qa.scores" in (await judgestream("tail", *at, "--topic", "no-such-topic")).err:
                    break
            async with running("tail", "--config", str(config), "--from-beginning") as tail:
                line = await tail.line()
            ended = await worker.stop()
        assert " coverage 5 one " in line
        assert ended.code == 0, ended.err


def test_a_worker_without_a_judge_is_bad_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker without an endpoint is bad configuration, before it connects to a broker."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    config = tmp_path / "settings.yaml"
    config.write_text(json.dumps({"kafka": {"bootstrap_servers": "127.0.0.1:1"}, "telemetry": {"port": 0}}))
    assert call("worker", "--config", str(config)) == 2
    assert "judge.endpoints: names no endpoint" in capsys.readouterr().err


async def test_a_worker_that_waits_for_its_broker_can_be_told_to_stop(tmp_path: Path) -> None:
    """SIGTERM stops a worker that waits for its broker with exit code 0."""
    config = tmp_path / "settings.yaml"
    settings = {
        "kafka": {"bootstrap_servers": "127.0.0.1:1"},
        "metrics": {"coverage": {}},
        "judge": {"budget": "none"},
        "telemetry": {"port": 0},
    }
    config.write_text(json.dumps(settings))
    env = {"OPENAI_API_KEY": "made-up"}
    async with running("worker", "--config", str(config), env=env) as worker:
        while "broker does not answer yet" not in await worker.error_line():
            pass
        ended = await worker.stop()
    assert ended.code == 0, ended.err


async def test_an_interrupted_produce_says_so(lines: Path) -> None:
    """SIGINT ends `produce` with exit code 130 after it has confirmed and counted the records sent."""
    async with EmbeddedBroker(topics={"qa.events": 1}) as broker:
        at = ("-b", broker.bootstrap_servers)
        async with (
            running("tail", *at, "-t", "qa.events", "--from-beginning") as tail,
            running("produce", str(lines), *at, "--rate", "0.01") as sender,
        ):
            assert " one " in await tail.line()
            ended = await sender.stop(signal.SIGINT)
    assert ended.code == 130
    assert ended.out.startswith("1 record on")
