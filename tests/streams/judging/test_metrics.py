from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from judge.metric import ScoredOutcome
from schemas import FirstPhase
from streams.cli.trial import measured_correlation, prompt_lines, rates_line, sample_prompts
from streams.errors import SettingsError
from streams.judging.endpoints import judge_endpoints
from streams.judging.metrics import build_metric, build_metrics
from streams.settings.metrics import MetricSettings
from streams.settings.tree import Settings
from tests.streams.results import scored, task_of
from tests.streams.store.records import StoreFile


def priced(name: str = "a", host: str = "x.test", **usd: float) -> dict[str, Any]:
    return {"name": name, "base_url": f"https://{host}/v1", "model": name, "usd_per_million_tokens": usd}


WORDS = "tests.judge.metrics.code.functions:words"


@pytest.mark.parametrize(
    ("given", "scale"),
    [
        ({"code": {"regex": {"pattern": "a+"}}}, (0, 1)),
        ({"code": {"contains": {"texts": ["a"]}}}, (0, 1)),
        ({"code": "json_valid"}, (0, 1)),
        ({"code": "length"}, (0, 1000)),
        ({"code": {"length": {"unit": "characters"}}, "score_range": [0, 5000]}, (0, 5000)),
        ({"code": "similarity"}, (0, 1)),
        ({"code": "latency"}, (0, 60)),
        ({"code": {"cost": {"label": "usd"}}, "score_range": [0, 0.1]}, (0, 0.1)),
        ({"python": WORDS}, (0, 1)),
        ({"python": {"function": WORDS, "result": "integer"}, "score_range": [0, 50]}, (0, 50)),
        ({"python": {"function": WORDS, "result": ["good", "fair", "bad"]}}, (0, 2)),
    ],
)
def test_a_code_metric_needs_few_settings(given: dict[str, Any], scale: tuple[float, float]) -> None:
    metric = build_metric("own", MetricSettings.model_validate(given))
    assert (metric.mode, metric.score_range) == ("code", scale)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        ({"latency": {"label": "latency_ms"}}, 1.5),
        ({"latency": {"label": "latency_milliseconds"}}, 1.5),
        ({"latency": {"label": "items"}}, 15),
        ({"contains": {"texts": ["sorry", "refund"]}}, False),
        ({"contains": {"texts": ["sorry", "refund"], "good": False}}, True),
    ],
)
def test_settings_that_follow_from_others(check: dict[str, Any], value: object) -> None:
    metric = build_metric("own", MetricSettings.model_validate({"code": check}))
    labels = {"latency_ms": "1500", "latency_milliseconds": "1500", "items": "15"}
    outcome = metric.prepare(task_of(scored(1, 1), answer="Sorry!", labels=labels))
    assert isinstance(outcome, ScoredOutcome)
    assert outcome.value == value


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"code": {}}, "must be one of regex, contains"),
        ({"code": {"regex": {"pattern": "a"}, "length": {}}}, r"must be one of .* \(got regex, length\)"),
        ({"code": "latencies"}, "latencies"),
        ({"code": "latency", "python": WORDS}, "python: excludes code"),
        ({"code": "latency", "endpoints": ["a"]}, "endpoints: is only for metrics with a judge"),
        ({"python": "no_colon"}, "python.function"),
        ({"python": {"function": WORDS, "seconds": 0}}, "python.seconds"),
    ],
)
def test_settings_that_do_not_fit_are_named(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Settings.model_validate({"metrics": {"own": given}})
    with pytest.raises(ValidationError, match="is a built-in metric, which code cannot replace"):
        Settings.model_validate({"metrics": {"relevance": {"code": "similarity"}}})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"code": {"regex": {"pattern": "(?=a)"}}}, r"metrics\.own\.code: pattern must be a regular"),
        ({"code": "similarity", "score_range": [0, 5]}, r"metrics\.own\.score_range: is fixed"),
        ({"python": "nowhere.at_all:f"}, r"metrics\.own\.python: there is no module nowhere\.at_all"),
        ({"python": {"function": WORDS, "result": "integer"}}, r"score_range: is required"),
        ({"python": {"function": WORDS, "result": ["only"]}}, r"metrics\.own\.python: result must be"),
        ({"code": {"json_valid": {"schema_file": "/none"}}}, "schema_file: /none cannot be read"),
    ],
)
def test_what_cannot_be_built_is_named(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        build_metric("own", MetricSettings.model_validate(given))


@pytest.mark.parametrize(
    ("check", "version"),
    [
        ({"contains": {"texts": ["sorry"]}}, "code-2, contains, 4d503e2b2098"),
        ({"contains": {"texts": ["sorry"], "good": False}}, "code-2, contains, 410dfe13f17e"),
        ({"contains": {"texts": ["sorry", "refund"]}}, "code-2, contains, 08bb5d71421a"),
        ({"latency": {}}, "code-2, latency, 9f934ab4eeee"),
        ({"latency": {"label": "latency_ms"}}, "code-2, latency, 75c83ca1d9b9"),
    ],
)
def test_a_series_goes_on_where_a_removed_setting_changes_no_score(
    check: dict[str, Any], version: str
) -> None:
    assert build_metric("own", MetricSettings.model_validate({"code": check})).scoring_version == version


def test_a_schema_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    versions = []
    for text in ('{"type": "object"}', '{"type": "array"}'):
        file.write_text(text)
        settings = MetricSettings.model_validate({"code": {"json_valid": {"schema_file": str(file)}}})
        versions.append(build_metric("own", settings).scoring_version)
    assert versions[0] != versions[1]


@pytest.mark.parametrize(
    ("examples", "host", "note"),
    [
        # Cached tokens cost a quarter: 1,024 of them as much as 256 others.
        (300, "api.openai.com", r"from 1,024 tokens on.* about 3\d\d; lengthening .* would save 1\d%"),
        (100, "api.openai.com", r"would not pay"),
        (1200, "api.openai.com", None),
        (300, "llm.example.com", None),
    ],
)
def test_a_prefix_too_short_for_a_prompt_cache_is_noted(
    tmp_path: Path, examples: int, host: str, note: str | None
) -> None:
    pack = tmp_path / "pack.yaml"
    pack.write_text(f"- role: system\n  content: '{'1' * examples}'\n- role: user\n  content: '{{answer}}'\n")
    judge = {"endpoints": [priced(host=host, input=4, cached=1, output=8)], "budget": "none"}
    metrics = {"tone": {"prompt_pack": str(pack), "score_range": [1, 5]}}
    (prompt,) = sample_prompts(Settings.model_validate({"judge": judge, "metrics": metrics}))
    assert [bool(re.search(note or "", one)) for one in prompt["caching"]] == ([True] if note else [])


def test_what_a_budget_pays_for_is_told() -> None:
    """The narrowest limit decides: 1 USD at 1 and 2 USD a million tokens, the reply 400, or 90 calls."""
    budget: dict[str, Any] = {"usd_per_day": 1}
    judge = {"endpoints": [priced(input=1, output=2)], "budget": budget}
    values: dict[str, Any] = {"judge": judge, "metrics": {"relevance": {}}}
    (prompt,) = sample_prompts(Settings.model_validate(values))
    assert prompt["verdicts_per_day"] == 1_000_000 // (prompt["estimated_tokens"] + 2 * 400)
    assert f"pays for about {prompt['verdicts_per_day']} such" in next(prompt_lines(prompt)).replace(",", "")
    budget["caps"] = [{"metric": "relevance", "calls_per_day": 90}]
    (prompt,) = sample_prompts(Settings.model_validate(values))
    assert prompt["verdicts_per_day"] == 90


def test_config_check_tells_what_two_judges_save(tmp_path: Path) -> None:
    """Prices of 1:20 make a ratio of 5%; at a correlation of 0.8 (sqrt(0.36) + 0.8 sqrt(0.05))² = 61%.

    A budget of 1 USD pays for 1 / (r + 1/10) strong verdicts, and two phases pay above 2 sqrt(r) / (1 + r).
    """
    endpoints = [priced(name, input=usd, output=usd) for name, usd in (("large", 20), ("small", 1))]
    metrics = {"relevance": {"endpoints": ["large"], "two_phase": {"endpoint": "small"}}}
    values: dict[str, Any] = {
        "judge": {"endpoints": endpoints, "budget": {"usd_per_day": 1}},
        "metrics": metrics,
        "store": {"path": str(tmp_path / "none")},
    }
    (prompt,) = sample_prompts(Settings.model_validate(values))
    (note,) = prompt["two_phase"]
    assert "a cheap verdict costs 5.0% of a strong one" in note
    assert "61% of the strong judge's alone (best strong_share 0.17) at a correlation of 0.80" in note
    assert note.endswith("; it pays above 0.43")
    usd = (prompt["estimated_tokens"] + 400) * 20 / 1e6 * 0.15
    assert prompt["verdicts_per_day"] == int(1 / usd)
    del endpoints[1]["usd_per_million_tokens"]
    values["judge"]["budget"] = "none"
    (prompt,) = sample_prompts(Settings.model_validate(values))
    assert "price of one of the judges is unknown" in prompt["two_phase"][0]


def test_the_correlation_of_two_judges_is_that_in_the_store(tmp_path: Path) -> None:
    """Of eight pairs six agree on 2 or 4 and two do not: 6/8 - 2/8 = 0.5. Cheap results alone make none."""
    pairs = [(2, 2), (4, 4), (2, 2), (4, 4), (2, 2), (4, 4), (2, 4), (4, 2)] * 5
    results = []
    for number, (cheap, strong) in enumerate(pairs):
        phase = FirstPhase(fingerprint="c", model="small", score=cheap, probability=0.5, strong="f1")
        results.append(scored(number, strong, probability=0.5).model_copy(update={"first_phase": phase}))
        alone = scored(number + 100, cheap, fingerprint="c", probability=0.5)
        results.append(alone.model_copy(update={"first_phase": phase}))
    store = StoreFile(tmp_path / "store.sqlite3")
    settings = Settings.model_validate({"store": {"path": str(store.path)}})
    assert measured_correlation(settings, "relevance") == (None, 0)
    store.write(*results)
    correlation, count = measured_correlation(settings, "relevance")
    assert correlation == pytest.approx(0.5, abs=0.01)
    assert count == 40


def test_config_check_tells_the_rates_of_a_sampling_budget() -> None:
    """500 verdicts pay for 250 events with two metrics; a tenth of these are for two strata equally."""
    rules = [{"name": "gold", "when": {"tier": "gold"}, "rate": 1}]
    endpoint = priced(input=1, output=2)
    values: dict[str, Any] = {
        "sampling": {"rules": rules, "budget": {"verdicts_per_day": 500}},
        "metrics": {"relevance": {}, "coverage": {}, "speed": {"code": "latency"}},
        "judge": {"endpoints": [endpoint]},
    }
    line = rates_line(Settings.model_validate(values)) or ""
    assert "pays for about 250 events a day with all metrics" in line
    assert "about 50% of 500, 5% of 5,000, 0.5% of 50,000 events a day in each stratum" in line
    assert line.endswith("in none less than about 12")
    values["sampling"]["budget"] = {"usd_per_day": 1}
    assert "pays for about " in (rates_line(Settings.model_validate(values)) or "")
    del endpoint["usd_per_million_tokens"]
    assert rates_line(Settings.model_validate(values)) is rates_line(Settings()) is None


def test_code_alone_needs_no_judge() -> None:
    code = Settings.model_validate({"metrics": {"speed": {"code": "latency"}, "words": {"python": WORDS}}})
    assert judge_endpoints(code.judge, {}, code.metrics) == ()
    assert list(build_metrics(code)) == ["speed", "words"]
    assert sample_prompts(code) == []
    both = Settings.model_validate({"metrics": {"speed": {"code": "latency"}, "tone": {}}})
    with pytest.raises(SettingsError, match="names no endpoint"):
        judge_endpoints(both.judge, {}, both.metrics)
