"""What judging costs and how it may cost less, for `config check`: prompt caches and two-phase judging."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import floor
from os.path import commonprefix
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from judge.endpoints.two_phase import best_share, cost_ratio
from judge.evaluate.evaluator import estimated_tokens
from judge.evaluate.guard import neutral_task
from judge.metric import Metric
from schemas import Usage
from streams.batch.plan import Estimate, request_of
from streams.errors import StoreError
from streams.judging.endpoints import judge_endpoints, price_of
from streams.settings.judge import EndpointSettings, LimitSettings
from streams.settings.tree import Settings

CACHED_FROM: Final = {"api.openai.com": 1024}
"""Tokens of a constant prefix from which a provider caches it, by host, as published."""
SHOWN_CORRELATIONS: Final = (0.6, 0.8, 0.9)
MOST_RESULTS: Final = 5_000
FEWEST_PAIRS: Final = 30


class SampleCost:
    """What one verdict of a metric costs for a sample event, with both judges in two phases."""

    def __init__(self, name: str, metric: Metric, settings: Settings) -> None:
        self._name, self._settings = name, settings
        wanted = settings.metrics[name]
        self._phases, cheap = wanted.two_phase, wanted.cheap
        endpoints = judge_endpoints(settings.judge, os.environ, settings.metrics)
        task = neutral_task(metric, now=datetime(2026, 1, 1, tzinfo=UTC))
        estimates = []
        for one in (wanted, cheap) if cheap is not None else (wanted,):
            estimates.append(Estimate({name: metric}, {name: one}, endpoints))
            estimates[-1].add(task)
        self.usd, self.calls = estimates[0].total.cost_usd, float(estimates[0].calls)
        self.price_ratio: float | None = None
        if self._phases is not None:
            cheap_usd, share = estimates[1].total.cost_usd, self._phases.strong_share
            if self.usd and cheap_usd is not None:
                self.price_ratio = cheap_usd / self.usd
                self.usd = cheap_usd + share * self.usd
            self.calls = estimates[1].calls + share * self.calls

    def paid(self, limits: Sequence[LimitSettings]) -> int | None:
        """Return how many the narrowest limit pays for in a day; None without one, or a price."""
        usd, calls = self.usd, self.calls
        paid = [one.usd_per_day / usd for one in limits if usd and one.usd_per_day is not None]
        paid += [one.calls_per_day / calls for one in limits if calls and one.calls_per_day is not None]
        return floor(min(paid)) if paid else None

    def two_phase_notes(self) -> Iterator[str]:
        """Yield what two phases cost against the strong judge alone, for an interval as wide."""
        ratio, phases = self.price_ratio, self._phases
        if phases is None:
            return
        if ratio is None:
            yield "two_phase: the price of one of the judges is unknown, so what it saves is, too"
            return
        measured, pairs = measured_correlation(self._settings, self._name)
        shown = SHOWN_CORRELATIONS if measured is None else (measured,)
        yield (
            f"two_phase: a cheap verdict costs {ratio:.1%} of a strong one; the same interval costs "
            + ", ".join(f"{_told(one, ratio)} at a correlation of {one:.2f}" for one in shown)
            + (f" (measured on {pairs} answers)" if measured is not None else "")
            + f"; it pays above {2 * ratio**0.5 / (1 + ratio):.2f}"
        )


def _told(correlation: float, ratio: float) -> str:
    share = best_share(correlation, ratio)
    return f"{cost_ratio(correlation, ratio):.0%} of the strong judge's alone (best strong_share {share:.2g})"


def measured_correlation(settings: Settings, metric: str) -> tuple[float | None, int]:
    """Return the correlation of both judges' scores in the store, and its answers; None with few of them."""
    from streams.monitoring.two_phase import TwoPhase, pair_of
    from streams.store.database import StoreReader
    from streams.store.verdicts import latest_scored

    state = TwoPhase()
    with suppress(StoreError), StoreReader(Path(settings.store.path)).snapshot() as snapshot:
        for result in latest_scored(snapshot, metric, MOST_RESULTS):
            state.learn(pair_of(result))
    count = round(state.prediction.pairs)
    return (state.prediction.correlation if count >= FEWEST_PAIRS else None), count


def caching_notes(metric: Metric, endpoints: Iterable[EndpointSettings]) -> Iterator[str]:
    """Yield a note for each endpoint that caches nothing because a metric's constant prefix is too short."""
    tokens = prefix_tokens(metric)
    for endpoint in {one.name: one for one in endpoints}.values():
        floor = CACHED_FROM.get(urlsplit(endpoint.base_url).hostname or "", 0)
        if not 0 < tokens < floor:
            continue
        note = f"{endpoint.name} caches from {floor:,} tokens on; the constant prefix has about {tokens:,}"
        price = price_of(endpoint)
        if price is not None:
            short = price.cost_usd(Usage(input_tokens=tokens))
            saved = short - price.cost_usd(Usage(input_tokens=floor, cached_tokens=floor))
            pays = f"would save {saved / short:.0%} of its price" if saved > 0 else "would not pay"
            note += f"; lengthening it (more examples) {pays}"
        yield note


def prefix_tokens(metric: Metric) -> int:
    """Return the estimated tokens, schema included, that a metric's requests begin with for every event."""
    neutral = neutral_task(metric, now=datetime(2026, 1, 1, tzinfo=UTC))
    texts = neutral.model_dump(include={"question", "answer", "reference", "other_answer"}, exclude_none=True)
    found: list[str] = []
    for mark in "XY":
        fields = neutral.fields and {name: mark + text for name, text in neutral.fields.items()}
        marked = {name: mark + text for name, text in texts.items()}
        request = request_of(metric, neutral.model_copy(update={**marked, "fields": fields}))
        if request is None or request.embeds:
            return 0
        schema = request.response_schema and dict(request.response_schema.schema)
        found.append("\n".join([json.dumps(schema), *(message.content for message in request.messages)]))
    return estimated_tokens(commonprefix(found))  # noqa: RUF071 - of texts, not of paths
