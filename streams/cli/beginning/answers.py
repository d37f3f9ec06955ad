"""The answers to the questions of `judgestream init`, and the settings derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from judge.chat import OFFLINE_MODEL
from judge.endpoints.addresses import is_loopback
from streams.settings.judge import OPENAI_BASE_URL
from streams.settings.metrics import default_metrics

NEW_KAFKA: Final = "new"
OFFLINE: Final = "offline"
HOST_PORT: Final = 29092
"""Port of the compose file's broker for programs on the host."""
OFFLINE_PORT: Final = 8000

Comes = Literal["reference", "pages", "both", "neither"]
"""What the events contain besides question and answer."""

_FIELDS: Final[Mapping[Comes, tuple[str, ...]]] = {
    "reference": ("reference",),
    "pages": ("context",),
    "both": ("reference", "context"),
}


@dataclass(frozen=True, slots=True)
class Answers:
    """The five answers.

    Args:
        kafka: host:port, or `new` for a broker in the compose file.
        judge: `offline`, a model of OpenAI's, or MODEL@URL.
        usd_per_day: Budget for judging; unused if the judge's price is not known.
        rate: Share of the events to judge; None: all if the judge is free, else 5%.
    """

    kafka: str
    topic: str
    comes: Comes
    judge: str
    usd_per_day: float
    rate: float | None = None

    @property
    def is_new_kafka(self) -> bool:
        """Whether the compose file runs the broker."""
        return self.kafka == NEW_KAFKA

    @property
    def bootstrap_servers(self) -> str:
        """The broker's address on the host."""
        return f"127.0.0.1:{HOST_PORT}" if self.is_new_kafka else self.kafka

    @property
    def is_offline(self) -> bool:
        """Whether the judge is the rule-based one."""
        return self.judge == OFFLINE

    @property
    def model(self) -> str:
        """The judge's model."""
        return OFFLINE_MODEL if self.is_offline else self.judge.partition("@")[0]

    @property
    def base_url(self) -> str:
        """The judge's endpoint."""
        if self.is_offline:
            return f"http://127.0.0.1:{OFFLINE_PORT}/v1"
        return self.judge.partition("@")[2] or OPENAI_BASE_URL

    @property
    def is_free(self) -> bool:
        """Whether the judge runs on this machine, without cost per token."""
        return is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def sampled(self) -> float:
        """Share of the events to judge."""
        if self.rate is not None:
            return self.rate
        return 1.0 if self.is_free else 0.05

    @property
    def metrics(self) -> dict[str, str]:
        """The metrics to judge, each with the event field it needs."""
        fields = _FIELDS.get(self.comes, ())
        needs: dict[str, str] = {name: one.when.has[0] for name, one in default_metrics().items()}
        found = {name: field for name, field in needs.items() if field in fields}
        return found or {"answer_relevance": "question"}
