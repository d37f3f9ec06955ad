from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streams.batch.plan import Plan, begun_at, new_id, settings_of
from streams.errors import SettingsError
from streams.settings.tree import Settings

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ENDPOINTS = [
    {"name": "first", "base_url": "http://127.0.0.1/v1", "model": "m", "requests_per_minute": 100},
    {"name": "second", "base_url": "http://127.0.0.1/v1", "model": "n", "max_in_flight": 3},
]


def settings() -> Settings:
    metrics = {"coverage": {"endpoints": ["first"]}, "relevance": {}}
    return Settings.model_validate({"metrics": metrics, "judge": {"endpoints": ENDPOINTS}})


def test_an_id_leads_back_to_its_beginning_and_its_options() -> None:
    """The id holds start time and options; limits may change between runs, and what is judged may not."""
    plan = Plan(since=NOON, metrics=("coverage",))
    name = new_id(plan, NOON)
    assert begun_at(name, Plan(since=NOON, metrics=("coverage",), max_usd=3, per_second=1)) == NOON
    for other in (Plan(since=NOON), Plan(since=NOON + timedelta(1), metrics=("coverage",))):
        with pytest.raises(SettingsError, match="has other options"):
            begun_at(name, other)
    with pytest.raises(SettingsError, match="must be the id of a replay"):
        begun_at("yesterday", plan)


def test_the_named_endpoint_judges_with_a_share_of_its_limits() -> None:
    """The named endpoint gets a fifth of its limits: 12 of 64 calls, and at least one of 3.

    A metric's own choice of endpoints is ignored.
    """
    found = settings_of(Plan(endpoint="second", metrics=("coverage",)), settings())
    assert [one.name for one in found.judge.endpoints] == ["second"]
    assert (found.judge.max_in_flight, found.judge.endpoints[0].max_in_flight) == (12, 1)
    assert found.metrics["coverage"].endpoints == ()
    assert list(found.metrics) == ["coverage"]
    first = settings_of(Plan(endpoint="first"), settings())
    assert first.judge.endpoints[0].requests_per_minute == pytest.approx(20)


def test_a_pack_replaces_the_prompts_of_its_metric(tmp_path: Path) -> None:
    """A pack replaces the prompts of one metric, which may be new; invalid combinations are refused."""
    pack = tmp_path / "tone.md"
    pack.write_text("Score {{ item.output_text }}", encoding="utf-8")
    found = settings_of(Plan(metrics=("tone",), pack=pack), settings())
    assert found.metrics["tone"].prompt_pack == pack
    for plan, problem in (
        (Plan(metrics=("tone",)), "--metric: must be one of coverage, relevance, got 'tone'"),
        (Plan(pack=pack), "--pack: needs exactly one metric, got 2"),
        (Plan(endpoint="third"), "--endpoint: must be one of first, second, got 'third'"),
    ):
        with pytest.raises(SettingsError, match=problem):
            settings_of(plan, settings())
