"""Endpoints that behave as a test says, and a judge over them, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from judge.chat import ChatClient, ChatReply, ChatRequest
from judge.endpoints.options import EndpointObserver, EndpointOptions, Patience
from judge.endpoints.pool import EndpointPool, JudgingOptions
from judge.endpoints.retrying import RetryingJudge
from judge.errors import JudgeUnavailableError
from judge.evaluate.guard import NEUTRAL_EVENT
from judge.evaluate.prices import PriceTable
from schemas import Failed, JudgeTask, Result, Usage
from tests.judge.tasks import TONE, make_task

NEUTRAL = NEUTRAL_EVENT.answer
"""The metric's prompt for the neutral event, which tests an endpoint."""
DOWN = JudgeUnavailableError("connection refused")
HANG = object()

Behaviour = Callable[["Server", str], Any]
"""Maps a server and the text of an answer to a call's outcome: an error, HANG, a reply after its own seconds,
or the seconds until the usual one."""


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Server:
    behaviour: Behaviour
    endpoint: str = "primary"
    model: str = "m-1"
    calls: list[tuple[float, str]] = field(default_factory=list)
    requests: list[ChatRequest] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    neutral_in_flight: int = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        text = request.messages[-1].content
        self.calls.append((now(), text))
        self.requests.append(request)
        own = text != NEUTRAL  # a neutral call takes no slot
        self.in_flight += own
        self.neutral_in_flight += not own
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            said = self.behaviour(self, text)
            if isinstance(said, Exception):
                await asyncio.sleep(0.01)
                raise said
            if said is HANG:
                await asyncio.Event().wait()
            if isinstance(said, ChatReply):
                await asyncio.sleep(said.seconds)
                return said
            limits = None
            if isinstance(said, tuple):
                said, limits = said
            await asyncio.sleep(said)
        finally:
            self.in_flight -= own
            self.neutral_in_flight -= not own
        return ChatReply(text='{"score": 4}', model=self.model, usage=Usage(), seconds=said, limits=limits)

    async def close(self) -> None:
        """Nothing to close."""


class Notes(EndpointObserver):
    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.downs: list[tuple[str, bool]] = []
        self.tokens: Counter[tuple[str, bool]] = Counter()
        self.models: list[tuple[str, str, str]] = []
        self.failed: Counter[str] = Counter()

    def asked(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        assert model
        assert seconds >= 0
        self.outcomes[endpoint, outcome] += 1

    def used(
        self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool, price_factor: float = 1.0
    ) -> None:
        assert model
        assert price_factor == 1
        self.tokens[endpoint, for_verdict] += usage.input_tokens

    def down(self, endpoint: str, reason: str | None) -> None:
        self.downs.append((endpoint, reason is not None))

    def model_changed(self, endpoint: str, before: str, after: str) -> None:
        self.models.append((endpoint, before, after))

    def failed_event(self, endpoint: str, tries: int) -> None:
        self.failed[endpoint] += tries


def task(text: str = "a") -> JudgeTask:
    return make_task("tone", answer=text)


def pooled(
    *endpoints: ChatClient | EndpointOptions,
    max_in_flight: int = 64,
    prices: PriceTable | None = None,
    **patience: Any,
) -> tuple[RetryingJudge, EndpointPool, Notes]:
    """A judge over endpoints, without jitter, on the running loop's clock."""
    notes = Notes()
    given = [one if isinstance(one, EndpointOptions) else EndpointOptions(one) for one in endpoints]
    pool = EndpointPool(
        given,
        JudgingOptions(max_in_flight=max_in_flight, patience=Patience(**patience)),
        prices=prices,
        observer=notes,
        chance=lambda: 1.0,
        clock=asyncio.get_running_loop().time,
    )
    judge = pool.judge(TONE)
    assert isinstance(judge, RetryingJudge)
    return judge, pool, notes


async def judge_all(judge: RetryingJudge, texts: Sequence[str]) -> list[Result]:
    return await asyncio.gather(*(judge.judge(task(text)) for text in texts))


def scripted(lines: Sequence[Any]) -> Callable[[], Any]:
    """Return what gives the lines in order, and the last one from then on."""
    left = list(lines)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def until(moment: float, error: Exception, then: float = 0.1) -> Behaviour:
    return lambda *_: error if now() < moment else then


def kind_of(result: Result) -> str:
    return result.error_type if isinstance(result, Failed) else result.status


@asynccontextmanager
async def judging(
    behaviour: Behaviour, **values: Any
) -> AsyncIterator[tuple[RetryingJudge, EndpointPool, Server]]:
    server = Server(behaviour)
    judge, pool, _ = pooled(server, **values)
    async with pool:
        yield judge, pool, server


async def paced(
    judge: RetryingJudge, texts: Iterable[str], *, a_second: float
) -> dict[str, list[asyncio.Task[Result]]]:
    """Judge events at a steady rate; the tasks by the first word of their texts."""
    tasks: dict[str, list[asyncio.Task[Result]]] = {}
    for text in texts:
        tasks.setdefault(text.split()[0], []).append(asyncio.create_task(judge.judge(task(text))))
        await asyncio.sleep(1 / a_second)
    return tasks


@asynccontextmanager
async def waiting(judge: RetryingJudge, count: int) -> AsyncIterator[list[asyncio.Task[Result]]]:
    tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(count)]
    yield tasks
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
