from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from judge.chat import OFFLINE_MODEL
from schemas import Usage
from streams.errors import SettingsError
from streams.judging.endpoints import build_prices, check_prices, price_of
from streams.settings import BudgetSettings, EndpointSettings, JudgeSettings

MILLION = Usage(input_tokens=1_000_000)


def endpoint(**values: Any) -> EndpointSettings:
    return EndpointSettings.model_validate({"name": "primary", "model": "gpt-4.1-mini"} | values)


def test_own_prices_go_before_the_published_ones() -> None:
    """A configured price overrides the published one."""
    own = endpoint(usd_per_million_tokens={"input": 0.1, "output": 0.2})
    assert build_prices([own]).cost_usd(own.model, MILLION, endpoint="primary") == pytest.approx(0.1)
    assert build_prices([endpoint()]).cost_usd(own.model, MILLION, endpoint="primary") == pytest.approx(0.4)


def test_an_unknown_price_is_logged_once_and_is_not_free() -> None:
    """An unknown price is logged once with endpoint, model and remedy, and the cost is unknown."""
    with capture_logs() as lines:
        prices = build_prices([endpoint(base_url="http://127.0.0.1:1/v1")])
    assert prices.cost_usd("gpt-4.1-mini", MILLION, endpoint="primary") is None
    assert [(line["endpoint"], line["model"]) for line in lines] == [("primary", "gpt-4.1-mini")]
    assert "usd_per_million_tokens" in lines[0]["event"]


def test_the_offline_judge_is_free_without_a_log_line() -> None:
    offline = endpoint(model=OFFLINE_MODEL, base_url="http://127.0.0.1:1/v1")
    with capture_logs() as lines:
        prices = build_prices([offline])
    assert not lines
    assert price_of(offline) is None
    assert prices.cost_usd(OFFLINE_MODEL, MILLION, endpoint="primary") == 0.0


def test_a_budget_in_dollars_needs_known_prices() -> None:
    """A budget in USD requires known prices; a budget in calls and the offline judge do not."""
    unpriced = endpoint(base_url="http://127.0.0.1:1/v1")
    offline = endpoint(model=OFFLINE_MODEL, base_url="http://127.0.0.1:1/v1")
    in_dollars = JudgeSettings(budget_usd_per_day=25)
    with pytest.raises(SettingsError, match="usd_per_million_tokens: is required with a budget in dollars"):
        check_prices(in_dollars, [endpoint(), unpriced])
    check_prices(in_dollars, [endpoint(), offline])
    check_prices(JudgeSettings(budget=BudgetSettings(calls_per_day=9)), [unpriced])
