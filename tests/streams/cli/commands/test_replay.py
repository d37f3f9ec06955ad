"""`judgestream replay --dead-letters`: the original records are sent again to their topics."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from schemas import DeadLetter, Header
from streams.cli.main import run
from streams.cli.session import session
from streams.embedded.broker import EmbeddedBroker
from streams.kafka.dead_letters import Query
from tests.streams.cli.commands.judge_server import judge_server
from tests.streams.cli.processes import COMMAND, clean_environment, judgestream

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def letter(number: int, **fields: Any) -> DeadLetter:
    return DeadLetter.model_validate(
        {
            "reason": "unroutable",
            "detail": "no metric's conditions fit",
            "topic": "qa.events",
            "partition": 0,
            "offset": number,
            "timestamp": NOON,
            "key": b"k%d" % number,
            "value": b"\x00original %d" % number,
            "value_bytes": 11,
            "headers": (Header(name="h", value=b"v"),),
            "failed_at": NOON + timedelta(minutes=number),
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (Query(), [0, 1, 2]),
        (Query(reasons=["undecodable"]), [2]),
        (Query(topics=["elsewhere"]), []),
        (Query(since=NOON + timedelta(minutes=1)), [1, 2]),
        (Query(since=NOON, until=NOON + timedelta(minutes=1)), [0]),
    ],
)
def test_which_dead_letters_are_wanted(wanted: Query, numbers: list[int]) -> None:
    """Dead letters are selected by reason, topic and time; `since` is inclusive, `until` exclusive."""
    letters = [letter(0), letter(1), letter(2, reason="undecodable")]
    assert [index for index, one in enumerate(letters) if wanted.fits(one)] == numbers


async def test_originals_are_sent_again_as_they_were() -> None:
    """Originals are sent only with --yes if there is no terminal, with key, value, time and headers.

    Truncated and unreadable dead letters are counted and not sent.
    """
    async with EmbeddedBroker(topics={"qa.events": 1, "qa.dead-letters": 2}) as broker:
        at = ("--bootstrap-servers", broker.bootstrap_servers)
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        values = [letter(0), letter(1, reason="undecodable"), letter(2, truncated=True)]
        for one in values:
            await producer.send_and_wait("qa.dead-letters", one.model_dump_json().encode(), key=one.key)
        await producer.send_and_wait("qa.dead-letters", b"nonsense")
        await producer.stop()

        asked = await judgestream("replay", "--dead-letters", *at)
        assert asked.code == 2
        assert "1 records of qa.events, set aside as unroutable" in asked.err
        assert "2 records would be sent again; add --yes" in asked.err

        sent = await judgestream("replay", "--dead-letters", *at, "--yes", "--json")
        assert sent.code == 0, sent.err
        assert json.loads(sent.out) == {
            "found": 2,
            "sent": 2,
            "refused": 0,
            "cut": 1,
            "unreadable": 1,
            "by_topic": [
                {"topic": "qa.events", "reason": "undecodable", "count": 1},
                {"topic": "qa.events", "reason": "unroutable", "count": 1},
            ],
        }
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition("qa.events", 0)])
        records = [await consumer.getone(), await consumer.getone()]
        await consumer.stop()
    assert {(one.key, one.value, one.timestamp) for one in records} == {
        (b"k0", b"\x00original 0", round(NOON.timestamp() * 1000)),
        (b"k1", b"\x00original 1", round(NOON.timestamp() * 1000)),
    }
    assert {name for one in records for name, _ in one.headers} == {"h", "judgestream-sent-again"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name what to replay by one of --from"),
        (("--dead-letters", "--rate", "0"), "--rate must be above 0"),
        (("--dead-letters", "--from", "yesterday"), "--from must be a time as in RFC 3339"),
    ],
)
def test_bad_usage_is_named(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad usage is named before a topic is read."""
    with pytest.raises(SystemExit) as ended:
        run(["replay", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.fixture
async def replaying(tmp_path: Path) -> AsyncIterator[Callable[..., Sequence[str]]]:
    """A function that returns the arguments of a replay of one event, with a judge at this address."""
    events, config = tmp_path / "events.jsonl", tmp_path / "settings.yaml"
    fields = {"question": "Where?", "answer": "Here.", "reference": "Here."}
    events.write_text(json.dumps(fields))
    async with EmbeddedBroker(topics={"qa.events": 1, "qa.scores": 1}) as broker:

        def arguments(url: str, *options: str) -> Sequence[str]:
            endpoint = {"name": "main", "base_url": url, "model": "m"}
            settings = {
                "kafka": {"bootstrap_servers": broker.bootstrap_servers},
                "metrics": {"coverage": {}},
                "judge": {"endpoints": [endpoint], "budget": "none"},
            }
            config.write_text(json.dumps(settings))  # JSON is YAML
            return "replay", "--events", str(events), "--config", str(config), "--yes", *options

        yield arguments


async def test_a_dead_judge_is_named_while_the_replay_waits(replaying: Callable[..., Sequence[str]]) -> None:
    """While no endpoint answers, the replay says so with reason and remedy; Ctrl-C ends it as usual."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *replaying("http://127.0.0.1:1/v1"),
        env=clean_environment(),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = ""
    async with asyncio.timeout(60):
        while "no judge is available" not in said:
            line = await process.stderr.readline()
            assert line, said
            said = line.decode()
        assert "waiting up to 120 s for main (m at http://127.0.0.1:1/v1): start or correct it" in said
        process.send_signal(signal.SIGINT)
        rest = (await process.stderr.read()).decode()
        assert await process.wait() == 130, rest
    assert "stopped; continue with --resume replay-" in rest


async def test_a_refusing_judge_ends_the_replay(replaying: Callable[..., Sequence[str]]) -> None:
    """A refused key is bad configuration, with the endpoint's words, not an outage to wait for."""
    async with judge_server(lambda _: "", status=401) as server:
        ended = await judgestream(*replaying(server.url))
    assert ended.code == 2
    assert "401" in ended.err


async def test_a_pack_is_blamed_by_its_option(
    replaying: Callable[..., Sequence[str]], tmp_path: Path
) -> None:
    """A pack that is missing or cannot be used is blamed on --pack, not on the settings."""
    bad = tmp_path / "bad.yaml"
    bad.write_text('messages: [{role: user, content: "{unknown_name}"}]')
    for pack, words in ((bad, "the placeholder {unknown_name} is unknown"), (tmp_path / "no.md", "no.md")):
        ended = await judgestream(*replaying("http://127.0.0.1:1/v1", "--pack", str(pack)))
        assert ended.code == 2
        assert ended.err.splitlines()[-1].startswith(f"error: --pack {pack}: ")
        assert words in ended.err
        assert "settings" not in ended.err.splitlines()[-1]
    ended = await judgestream(*replaying("http://127.0.0.1:1/v1", "--endpoint", "other"))
    assert ended.err.splitlines()[-1] == "error: --endpoint: must be one of main, got 'other'"


def test_what_is_logged_stays_out_of_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json, standard output is one JSON document, and warnings go to standard error."""
    session(None, "127.0.0.1:9092")
    structlog.stdlib.get_logger("streams.judging.endpoints").warning("no known price")
    out, err = capsys.readouterr()
    assert out == ""
    assert "no known price" in err
