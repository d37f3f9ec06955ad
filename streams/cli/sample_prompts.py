"""The prompt of each metric for a sample event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.evaluate.evaluator import estimated_tokens, request_tokens
from judge.evaluate.guard import neutral_task
from judge.text.printable import printable
from streams.judging.metrics import build_metrics

if TYPE_CHECKING:
    from streams.settings import Settings

_AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SamplePrompt:
    """One metric's prompt for the sample event."""

    metric: str
    is_pack: bool
    """Whether it is from a prompt pack; built-in prompts are not shown in full."""
    request: ChatRequest

    @property
    def tokens(self) -> int:
        """Input tokens, estimated high because tokenizers differ."""
        return request_tokens(self.request)

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        found: dict[str, Any] = {"metric": self.metric, "estimated_tokens": self.tokens}
        if self.is_pack:
            found["messages"] = [
                {"role": one.role, "content": one.content, "estimated_tokens": estimated_tokens(one.content)}
                for one in self.request.messages
            ]
        return found

    def lines(self) -> Iterator[str]:
        """Yield it as lines for people."""
        yield (f"{self.metric}: about {self.tokens} input tokens for a sample event (estimated high)")
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
        if metric.mode == "code":
            continue  # no prompt
        task = neutral_task(metric, now=_AT)
        try:
            request = metric.prepare(task)
        except EventError:
            continue  # the settings' limits are too small for the sample
        if isinstance(request, ChatRequest):
            found.append(SamplePrompt(name, settings.metrics[name].prompt_pack is not None, request))
    return found
