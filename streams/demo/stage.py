"""The demo's settings: one machine, two metrics by default, and unequal sampling rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from judge.metrics.registry import score_ranges
from streams.kafka.topics.flow import AGENTS, topic_uses
from streams.settings import EndpointSettings, Settings
from streams.settings.metrics import default_metrics

PARTITIONS = 4
GROUP_ID = "judgestream-demo"
_JUDGE_PATIENCE_SECONDS = 30.0


def demo_settings(
    *,
    bootstrap_servers: str,
    endpoint: EndpointSettings,
    judge_latency_seconds: float = 0.0,
    store_path: Path | None = None,
    metrics: Sequence[str] = (),
) -> Settings:
    """Return the settings of the demo's worker.

    Args:
        bootstrap_servers: Address of the embedded broker.
        endpoint: The judge.
        judge_latency_seconds: Simulated latency of the judge.
        store_path: Path of the verdict store, if there is one.
        metrics: Names of the metrics; empty: the two built-in ones.
    """
    usual = default_metrics()
    timeout_seconds = judge_latency_seconds + _JUDGE_PATIENCE_SECONDS
    document: dict[str, Any] = {
        "kafka": {
            "bootstrap_servers": bootstrap_servers,
            "group_id": GROUP_ID,
            "start": "earliest",
            "commit_interval_seconds": 0.1,
            "rebalance_timeout_seconds": timeout_seconds + 30,
        },
        "sampling": {
            "default_rate": 0.5,
            "rules": [{"name": "gold", "when": {"tenant": "gold"}, "rate": 1.0}],
        },
        "judge": {"endpoints": [endpoint], "timeout_seconds": timeout_seconds, "max_in_flight": 64},
        "monitor": {"baseline_samples": 40, "labels": ["app", "model"]},
        "telemetry": {
            "host": "127.0.0.1",
            "port": 0,
            "labels": ["app", "model", "prompt_version"],
            "log_level": "warning",
        },
        **({} if store_path is None else {"store": {"path": store_path}}),
        **({"metrics": {name: usual.get(name, {}) for name in metrics}} if metrics else {}),
    }
    return Settings.model_validate(document)


def demo_topics(settings: Settings) -> Mapping[str, int]:
    """Return the demo's topics with their partitions."""
    return {use.name: PARTITIONS for use in topic_uses(settings.topics, settings.metrics, (*AGENTS, "store"))}


def demo_ranges(settings: Settings) -> Mapping[str, tuple[float, float]]:
    """Return lowest and highest score of the demo's metrics."""
    known = score_ranges()
    return {name: known[name] for name in settings.metrics}
