"""From a task to a request that fits the judge; what is done with a task's texts before anybody is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from judge.chat import ChatRequest
from judge.metric import Metric, Outcome
from judge.verdict.fitting import Fitted, fit
from schemas import JudgeTask

TEMPERATURE = 0.0
"""The same answer should get the same verdict, as far as a model can do that."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a request is made with.

    Args:
        metric: How to judge.
        parameters: Sampling parameters of the endpoint; they go before the metric's own.
        max_output_tokens: Bound on a reply, in tokens; None leaves it to the metric.
        context_tokens: The model's context window, input and reply together; None: the endpoint finds out what is too long.
    """

    metric: Metric
    parameters: Mapping[str, Any]
    max_output_tokens: int | None
    context_tokens: int | None

    def __call__(self, task: JudgeTask) -> Fitted | Outcome:
        """Prepare a task.

        Raises:
            EventError: Its texts are too long.
        """
        request = self._request(task)
        if not isinstance(request, ChatRequest):
            return request
        if self.context_tokens is None:
            return Fitted(request, task)
        return fit(task, request, self._request, limit_tokens=self.context_tokens - request.max_output_tokens)

    def _request(self, task: JudgeTask) -> ChatRequest | Outcome:
        request = self.metric.prepare(task)
        if not isinstance(request, ChatRequest):
            return request
        return replace(
            request,
            parameters={**request.parameters, **self.parameters},
            max_output_tokens=self.max_output_tokens or request.max_output_tokens,
            temperature=TEMPERATURE,
        )
