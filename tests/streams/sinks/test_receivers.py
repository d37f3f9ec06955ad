"""Requests to each receiver and the handling of its answers, against servers that answer as documented."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from judge.extensions import load
from streams.intake.reading.otlp.request import spans
from streams.kafka.record import Record
from streams.settings import Settings
from streams.sinks import delivery
from streams.sinks.base import DeliveryRefusedError, Evaluation, Opening, Sink
from streams.sinks.delivery import Delivery, SinkAgent
from tests.loopback import on_loopback
from tests.streams.results import failed, scored, unscored

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
Answer = tuple[int, Any]


def traced(number: int, score: int = 4) -> Evaluation:
    return Evaluation.of(scored(number, score).model_copy(update={"trace_id": TRACE, "span_id": SPAN}))


@dataclass
class Server:
    """Answers from a list, then with 200, and records requests."""

    answers: list[Answer] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.path_qs, dict(request.headers), await request.read()))
        status, body = self.answers.pop(0) if self.answers else (200, {})
        return web.json_response(body, status=status)

    def bodies(self) -> list[Any]:
        return [json.loads(body) for method, _, _, body in self.asked if method == "POST"]


@dataclass
class Way:
    """A delivery to the server, and its outcomes."""

    delivery: Delivery[Any]
    outcomes: dict[str, int]


@contextlib.asynccontextmanager
async def way(server: Server, kind: str, **fields: str) -> AsyncIterator[Way]:
    """Deliver to a server, with a secret for the kinds that need one."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    outcomes: dict[str, int] = {}

    def count(outcome: str, number: int) -> None:
        outcomes[outcome] = outcomes.get(outcome, 0) + number

    async with on_loopback(app) as address:
        section = {"kind": kind, "url": address, "secret_env": "KEY", **fields}
        settings = Settings.model_validate({"sinks": {"test": section}})
        output: Any = None
        opening = Opening("test", settings, {"KEY": "key"}, output, "1", lambda: 1000.7)
        sink: Sink[Any] = load("judgestream.sinks", kind, Sink)(settings.sinks["test"], opening)
        sink.linger_seconds = 0
        made = Delivery("test", sink, on_outcome=count)
        try:
            yield Way(made, outcomes)
        finally:
            await made.close()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "FIRST_WAIT_SECONDS", 0.01)


async def test_langfuse_gets_scores_that_update_by_id() -> None:
    """Langfuse gets scores with their ids and Basic authentication.

    Results without a score or a trace are skipped.
    """
    server = Server([(202, {})])
    async with way(server, "langfuse", public_key="pk") as one:
        results = (traced(1), Evaluation.of(unscored(2)), Evaluation.of(scored(3, 1)))
        await asyncio.gather(*map(one.delivery.put, results))
    ((method, path, headers, _),) = server.asked
    assert (method, path) == ("POST", "/api/public/scores")
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"pk:key").decode()
    ((score,),) = server.bodies()
    assert score["id"] == traced(1).result.result_id
    wanted = {"traceId": TRACE, "observationId": SPAN, "name": "relevance", "value": 4.0}
    assert score.items() >= (wanted | {"dataType": "NUMERIC", "comment": "Because."}).items()
    assert one.outcomes == {"delivered": 1, "skipped": 2, "refused": 0}


async def test_of_a_207_only_what_it_names_is_refused() -> None:
    first, second = traced(1), traced(2)
    server = Server([(207, {"errors": [{"index": 1, "message": "no such config", "status": 404}]})])
    async with way(server, "langfuse", public_key="pk") as one:
        taken, refused = await asyncio.gather(
            one.delivery.put(first), one.delivery.put(second), return_exceptions=True
        )
    assert taken is None
    assert isinstance(refused, DeliveryRefusedError)
    assert str(refused) == "status 404"  # without the message, which may quote the verdict
    assert len(server.asked) == 1


async def test_phoenix_gets_annotations_of_spans() -> None:
    server = Server()
    async with way(server, "phoenix") as one:
        await one.delivery.put(traced(1))
        await one.delivery.put(Evaluation.of(scored(2, 3)))  # without a span
    ((_, path, headers, _),) = server.asked
    assert path == "/v1/span_annotations?sync=false"
    assert headers["Authorization"] == "Bearer key"
    (annotation,) = server.bodies()[0]["data"]
    about = {"span_id": SPAN, "name": "relevance", "annotator_kind": "LLM", "identifier": "judgestream"}
    assert annotation.items() >= about.items()
    assert annotation["result"] == {"score": 4.0, "label": "scored", "explanation": "Because."}


async def test_mlflow_gets_an_assessment_once() -> None:
    assessments = [{"metadata": {"judgestream.result_id": traced(2).result.result_id}}]
    known = {"trace": {"trace_info": {"assessments": assessments}}}
    server = Server([(200, {}), (200, {}), (200, known)])
    async with way(server, "mlflow") as one:
        await one.delivery.put(traced(1))
        await one.delivery.put(traced(2))
    trace = f"/api/3.0/mlflow/traces/tr-{TRACE}"
    assert [(method, path) for method, path, _, _ in server.asked] == [
        ("GET", trace),
        ("POST", f"{trace}/assessments"),
        ("GET", trace),
    ]
    assessment = server.bodies()[0]["assessment"]
    wanted = {"assessment_name": "relevance", "feedback": {"value": 4.0}, "rationale": "Because."}
    assert assessment.items() >= wanted.items()


async def test_a_webhook_is_signed_over_time_and_body() -> None:
    server = Server()
    async with way(server, "webhook") as one:
        await asyncio.gather(one.delivery.put(traced(1)), one.delivery.put(Evaluation.of(failed(2))))
    ((_, _, headers, body),) = server.asked
    signature = hmac.new(b"key", b"1000." + body, hashlib.sha256).hexdigest()
    assert headers["X-Judgestream-Timestamp"] == "1000"
    assert headers["X-Judgestream-Signature"] == f"sha256={signature}"
    assert [result["status"] for result in json.loads(body)["results"]] == ["scored", "failed"]


async def test_a_collector_gets_otlp_by_http() -> None:
    server = Server()
    async with way(server, "otlp_http") as one:
        await asyncio.gather(*(one.delivery.put(traced(number)) for number in range(3)))
    ((_, _, headers, body),) = server.asked
    assert headers["Content-Type"] == "application/x-protobuf"
    assert len(spans(body)) == 3


@pytest.mark.parametrize("status", [500, 503, 429, 401])
async def test_what_may_pass_is_tried_until_it_does(status: int) -> None:
    server = Server([(status, {}), (status, {}), (200, {})])
    async with way(server, "webhook") as one:
        await one.delivery.put(traced(1))
        assert one.delivery.trouble is None
    assert len(server.asked) == 3
    assert one.outcomes == {"delivered": 1, "refused": 0}


async def test_what_will_not_pass_is_refused() -> None:
    """A permanent error is refused with its status only, because the message may quote the verdict."""
    async with way(Server([(422, {"detail": "bad span"})]), "phoenix") as one:
        with pytest.raises(DeliveryRefusedError, match=r"^HTTP 422$"):
            await one.delivery.put(traced(1))
    assert one.outcomes == {"refused": 1, "delivered": 0}


@dataclass
class Outbox:
    letters: list[tuple[str, str]] = field(default_factory=list)

    async def dead_letter(self, _: Record, reason: str, detail: str, *, event_id: str | None = None) -> None:
        del event_id
        self.letters.append((reason, detail))


@dataclass
class FakeSink:
    name: str
    take: Callable[[Evaluation], Awaitable[None]]

    async def put(self, one: Evaluation) -> None:
        await self.take(one)


async def test_a_refused_verdict_is_set_aside_and_the_others_are_taken() -> None:
    """A refused verdict becomes a dead letter that names the sink, and other sinks get it.

    A record that is not a result becomes a dead letter too.
    """
    taken: list[str] = []

    async def take(one: Evaluation) -> None:
        taken.append(one.result.event_id)

    async def refuse(_: Evaluation) -> None:
        raise DeliveryRefusedError("HTTP 404: no such trace")

    outbox: Any = Outbox()
    sinks: list[Any] = [FakeSink("a", take), FakeSink("b", refuse)]
    agent = SinkAgent(sinks, outbox)
    for value in (scored(1, 4).model_dump_json().encode(), b"nonsense"):
        record: Any = SimpleNamespace(value=value)
        await agent.handle(record)
    assert taken == ["e1"]
    assert [reason for reason, _ in outbox.letters] == ["unroutable", "undecodable"]
    assert (
        "sinks.b: the receiver refused the verdict of relevance, HTTP 404: no such trace"
        in outbox.letters[0][1]
    )
