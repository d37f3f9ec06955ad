"""What each receiver gets: each line of `requests.jsonl` has verdicts, a receiver's answers, and the result.

`python -m tests.streams.sinks.test_receivers` writes what they give today; read the difference before you
commit it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from schemas import JudgeCall, Result, Times, Usage
from streams.intake.reading.otlp.reader import OtlpReader
from streams.sinks import delivery
from streams.sinks.base import Evaluation, Sink
from streams.sinks.delivery import Delivery, SinkAgent
from streams.sinks.receivers import trace_request
from tests.streams.records import Outbox
from tests.streams.results import at, failed, scored, unscored
from tests.streams.sinks.receiving import Server, way

FILE: Final = Path(__file__).parent / "requests.jsonl"
TRACED: Final = {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"}


def changed(result: Result, **fields: Any) -> Result:
    return result.model_copy(update=TRACED | fields)


def asked(number: int, **call: Any) -> Result:
    """Return the result of a call that took 2 of the 5 seconds between sampling and result."""
    judge = JudgeCall(endpoint="east", model_asked="gpt-4.1", model_answered="gpt-4.1-2025", tries=2, **call)
    usage = Usage(input_tokens=700, cached_tokens=600, output_tokens=40)
    times = Times(occurred_at=at(0), sampled_at=at(1), judged_at=at(6), judge_seconds=2)
    return changed(scored(number, 4), judge=judge, usage=usage, cost_usd=0.25, times=times)


VERDICTS: Final[Mapping[str, Result]] = {
    "sampled": changed(scored(1, 4, probability=0.25, labels={"app": "shop"}, seconds=0.453029)),
    "second": changed(scored(2, 4)),
    "untraced": scored(3, 1),
    "of no span": changed(scored(4, 4), span_id=None),
    "of another trace": scored(5, 4).model_copy(update={"trace_id": "short"}),
    "label": changed(scored(6, 4), kind="label", value="polite"),
    "boolean": changed(scored(7, 4), kind="boolean", value=True),
    "unscored": changed(unscored(8)),
    "failed": changed(failed(9)),
    "replayed": changed(scored(10, 2, replay_id="r1")),
    "asked": asked(11),
    "cached": asked(12, cached=True),
}
MESSAGES: Final[Mapping[str, Any]] = {"otlp_http": LogsData, "otlp_spans": TracesData}


async def sent(kind: str, verdicts: Sequence[str], answers: Sequence[tuple[int, Any]] = ()) -> Any:
    """Return the requests to a receiver, the outcomes, and why verdicts are refused."""
    server, keys = Server(list(answers)), {"public_key": "pk"} if kind == "langfuse" else {}
    async with way(server, kind, **keys) as one:
        puts = (one.delivery.put(Evaluation.of(VERDICTS[name])) for name in verdicts)
        ends = await asyncio.gather(*puts)
        assert one.delivery.trouble is None
    requests = []
    for method, path, headers, body in server.asked:
        message = MESSAGES.get(kind)
        shown = MessageToDict(message.FromString(body)) if message else json.loads(body or b"null")
        names = ("Authorization", "Content-Type") if method == "POST" else ("Authorization",)
        requests.append([method, path, {name: headers.get(name) for name in names}, shown])
    refused = {name: end for name, end in zip(verdicts, ends, strict=True) if end is not None}
    return {"requests": requests, "outcomes": one.outcomes, "refused": refused}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "FIRST_WAIT_SECONDS", 0.01)


@pytest.mark.parametrize("line", FILE.read_text("utf-8").splitlines())
async def test_a_receiver_gets_what_its_line_says(line: str) -> None:
    case = json.loads(line)
    assert await sent(*case["given"]) == case["gives"]


async def test_a_webhook_is_signed_over_time_and_body() -> None:
    server = Server()
    async with way(server, "webhook") as one:
        await asyncio.gather(*(one.delivery.put(Evaluation.of(each)) for each in (scored(1, 4), failed(2))))
    ((_, _, headers, body),) = server.asked
    signature = hmac.new(b"key", b"1000." + body, hashlib.sha256).hexdigest()
    assert headers["X-Judgestream-Timestamp"] == "1000"
    assert headers["X-Judgestream-Signature"] == f"sha256={signature}"
    assert [result["status"] for result in json.loads(body)["results"]] == ["scored", "failed"]


@pytest.mark.parametrize("status", [500, 503, 429, 401])
async def test_what_may_pass_is_tried_until_it_does(status: int) -> None:
    found = await sent("webhook", ["second"], [(status, {}), (status, {}), (200, {})])
    assert len(found["requests"]) == 3
    assert found["outcomes"] == {"delivered": 1, "refused": 0}


async def test_a_refused_verdict_is_set_aside_and_the_others_are_taken() -> None:
    outbox: Any = Outbox()
    taken, refusing = Server(), Server([(404, {})])
    async with way(taken, "webhook") as first, way(refusing, "webhook") as second:
        agent = SinkAgent([first.delivery, second.delivery], outbox)
        for value in (scored(1, 4).model_dump_json().encode(), b"nonsense"):
            record: Any = SimpleNamespace(value=value)
            await agent.handle(record)
    assert [one["event_id"] for body in taken.bodies() for one in body["results"]] == ["e1"]
    assert [reason for reason, _ in outbox.letters] == ["unroutable", "undecodable"]
    assert "sinks.test: the receiver refused the verdict of relevance, HTTP 404" in outbox.letters[0][1]


@pytest.mark.parametrize(
    ("gives", "ends"),
    [({"e1": None}, "None"), ({"e1": OSError("no")}, "no"), (KeyError(1), KeyError), (None, AttributeError)],
)
async def test_a_sink_that_fails_in_another_way_leaves_nobody_waiting(gives: Any, ends: Any) -> None:
    class Broken(Sink[Evaluation]):
        linger_seconds = 0

        async def send(self, batch: Sequence[Evaluation]) -> Mapping[str, str]:
            if isinstance(gives, Exception):
                raise gives
            return gives and {one.key: gives[one.result.event_id] for one in batch}

        async def close(self) -> None:
            raise OSError("it cannot be closed either")

    opening: Any = None
    broken = Delivery("broken", Broken(None, opening), on_outcome=lambda *_: None)
    put = asyncio.wait_for(broken.put(Evaluation.of(scored(1, 4))), 5)
    (end,) = await asyncio.gather(put, return_exceptions=True)
    assert ends in {end, type(end)}
    await broken.close()


def test_our_own_spans_are_not_judged() -> None:
    reader = OtlpReader(unit="trace", max_event_bytes=100_000)
    (trace,) = reader.parts(trace_request([Evaluation.of(asked(1))], version="1")).values()
    assert reader.read(trace).why_none == "ours"


if __name__ == "__main__":
    lines = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
    made = [one | {"gives": asyncio.run(sent(*one["given"]))} for one in lines]
    FILE.write_text("".join(json.dumps(one) + "\n" for one in made), encoding="utf-8")
