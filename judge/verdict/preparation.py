"""Turn a task into requests that fit the judge's context window."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.metric import Metric, Outcome
from judge.verdict.fitting import Fitted, fit
from schemas import JudgeTask

TEMPERATURE = 0.0
"""For reproducible verdicts, as far as the model allows."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """Builds requests for one metric at one endpoint.

    Args:
        metric: The metric.
        parameters: Sampling parameters of the endpoint; they override the metric's own.
        max_output_tokens: Limit of a reply; None: the metric's own.
        context_tokens: The model's context window, input and reply together; None: unknown, nothing is cut.
    """

    metric: Metric
    parameters: Mapping[str, Any]
    max_output_tokens: int | None
    context_tokens: int | None

    def __call__(self, task: JudgeTask, *, halve: bool = False) -> tuple[Fitted, ...] | Outcome:
        """Prepare a task.

        Args:
            task: The task.
            halve: Split it in two, because its reply was truncated.

        Returns:
            The requests: one per part of a long task, unless a part would have to be cut itself; or an
            outcome that needs no call.

        Raises:
            EventError: Its texts are too long.
        """
        parts = self.metric.parts(task, halve=halve)
        if len(parts) > 1:
            with suppress(EventError):
                prepared = [self._fitted(part) for part in parts]
                fitted = tuple(one for one in prepared if isinstance(one, Fitted) and not one.cuts)
                if len(fitted) == len(parts):
                    return fitted
        whole = self._fitted(task)
        return (whole,) if isinstance(whole, Fitted) else whole

    def _fitted(self, task: JudgeTask) -> Fitted | Outcome:
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
        parameters = {**request.parameters, **self.parameters}
        if request.embeds:
            return replace(request, parameters=parameters)  # no text is generated
        return replace(
            request,
            parameters=parameters,
            max_output_tokens=self.max_output_tokens or request.max_output_tokens,
            temperature=TEMPERATURE,
        )
