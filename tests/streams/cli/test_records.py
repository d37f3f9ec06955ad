"""`produce`, `tail` and `map`, the commands that run until a signal, and `health`, which probes a worker."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from streams.cli.records import RecordFilter
from streams.kafka.record import Record
from streams.settings.load import load_settings
from streams.web.port import open_access
from tests.loopback import in_thread, on_loopback
from tests.streams.certificates import Authority
from tests.streams.cli.conftest import Command
from tests.streams.cli.processes import Service, judgestream, running
from tests.streams.intake.reading.otlp.building import request, span
from tests.streams.intake.reading.otlp.golden_files import GOLDEN, SAMPLES
from tests.streams.results import scored, unscored
from tests.streams.worker.serving import served
from tests.threaded_broker import broker_in_thread

HOSTILE = "\x1b[2J\x1b[31m[bold]\u202eevil\x07"


def event_line(event_id: str, answer: str = "a") -> str:
    return json.dumps({"event_id": event_id, "question": "q", "answer": answer, "labels": {"app": "docs"}})


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join([event_line("one"), "not json", "", event_line("two", HOSTILE)]) + "\n")
    return path


@pytest.fixture
def at() -> Iterator[Sequence[str]]:
    """The option that names a broker with some topics."""
    topics = {"qa.events": 1, "qa.scores": 1, "judge.tasks.relevance": 1}
    with broker_in_thread(topics=topics) as servers:
        yield "--bootstrap-servers", servers


async def next_lines(service: Service, count: int) -> list[str]:
    return [await service.line() for _ in range(count)]


async def test_produce_and_tail_work_with_the_broker_command() -> None:
    async with running("broker", "--port", "0", "--topic", "qa.events:2", "--json") as broker:
        said = json.loads(await broker.line())
        assert said["topics"] == {"qa.events": 2}
        at = ("--bootstrap-servers", said["bootstrap_servers"])
        stdin = b'{"event_id": "one",  "x": 1}\n\xff\xfe\n'
        sent = (await judgestream("produce", "-", *at, "--json", stdin=stdin)).done()
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


async def test_produce_leaves_lines_as_they_are_and_tail_shows_them_harmlessly(
    lines: Path, at: Sequence[str]
) -> None:
    sent = await judgestream("produce", str(lines), *at)
    assert sent.out.startswith("3 records on qa.events in ")
    assert "1 of them without a key" in sent.out
    async with running("tail", *at, "--topic", "qa.events", "--from-beginning") as tail:
        shown = await next_lines(tail, 3)
    assert "one [app=docs] Q: q A: a" in shown[0]
    assert shown[1].endswith("not json")
    assert r"A: \x1b[2J\x1b[31m[bold]\u202eevil\x07" in shown[2]
    assert all(line.isprintable() for line in shown)


@pytest.mark.slow
async def test_tail_follows_what_comes_after_it(lines: Path, at: Sequence[str]) -> None:
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


def test_produce_keeps_its_rate(at: Sequence[str], command: Command) -> None:
    """Four records at 20 a second take at least 3/20 s, because the first is sent at once."""
    summary = json.loads(command("produce", "-", *at, "--rate", "20", "--json", stdin=b"1\n2\n3\n4\n").out)
    assert summary["sent"] == 4
    assert summary["seconds"] >= 3 / 20


def test_a_refused_record_is_named_by_its_line(tmp_path: Path, at: Sequence[str], command: Command) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(event_line("small") + "\n" + event_line("large", "x" * 17 * 1024 * 1024) + "\n")
    ended = command("produce", path, *at)
    assert ended.code == 1
    assert ended.out.startswith("1 record on")
    assert "the broker refused 1 of the records:\n  line 2: " in ended.err


@pytest.mark.parametrize("call", [("produce", "-"), ("tail",), ("map",)])
def test_a_missing_topic_is_named_with_the_topics_that_exist(
    call: Sequence[str], at: Sequence[str], command: Command
) -> None:
    ended = command(*call, *at, "--topic", "nowhere", stdin=b"{}\n")
    ended.fails("there is no topic 'nowhere' at 127.0.0.1:", code=1)
    assert ended.err.endswith("it has judge.tasks.relevance, qa.events, qa.scores\n")


@pytest.mark.parametrize("call", [("tail",), ("produce", "-")])
def test_no_broker_is_one_error(call: Sequence[str], command: Command) -> None:
    ended = command(*call, "--bootstrap-servers", "127.0.0.1:1", stdin=b"{}\n")
    assert ended.code == 1
    assert ended.err.startswith("error: no Kafka broker answers at 127.0.0.1:1")


async def test_an_interrupted_produce_says_so(lines: Path, at: Sequence[str]) -> None:
    async with (
        running("tail", *at, "-t", "qa.events", "--from-beginning") as tail,
        running("produce", str(lines), *at, "--rate", "0.01") as sender,
    ):
        assert " one " in await tail.line()
        ended = await sender.stop(signal.SIGINT)
    assert ended.code == 130
    assert ended.out.startswith("1 record on")


@pytest.mark.parametrize("name", ["broker", "offline-judge"])
def test_a_port_in_use_is_one_error(name: str, command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ended = command(name, "--port", port)
    ended.fails(f"cannot listen on 127.0.0.1:{port}", code=1)


async def test_the_offline_judge_answers_like_an_openai_server() -> None:
    async with running("offline-judge", "--port", "0", "--json") as server:
        said = json.loads(await server.line())
        async with aiohttp.ClientSession() as session, session.get(f"{said['base_url']}/models") as response:
            models = await response.json()
        assert [one["id"] for one in models["data"]] == [said["model"]]
        assert (await server.stop()).code == 0


async def test_a_worker_that_waits_for_its_broker_can_be_told_to_stop(written: Callable[..., Path]) -> None:
    kafka, judge = {"bootstrap_servers": "127.0.0.1:1"}, {"budget": "none"}
    config = written(kafka=kafka, metrics={"coverage": {}}, judge=judge, telemetry={"port": 0})
    async with running("worker", "--config", str(config), env={"OPENAI_API_KEY": "made-up"}) as worker:
        while "broker does not answer yet" not in await worker.error_line():
            pass
        ended = await worker.stop()
    assert ended.code == 0, ended.err


def record(value: bytes | None) -> Record:
    return Record("qa.scores", 0, 0, 1.0, None, value, ())


TWO = record(scored(1, 2, labels={"app": "support", "tenant": "gold"}).model_dump_json().encode())


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({}, True),
        ({"fields": {"metric": "relevance"}}, True),
        ({"fields": {"metric": "coverage"}}, False),
        ({"fields": {"status": "scored"}}, True),
        ({"fields": {"status": "failed"}}, False),
        ({"max_score": 2}, True),
        ({"max_score": 1}, False),
        ({"fields": {"event_id": "e1"}}, True),
        ({"fields": {"event_id": "e2"}}, False),
        ({"labels": {"app": "support"}}, True),
        ({"labels": {"app": "support", "tenant": "silver"}}, False),
        ({"since": 1.0}, True),
        ({"since": 1.001}, False),
    ],
)
def test_conditions(wanted: dict[str, Any], *, fits: bool) -> None:
    assert RecordFilter(**wanted).fits(TWO) is fits


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"\xff", b"[]", b"3", b'{"labels": 3, "score": "x"}', b"[" * 10_000),
        unscored(1).model_dump_json().encode(),
    ],
)
def test_a_record_of_another_form_fits_no_condition_and_stops_nothing(value: bytes | None) -> None:
    """It fails each condition, and is shown without conditions."""
    other = record(value)
    assert RecordFilter().fits(other)
    assert not RecordFilter(labels={"app": "x"}).fits(other)
    assert not RecordFilter(max_score=5).fits(other)


@pytest.mark.parametrize("ending", [".pb", ".json"])
def test_a_file_of_traces_gives_its_events_one_a_line(ending: str, command: Command) -> None:
    name = "langfuse-sdk-5.0.4-openai"
    for more in (["--format", "otlp"], []):
        ended = command("map", SAMPLES / f"{name}{ending}", "--json", *more)
        assert json.loads(ended.out) == json.loads((GOLDEN / f"{name}.jsonl").read_text())


def test_traces_without_content_come_with_the_remedy(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "traces.json"
    file.write_bytes(request(span(1, "chat", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})))
    shown = command("map", file, "--json")
    assert (shown.code, shown.out) == (0, "")
    assert "1 without an event: no_content" in shown.err
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in shown.err


def test_json_is_shown_before_and_after(
    tmp_path: Path, written: Callable[..., Path], command: Command
) -> None:
    mapping = {"event_id": "id", "question": "q", "answer": "a", "reference": "gold"}
    config = written(ingest={"mapping": mapping}, sampling={"default_rate": 0.25})
    file = tmp_path / "events.json"
    file.write_text(json.dumps([{"id": f"e-{n}", "q": "?", "a": "!", "gold": "!"} for n in range(12)]))
    lines = list(map(json.loads, command("map", file, "--config", config, "--json").out.splitlines()))
    assert len(lines) == 10
    assert lines[3]["record"] == {"id": "e-3", "q": "?", "a": "!", "gold": "!"}
    assert lines[3]["event"]["question"] == "?"
    assert (lines[3]["probability"], lines[3]["metrics"]) == (0.25, ["coverage"])
    assert {line["kept"] for line in lines} == {True, False}


def test_a_record_that_cannot_be_read_says_why(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"event_id": "e"}\n{"event_id": "e", "question": "?", "answer": "!"}\n')
    assert "no event         question: is required" in command("map", file).out
    file.write_text("nonsense\n")
    command("map", file).fails("none of 1 records could be read", code=1)


ALIVE: dict[str, Any] = {"ok": True, "reasons": []}
STUCK: dict[str, Any] = {"ok": False, "reasons": ["the delivery loop has not run for 70 s", "stopping"]}
TELLS = "the delivery loop has not run for 70 s; stopping"
NOT_READY = f"error: /readyz answered 503: {TELLS}"


@contextmanager
def listening(alive: dict[str, Any], *ready: dict[str, Any]) -> Iterator[int]:
    """A worker's port with a fixed answer to /healthz, and these in turn to /readyz."""
    answers = {"/healthz": [alive], "/readyz": list(ready)}

    async def answer(request: web.Request) -> web.Response:
        reports = answers[request.path]
        report = reports.pop(0) if len(reports) > 1 else reports[0]
        return web.json_response(report, status=200 if report["ok"] else 503)

    app = web.Application()
    app.router.add_get("/{name}", answer)
    with in_thread(on_loopback(app)) as address:
        yield int(address.rpartition(":")[2])


@pytest.mark.parametrize(
    ("alive", "ready", "options", "host", "code", "printed"),
    [
        (ALIVE, [STUCK], "", "127.0.0.1", 0, "alive\n"),
        (ALIVE, [STUCK], "", "0.0.0.0", 0, "alive\n"),  # noqa: S104 - only a setting
        (STUCK, [ALIVE], "--ready", "127.0.0.1", 0, "ready\n"),
        (STUCK, [ALIVE], "", "127.0.0.1", 1, f"error: /healthz answered 503: {TELLS}\n"),
        ({"ok": False}, [ALIVE], "", "127.0.0.1", 1, 'error: /healthz answered 503: {"ok": false}\n'),
        (ALIVE, [STUCK, STUCK, ALIVE], "--ready --wait 60", "127.0.0.1", 0, "ready\n"),
        (ALIVE, [STUCK], "--ready --wait 0.3", "127.0.0.1", 1, f"{NOT_READY} (waited 0.3 s)\n"),
    ],
)
def test_the_exit_code_is_that_of_the_probe(
    alive: Any, ready: Any, options: str, host: str, code: int, printed: str, written: Any, command: Command
) -> None:
    with listening(alive, *ready) as port:
        config = written(telemetry={"host": host, "port": port})
        ended = command("health", *options.split(), "--config", config)
    assert (ended.code, ended.out + ended.err) == (code, printed)


def test_a_closed_port_is_named(written: Callable[..., Path], command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ended = command("health", "--config", written(telemetry={"port": port}))
    assert ended.code == 1
    assert ended.err.startswith(f"error: no answer from /healthz at port {port}: ")
    assert "refused" in ended.err


@pytest.mark.parametrize("mutual", [False, True])
def test_the_port_itself_with_tls_and_a_password(
    mutual: bool, tmp_path: Path, written: Callable[..., Path], command: Command
) -> None:
    """It shows the worker's own certificate if the port requires one. The worker is alive and not ready."""
    authority = Authority(tmp_path)
    own = authority.issue("worker", "worker.example")
    (tmp_path / "password").write_text("hidden-from-checks")
    tls = {"certificate_file": str(own.certificate), "key_file": str(own.key)}
    if mutual:
        tls["client_ca_file"] = str(authority.file)
    login = {"username": "ops", "password_file": str(tmp_path / "password")}
    telemetry: dict[str, Any] = {"tls": tls, "basic_auth": login}
    auth, context = open_access(load_settings(written(telemetry=telemetry), {}).telemetry, {})
    with in_thread(served(auth=auth, tls=context)) as url:
        config = written(telemetry=telemetry | {"port": int(url.rpartition(":")[2])})
        alive, ready = command("health", "--config", config), command("health", "--ready", "--config", config)
    assert (alive.code, alive.out) == (0, "alive\n")
    ready.fails("/readyz answered 503: no partitions assigned yet", code=1)
