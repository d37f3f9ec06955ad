"""What a demo runs: its options, its judge with a limit on spending, and the settings of its worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from judge.chat import ChatMessage, ChatRequest
from judge.errors import EventError, JudgeUnavailableError
from streams.errors import DemoError
from streams.judging.endpoints import may_cost, open_chat, price_of
from streams.kafka.topics.table import AGENTS, AgentName, topic_uses
from streams.settings.judge import EndpointSettings, JudgeSettings
from streams.settings.metrics import default_metrics
from streams.settings.tree import Settings

WORKER_AGENTS: Final[tuple[AgentName, ...]] = (*AGENTS, "store")
PARTITIONS: Final = 4
JUDGE_PATIENCE_SECONDS: Final = 30.0
LIVE_RATE: Final = 20.0
PAID_RATE: Final = 2.0
"""Events per second with a real judge."""
PAID_BOUNDED_RATE: Final = 10.0
MAX_USD: Final = 0.5
MAX_TOKENS: Final = 1_000_000
"""The limit for a judge whose price is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """The options of a demo."""

    events: int | None
    """Number of events; None: until stopped."""
    lines: Sequence[bytes] | None
    """Events to use instead of the demo's own."""
    endpoint: EndpointSettings | None
    """The judge; None for the offline one."""
    judge_latency_seconds: float
    started: float
    """Start of the process on the monotonic clock."""
    metrics: Sequence[str] = ()
    """Names of the metrics; empty: the two built-in ones."""
    max_usd: float = MAX_USD
    """The budget if the judge's price is known."""

    @property
    def rate(self) -> float | None:
        """Events per second; None: as fast as the worker."""
        if self.endpoint is None:
            return LIVE_RATE if self.events is None else None
        return PAID_RATE if self.events is None else PAID_BOUNDED_RATE

    @property
    def counts_cost(self) -> bool:
        """Whether the judge has a known price."""
        return self.endpoint is not None and price_of(self.endpoint) is not None

    @property
    def limit(self) -> str:
        """What ends the demo early, in words."""
        if self.counts_cost:
            return f"${self.max_usd:.2f} (--max-usd)"
        return f"{MAX_TOKENS:,} tokens"

    @property
    def note(self) -> str:
        """A remark on the judge, next to its name."""
        if self.endpoint is None:
            return "rules, no language model; --model NAME asks a real one"
        cost = "calls cost money; " if may_cost(self.endpoint) else ""
        if not self.counts_cost:
            cost += "no price is known, so cost is not counted; "
        return f"{cost}stops at {self.limit}; at most {self.rate:g} events/s"


def demo_settings(
    *,
    endpoint: EndpointSettings,
    bootstrap_servers: str = "localhost:9092",
    judge_latency_seconds: float = 0.0,
    store_path: Path | None = None,
    metrics: Sequence[str] = (),
    max_usd: float | None = None,
) -> Settings:
    """Return the settings of the demo's worker: one machine, unequal sampling rates, None: no budget."""
    usual = default_metrics()
    timeout_seconds = judge_latency_seconds + JUDGE_PATIENCE_SECONDS
    document: dict[str, Any] = {
        "kafka": {
            "bootstrap_servers": bootstrap_servers,
            "group_id": "judgestream-demo",
            "start": "earliest",
        },
        "sampling": {
            "default_rate": 0.5,
            "rules": [{"name": "gold", "when": {"tenant": "gold"}, "rate": 1.0}],
        },
        "judge": {
            "endpoints": [endpoint],
            "timeout_seconds": timeout_seconds,
            "max_in_flight": 64,
            "budget": "none" if max_usd is None else {"usd_per_day": max_usd},
        },
        "monitor": {"baseline_samples": 40, "labels": ["app", "model"]},
        "telemetry": {"port": 0, "labels": ["app", "model", "prompt_version"], "log_level": "warning"},
        **({} if store_path is None else {"store": {"path": store_path}}),
        **({"metrics": {name: usual.get(name, {}) for name in metrics}} if metrics else {}),
    }
    return Settings.model_validate(document)


def demo_topics(settings: Settings) -> dict[str, int]:
    """Return the demo's topics with their partitions."""
    uses = topic_uses(settings, WORKER_AGENTS)
    return {use.name: PARTITIONS for use in uses}


async def ask_once(endpoint: EndpointSettings) -> None:
    """Ask the judge one word, to learn before the start whether it answers."""
    chat = open_chat(endpoint, JudgeSettings(timeout_seconds=JUDGE_PATIENCE_SECONDS))
    asked = ChatMessage("user", "Reply with the word: ready")
    try:
        await chat.complete(ChatRequest((asked,), max_output_tokens=16))
    except EventError:
        return  # it answers, though not this question: a reasoning model needs more than 16 tokens
    except JudgeUnavailableError as error:
        remedy = "check that it runs, --base-url and the network"
        if error.kind == "rate_limited":
            remedy = "wait a minute, or check the account's limits"
        raise DemoError(f"{error}; {remedy}") from error
    finally:
        await chat.close()
