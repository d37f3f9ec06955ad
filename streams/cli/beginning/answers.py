"""What a newcomer was asked, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from judge.chat import OFFLINE_MODEL
from judge.endpoint.hosts import is_loopback
from streams.settings.sections.judge import OPENAI_BASE_URL
from streams.settings.sections.metric import default_metrics

NEW_KAFKA: Final = "new"
OFFLINE: Final = "offline"
HOST_PORT: Final = 29092
"""Where the compose file's broker listens for programs outside of it."""
OFFLINE_PORT: Final = 8000

Comes = Literal["reference", "pages", "both", "neither"]
"""What comes with an answer."""

_FIELDS: Final[Mapping[Comes, tuple[str, ...]]] = {
    "reference": ("reference",),
    "pages": ("context",),
    "both": ("reference", "context"),
}


@dataclass(frozen=True, slots=True)
class Answers:
    """The five answers.

    Args:
        kafka: host:port, or `new` for a broker that the compose file brings.
        topic: The topic of the events.
        comes: What comes with an answer.
        judge: `offline`, a model of OpenAI's, or MODEL@URL.
        usd_per_day: Most that judging may cost; it means nothing for a judge without a price.
        rate: Share of the events that is judged; None: all where it is free, else 5%.
    """

    kafka: str
    topic: str
    comes: Comes
    judge: str
    usd_per_day: float
    rate: float | None = None

    @property
    def is_new_kafka(self) -> bool:
        """Whether the compose file brings the broker."""
        return self.kafka == NEW_KAFKA

    @property
    def bootstrap_servers(self) -> str:
        """The broker as this machine sees it."""
        return f"127.0.0.1:{HOST_PORT}" if self.is_new_kafka else self.kafka

    @property
    def is_offline(self) -> bool:
        """Whether the rule-based judge judges."""
        return self.judge == OFFLINE

    @property
    def model(self) -> str:
        """The model that is asked."""
        return OFFLINE_MODEL if self.is_offline else self.judge.partition("@")[0]

    @property
    def base_url(self) -> str:
        """Where it is asked."""
        if self.is_offline:
            return f"http://127.0.0.1:{OFFLINE_PORT}/v1"
        return self.judge.partition("@")[2] or OPENAI_BASE_URL

    @property
    def is_free(self) -> bool:
        """Whether the judge runs on this machine."""
        return is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def sampled(self) -> float:
        """Share of the events that is judged."""
        if self.rate is not None:
            return self.rate
        return 1.0 if self.is_free else 0.05

    @property
    def metrics(self) -> dict[str, str]:
        """What is judged, with the field of an event that it needs."""
        fields = _FIELDS.get(self.comes, ())
        needs: dict[str, str] = {name: one.when.has[0] for name, one in default_metrics().items()}
        found = {name: field for name, field in needs.items() if field in fields}
        return found or {"answer_relevance": "question"}
