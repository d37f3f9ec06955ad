"""Builds the explorer from the settings."""

from __future__ import annotations

from streams.judging.metrics import build_metrics
from streams.settings import Settings
from streams.store.reader import Reader
from streams.store.views.explorer.api import Explorer
from streams.store.views.explorer.shown import Links


def score_ranges(settings: Settings) -> dict[str, tuple[float, float]]:
    """Return lowest and highest score of each metric.

    Raises:
        SettingsError: A prompt pack cannot be used.
    """
    return {name: metric.score_range for name, metric in build_metrics(settings).items()}


def open_explorer(settings: Settings) -> Explorer:
    """Build the explorer of the settings' store.

    Raises:
        SettingsError: A prompt pack cannot be used.
    """
    kept = settings.store
    return Explorer(
        Reader(kept.path),
        ranges=score_ranges(settings),
        product_labels=kept.product_labels,
        links=Links(kept.trace_url, kept.record_url, settings.topics.scores),
    )
