"""Estimate what judging some tasks costs: those of a replay, or of a case of `config test`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.evaluate.evaluator import request_tokens
from judge.metric import Metric
from schemas import JudgeTask, Result, Usage
from streams.judging.endpoints import price_of, voters
from streams.settings.judge import EndpointSettings
from streams.settings.metrics import MetricSettings

REPLY_TOKENS: Final = 400
"""Assumed output tokens of a reply, if no earlier result tells them."""


def request_of(metric: Metric, task: JudgeTask) -> ChatRequest | None:
    """Return what a judge would be asked; None if it would not be, or the task's texts are too long."""
    try:
        request = metric.prepare(task)
    except EventError:
        return None
    return request if isinstance(request, ChatRequest) else None


@dataclass(slots=True)
class MeanReply:
    """The mean length of replies to one metric."""

    count: int = 0
    tokens: float = REPLY_TOKENS

    def add(self, result: Result) -> None:
        """Add a result's reply, unless it came from the cache or without a call."""
        cached = result.judge is not None and result.judge.cached
        if result.times.judge_seconds is not None and not cached:
            self.count += 1
            self.tokens += (result.usage.output_tokens - self.tokens) / self.count


@dataclass(slots=True)
class Load:
    """What is asked of one endpoint, or of all."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Estimate:
    """The calls of a number of tasks, votes included; input tokens are estimated high.

    Args:
        replies: Mean replies by metric, as far as they are known.
    """

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        settings: Mapping[str, MetricSettings],
        endpoints: Sequence[EndpointSettings],
        replies: Mapping[str, MeanReply] | None = None,
    ) -> None:
        self._metrics = metrics
        self._endpoints = {one.name: one for one in endpoints}
        self._voters = {name: voters(settings[name], endpoints) for name in metrics}
        self._writes_none = frozenset(name for name in metrics if settings[name].embeds)
        self._replies = replies or {}
        self.total = Load()
        self._loads: dict[str, Load] = {}

    def add(self, task: JudgeTask) -> None:
        """Add the calls of a task."""
        name = task.metric
        asked = self._voters[name]
        request = request_of(self._metrics[name], task) if asked else None
        if request is None:
            return
        tokens = request_tokens(request)
        reply = self._replies.get(name) or MeanReply()
        output_tokens = 0 if name in self._writes_none else round(reply.tokens)
        for endpoint in asked:
            for load in (self.total, self._loads.setdefault(endpoint.name, Load())):
                load.calls += 1
                load.input_tokens += tokens
                load.output_tokens += output_tokens

    @property
    def cost_usd(self) -> float | None:
        """None if the price of an endpoint is unknown."""
        cost = 0.0
        for name, load in self._loads.items():
            price = price_of(self._endpoints[name])
            if price is None:
                return None
            usage = Usage(input_tokens=load.input_tokens, output_tokens=load.output_tokens)
            cost += price.cost_usd(usage)
        return cost
