"""Judging of files: their formats, results in order, conversations, and the end of a run after an outage."""

from __future__ import annotations

import asyncio
import io
import json
import math
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.errors import JudgeConfigurationError, JudgeUnavailableError
from judge.evaluate.prices import ModelPrice, PriceTable
from judge.metric import unsampled_task
from judge.metrics.packs.pack import parse_pack
from judge.metrics.registry import build_metric
from schemas import JudgeTask, QAEvent, Scored, Usage
from streams.batch.engine import Batch, Checks, outage
from streams.batch.selection import FileWork, read_event
from streams.batch.sources import Format, Line, format_of, misspelt, names_of, read_lines
from streams.errors import SettingsError
from streams.intake.reading.decode import JsonReader
from streams.intake.sampling import SamplingPolicy
from streams.intake.selector import Route, Selector
from streams.judging.endpoints import metric_judges, open_pool
from streams.settings.judge import JudgeSettings
from tests.judge.endpoints.servers import DOWN, Server, judge_all, now, pooled, until, waiting
from tests.judge.scripted import ScriptedChat
from tests.judge.virtual_time import virtually
from tests.streams.results import scored

REFUSAL = JudgeConfigurationError("answered 401")


@virtually
async def test_endpoints_that_stay_down_are_given_up() -> None:
    server = Server(lambda *_: DOWN if now() % 10 < 3 else 0.1)
    judge, pool, _ = pooled(server, longest_breaker_seconds=1)
    giving_up = asyncio.create_task(outage(pool, seconds=5))
    await judge_all(judge, [str(number) for number in range(100)])
    assert not giving_up.done()
    server.behaviour = lambda *_: DOWN
    async with waiting(judge, 20):
        began = now()
        assert (await giving_up).startswith("connection refused. ")
        assert 5 <= now() - began <= 12


@pytest.mark.parametrize("seconds", [0.5, 1.5, 5, 60])
@virtually
async def test_a_refused_key_is_bad_configuration_at_any_patience(seconds: float) -> None:
    """Probes are sent after 1 and 3 s; with jitter, a refusal of 2 s may be confirmed only after 7 s."""
    judge, pool, _ = pooled(Server(lambda *_: REFUSAL), confirm_seconds=2)
    async with waiting(judge, 20) as judging:
        giving_up = asyncio.create_task(outage(pool, seconds=seconds))
        ended, _ = await asyncio.wait({giving_up, *judging}, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(JudgeConfigurationError, match="401"):
            await ended.pop()
        giving_up.cancel()
        await asyncio.gather(giving_up, return_exceptions=True)
    await pool.close()


@virtually
async def test_a_key_refused_after_answers_is_an_outage() -> None:
    server = Server(lambda *_: 0.1)
    judge, pool, _ = pooled(server, confirm_seconds=2)
    await judge_all(judge, ["a"])
    server.behaviour = lambda *_: REFUSAL
    async with waiting(judge, 20):
        assert (await outage(pool, seconds=5)).startswith("answered 401. ")
    await pool.close()


@virtually
async def test_a_pause_that_an_endpoint_asks_for_is_waited_for() -> None:
    busy = JudgeUnavailableError("quota used up", kind="rate_limited", retry_after_seconds=600)
    judge, pool, _ = pooled(Server(until(now() + 600, busy)))
    giving_up = asyncio.create_task(outage(pool, seconds=5))
    await judge_all(judge, ["a"])
    assert not giving_up.done()
    giving_up.cancel()
    await asyncio.gather(giving_up, return_exceptions=True)


def test_what_checks_used_is_kept_with_its_price() -> None:
    checks = Checks(PriceTable(endpoints={"primary": ModelPrice(1.0, 1.0)}))
    usage = Usage(input_tokens=10)
    checks.used("primary", "m", usage, for_verdict=True)
    checks.used("primary", "m", usage, for_verdict=False)
    assert checks.spent.cost_usd == pytest.approx(10e-6)
    for endpoint in ("spare", "primary"):  # one unknown price makes the sum unknown
        checks.used(endpoint, "n", usage, for_verdict=False)
    assert (checks.spent.input_tokens, checks.spent.as_json()["cost_usd"]) == (30, None)
    assert "price not known" in checks.spent.line()


async def test_a_metric_of_conversations_judges_the_whole_of_each() -> None:
    text = '{"score_range": [1, 5], "messages": [{"role": "user", "content": "{messages}"}]}'
    pack = parse_pack(text.encode(), dialect="yaml", origin="p")
    metrics = {name: build_metric(name, pack=pack) for name in ("whole", "single")}
    chat = ScriptedChat(lambda _: '{"score": 3}')

    def line(number: int, conversation: str | None) -> Line:
        said = [{"role": "user", "content": f"q{number}"}, {"role": "assistant", "content": f"a{number}"}]
        event = {"event_id": f"e{number}", "question": "q", "answer": f"a{number}", "messages": said}
        return Line(number, json.dumps(event | {"conversation_id": conversation}).encode())

    lines = [line(1, "c-2"), Line(2, b"{"), line(3, "c-1"), line(4, "c-2"), line(5, None)]
    async with open_pool(JudgeSettings(max_in_flight=2), [], chat=chat) as stack:
        judges = metric_judges(stack, metrics, {})

        async def judged(*done: str) -> list[Scored]:
            ingest = JsonReader(max_event_bytes=1_000_000)
            routes = ([Route(name)] for name in ("single", "whole"))
            single, whole = (Selector(SamplingPolicy(), one, metrics) for one in routes)
            work = FileWork(single=single, whole=whole, reader=ingest, source="f", done=done)
            batch = Batch(judges, stack)
            outcomes = [one async for one in batch.run(work.of(lines))]
            assert [place for place, one in enumerate(outcomes) if isinstance(one, Line)] == [1]
            return [one for one in outcomes if isinstance(one, Scored)]

        results = await judged()
        assert [(one.metric, one.event_id) for one in results] == [
            *(("single", f"e{number}") for number in (1, 3, 4, 5)),
            ("whole", "c-2"),
            ("whole", "c-1"),
        ]
        asked = [request.messages[-1].content for request in chat.requests]
        (conversation,) = [one for one in asked if "q1" in one and "q4" in one]
        places = [conversation.index(one) for one in ("q1", "a1", "q4", "a4")]
        assert places == sorted(places)
        again = await judged(results[-1].result_id)
        assert [one.event_id for one in again if one.metric == "whole"] == ["c-2"]


async def test_a_slow_verdict_holds_the_order_but_not_the_others() -> None:
    release, judged = asyncio.Event(), 0

    class Slow:
        async def judge(self, task: JudgeTask) -> Scored:
            nonlocal judged
            if task.event_id == "0":
                await release.wait()
            judged += 1
            if judged == 11:
                release.set()
            return scored(int(task.event_id), 3)

    async def work() -> AsyncIterator[JudgeTask]:
        for number in range(12):
            event = QAEvent(event_id=str(number), question="q", answer="a")
            yield unsampled_task(event, build_metric("tone"), source="f", now=datetime.now(UTC))

    two = JudgeSettings(max_in_flight=2)
    async with open_pool(two, [], chat=ScriptedChat(str)) as pool, asyncio.timeout(10):
        outcomes = [one async for one in Batch({"tone": Slow()}, pool).run(work())]
    assert [one.event_id for one in outcomes if isinstance(one, Scored)] == [f"e{n}" for n in range(12)]


ROW = {"event_id": "1", "question": "Where?", "answer": "In Paris."}


def lines(data: bytes, form: Format) -> list[tuple[int, object]]:
    return [(line.number, json.loads(line.value)) for line in read_lines(io.BytesIO(data), form, "f")]


@pytest.mark.parametrize(
    ("name", "given", "form"),
    [("a.JSON", None, "json"), ("a.csv", None, "csv"), ("-", None, "jsonl"), ("a.csv", "jsonl", "jsonl")],
)
def test_the_suffix_gives_the_format(name: str, given: Format | None, form: Format) -> None:
    assert format_of(Path(name), given) == form


TEXTS = {"event_id": "1", "question": "Where, then?", "answer": "In\nParis."}
CELLS = '1,"Where, then?","In\nParis.",,support,"{""Page-1"": ""text""}"\r\n'
TURN = {"role": "user"}


@pytest.mark.parametrize(
    ("form", "text", "events"),
    [
        # Blank lines are skipped but counted; a byte order mark is ignored.
        (
            "jsonl",
            '\ufeff{"event_id": "1"}\r\n\n  \n{"event_id": "2"}',
            [(1, {"event_id": "1"}), (4, {"event_id": "2"})],
        ),
        # An element that is no event is invalid by itself.
        ("json", json.dumps([ROW, 7]), [(1, ROW), (2, 7)]),
        # A column `fields.policy` is a named text; messages and tool calls are JSON.
        (
            "csv",
            'event_id,fields.policy,messages,tool_calls\n1,Be brief.,"[{""role"": ""user""}]",[]\n',
            [(2, {"event_id": "1", "fields": {"policy": "Be brief."}, "messages": [TURN], "tool_calls": []})],
        ),
        # An empty cell is a missing field; structures are JSON; the first row has number 2.
        (
            "csv",
            "\ufeffevent_id,question,answer,reference,labels.app,context\r\n" + CELLS,
            [(2, TEXTS | {"labels": {"app": "support"}, "context": {"Page-1": "text"}})],
        ),
        # The delimiter is detected from the header; quoted cells may contain it.
        *(
            (
                "csv",
                f'event_id{sign}question{sign}answer\n1{sign}"a{sign}b"{sign}x|y',
                [(2, {"event_id": "1", "question": f"a{sign}b", "answer": "x|y"})],
            )
            for sign in ";\t,"
        ),
    ],
)
def test_lines_and_rows_are_events(form: Format, text: str, events: list[tuple[int, object]]) -> None:
    assert lines(text.encode(), form) == events


def test_values_of_another_tools_table_are_normalized(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    pages = pa.map_(pa.string(), pa.string())
    table = pa.table(
        {
            "event_id": [7.0, 8.0],
            "conversation_id": [1, 1],
            "answer": pa.array(["a", "b"]).dictionary_encode(),
            "reference": [math.nan, 42.5],
            "context": pa.array([[("Page-1", "text")], None], type=pages),
            "labels": [{"tier": 1, "app": None}, {"tier": None, "app": "x"}],
            "labels.beta": [True, None],
            "labels.seconds": [0.25, math.nan],
            "sampling_probability": [0.5, None],
        }
    )
    path = tmp_path / "events.parquet"
    parquet.write_table(table, path)
    assert [event for _, event in lines(path.read_bytes(), "parquet")] == [
        {
            "event_id": "7",
            "conversation_id": "1",
            "answer": "a",
            "context": {"Page-1": "text"},
            "labels": {"tier": "1", "beta": "true", "seconds": "0.25"},
            "sampling_probability": 0.5,
        },
        {"event_id": "8", "conversation_id": "1", "answer": "b", "reference": "42.5", "labels": {"app": "x"}},
    ]


def test_a_row_with_too_many_cells_is_invalid() -> None:
    data = b"event_id,question,answer\n1,q,Yes, but,no\n\n2,q,a,,\n"
    first, second = read_lines(io.BytesIO(data), "csv", "f")
    assert first.problem == "cells: must be at most 3, got 5; quote texts with ','"
    assert (second.number, json.loads(second.value)["answer"]) == (4, "a")


@pytest.mark.parametrize(
    ("data", "form", "words"),
    [
        (b"event_id,answer,answer\n1,a,b\n", "csv", "has the column 'answer' twice; rename or remove one"),
        (b'[{"event_id": "1"}]', "jsonl", "is a JSON array, not JSON lines; add --format json"),
        (b"event_id,question,answer\n1,q,a\n", "jsonl", "a CSV header; add --format csv"),
        (b"PAR1\x15\x04", "jsonl", "is a Parquet file, not JSON lines; add --format parquet"),
        (b'{"event_id": "1"}\n', "json", "is not a JSON array of events"),
        (b'event_id,answer\n1,"x\n', "csv", "is not CSV in UTF-8"),
        (b"event_id,answer\n1,\xff\n", "csv", "is not CSV in UTF-8"),
    ],
)
def test_another_format_is_named(data: bytes, form: Format, words: str) -> None:
    with pytest.raises(SettingsError, match=words.replace("(", r"\(")):
        list(read_lines(io.BytesIO(data), form, "f"))


def test_a_misspelt_field_is_named() -> None:
    assert misspelt(["event_id", "refrence", "Answer"]) == [("refrence", "reference"), ("Answer", "answer")]
    assert misspelt(["reference", "refrence", "user", "score"]) == []
    assert names_of(b"[1]") == names_of(b"no json") == ()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"question": "q", "answer": "a"}', "line-7"),
        (b'{"event_id": 12, "question": "q", "answer": "a"}', "12"),
        (b'{"question": "q", "anser": "a"}', "answer: is required.*did you mean answer?"),
        (b"[]", "must be"),
    ],
)
def test_an_event_without_an_id_has_its_lines_number(value: bytes, found: str) -> None:
    event = read_event(Line(7, value), JsonReader(max_event_bytes=1_000))
    if isinstance(event, Line):
        assert re.search(found, event.problem)
    else:
        assert event.event_id == found


@given(st.binary(max_size=200), st.sampled_from(["jsonl", "json", "csv"]))
def test_no_bytes_break_the_reader(data: bytes, form: Format) -> None:
    ingest = JsonReader(max_event_bytes=1_000)
    try:
        for line in read_lines(io.BytesIO(data), form, "f"):
            read_event(line, ingest)
    except SettingsError:
        pass
