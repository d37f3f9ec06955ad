"""What the judge would be sent for a sample event, metric by metric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.task import build_task
from judge.text.printable import printable
from judge.verdict.fitting import estimated_tokens, request_tokens
from schemas import QAEvent, Sampling, Source
from streams.judging.metrics import build_metrics

if TYPE_CHECKING:
    from streams.settings import Settings

SAMPLE = QAEvent(
    event_id="sample",
    question="Where is the Eiffel Tower, and since when?",
    answer="The Eiffel Tower stands in Paris. Evidence: [Page 1]\nIt was completed in 1889. Evidence: [Page 2]",
    reference="The Eiffel Tower is in Paris. It was completed in 1889.",
    context={
        "Page-1": "The tower stands on the Champ de Mars in Paris.",
        "Page-2": "Work was completed in March 1889.",
    },
)
"""Has every text that a metric may use."""
_AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SamplePrompt:
    """One metric's prompt for the sample event."""

    metric: str
    is_pack: bool
    """Whether it is from a prompt pack; the built-in ones are not shown in full."""
    request: ChatRequest

    @property
    def tokens(self) -> int:
        """Input tokens at most, estimated: every model counts in its own way."""
        return request_tokens(self.request)

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        found: dict[str, Any] = {"metric": self.metric, "estimated_tokens": self.tokens}
        if self.is_pack:
            found["messages"] = [
                {"role": one.role, "content": one.content, "estimated_tokens": estimated_tokens(one.content)}
                for one in self.request.messages
            ]
        return found

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.metric}: about {self.tokens} input tokens for a sample event (an estimate, rather too high)"
        if not self.is_pack:
            return
        for message in self.request.messages:
            yield f"  --- {message.role}, about {estimated_tokens(message.content)} tokens"
            for line in message.content.splitlines():
                yield f"  {printable(line)}"


def sample_prompts(settings: Settings) -> list[SamplePrompt]:
    """Build the prompt of each metric for the sample event.

    Raises:
        SettingsError: A metric cannot be built.
    """
    found: list[SamplePrompt] = []
    for name, metric in build_metrics(settings).items():
        task = build_task(
            SAMPLE,
            metric,
            source=Source(topic="sample", partition=0, offset=0),
            sampling=Sampling(probability=1.0, stratum="default", policy="sample"),
            recorded_at=_AT,
            sampled_at=_AT,
        )
        try:
            request = metric.prepare(task)
        except EventError:
            continue  # the settings' bounds are too tight for the sample
        if isinstance(request, ChatRequest):
            found.append(SamplePrompt(name, settings.metrics[name].prompt_pack is not None, request))
    return found
