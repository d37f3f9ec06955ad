"""Which endpoints a metric asks and what they cost; each through real settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from judge import EmbeddingSimilarity, Judge
from judge.chat import OFFLINE_MODEL
from judge.endpoints.panel import PanelJudge
from judge.endpoints.retrying import RetryingJudge
from judge.errors import JudgeUnavailableError
from judge.evaluate.evaluator import Evaluator
from schemas import Scored, Unscored, Usage
from streams.doctor.endpoints import EndpointExaminer
from streams.errors import SettingsError
from streams.judging import endpoints as module
from streams.judging.endpoints import (
    asked_by,
    build_prices,
    check_prices,
    chosen_endpoint,
    judge_endpoints,
    metric_judges,
    open_pool,
)
from streams.judging.metrics import build_metric, build_metrics
from streams.settings.judge import BudgetSettings, CacheSettings, EndpointSettings, JudgeSettings
from streams.settings.metrics import MetricSettings
from streams.settings.tree import Settings
from tests.judge.fake_openai import Answer, completion, embeddings, fake_openai
from tests.judge.replies import listed_claim, relevance_reply
from tests.judge.scripted import ScriptedChat
from tests.judge.tasks import task_for
from tests.streams.cli.commands.judge_server import judge_server

NOWHERE = "http://127.0.0.1:1/v1"
MILLION = Usage(input_tokens=1_000_000)
NEAR: Mapping[str, Any] = {"code": {"similarity": "embeddings"}}
REPLY = relevance_reply([listed_claim("It is.", [1], "It is.")], score=3)
VERDICT = Answer(body=completion(json.dumps(REPLY)))


def endpoint(**values: Any) -> EndpointSettings:
    return EndpointSettings.model_validate({"name": "primary", "model": "gpt-4.1-mini"} | values)


def settings(url: str, metrics: Mapping[str, Any], **judge: Any) -> Settings:
    endpoints = [
        {"name": name, "base_url": url, "model": f"m-{name}", "parameters": {"seed": 1}}
        | {"usd_per_million_tokens": {"input": 2, "output": 10}}
        for name in ("a", "b")
    ]
    judge = {"endpoints": endpoints, "budget": "none", **judge}
    return Settings.model_validate({"metrics": metrics, "judge": judge})


async def judged(wanted: Settings, name: str, **texts: Any) -> Any:
    metrics = build_metrics(wanted)
    endpoints = judge_endpoints(wanted.judge, {}, wanted.metrics)
    async with open_pool(wanted.judge, endpoints, prices=build_prices(endpoints)) as pool:
        task = task_for(metrics[name], **texts)
        return await metric_judges(pool, metrics, wanted.metrics)[name].judge(task)


async def test_answer_and_reference_are_compared_by_the_vectors_of_an_endpoint() -> None:
    """In one call, redacted; (3, 4) and (4, 3) have a cosine of 24/25; 1000 tokens at 2 USD a million."""
    body = embeddings([3, 4], [4, 3], tokens=1000)
    async with fake_openai(Answer(body=body)) as server:
        wanted = settings(server.url, {"near": {**NEAR, "endpoints": ["b"]}}, redact=["emails"])
        result = await judged(wanted, "near", answer="Ask ann@example.com.", reference="Ask Ann.")
        assert isinstance(await judged(wanted, "near", reference=" "), Unscored)  # without a call
    assert isinstance(result, Scored)
    assert (result.value, result.kind, result.score_exact) == (0.96, "number", "0.96")
    assert result.verdict == {"score": 0.96, "justification": "cosine 0.9600 of two vectors of 2 numbers"}
    assert result.cost_usd == pytest.approx(0.002)
    assert result.evaluator.model == "m-b"
    (asked,) = server.requests
    assert asked == {"model": "m-b", "input": ["Ask [email].", "Ask Ann."], "seed": 1}


@pytest.mark.parametrize(
    "trouble",
    [
        Answer(status=503, body=b"{}"), Answer(status=429, body=b"{}"), Answer(drop=True),
        Answer(body=embeddings([1, 0])), Answer(body=embeddings([1, 0], [1, 0, 0])),
        Answer(body=embeddings([1, 0], [0, 0])), Answer(body=completion("no vectors")),
    ],
    ids=["down", "busy", "cut", "one vector", "two lengths", "no direction", "a completion"],
)  # fmt: skip
async def test_an_endpoint_without_vectors_is_an_outage_and_no_result(
    trouble: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", replace(module.PATIENCE, first_wait_seconds=0.01))
    async with fake_openai(trouble, Answer(body=embeddings([1, 0], [-1, 0]))) as server:
        wanted = settings(server.url, {"near": {**NEAR, "endpoints": ["a"]}})
        result = await judged(wanted, "near", reference="It is.")
    assert isinstance(result, Scored)
    assert result.value == 0.0, "the cosine is -1, which maps to 0"
    assert result.judge is not None
    assert result.judge.tries == 2


async def test_the_offline_judge_compares_words() -> None:
    """Three shared words of five give 3/5."""
    event = {"question": "q", "answer": "the tower is in Paris", "reference": "the tower is not red"}
    async with Judge() as judge:
        one = await judge.score(event, EmbeddingSimilarity("near"))
        same = await judge.score({**event, "reference": event["answer"]}, EmbeddingSimilarity("near"))
    assert isinstance(one, Scored)
    assert isinstance(same, Scored)
    assert (one.value, same.value) == (0.6, 1.0)
    assert one.evaluator.model == "offline-rules-1"


async def test_a_metric_has_a_model_of_its_own_at_the_endpoints_it_names() -> None:
    """With its parameters and fingerprint, and not the endpoint's price."""
    async with fake_openai(VERDICT) as server:
        relevance = {"model": "large", "parameters": {"seed": 7}, "endpoints": ["b"]}
        metrics: dict[str, Any] = {"relevance": relevance}
        texts = {"answer": "It is. [Page 1]", "context": {"Page-1": "It is."}}
        own = await judged(settings(server.url, metrics), "relevance", **texts)
        del metrics["relevance"]["model"]
        usual = await judged(settings(server.url, metrics), "relevance", **texts)
    assert [(one["model"], one["seed"]) for one in server.requests] == [("large", 7), ("m-b", 7)]
    assert (own.judge.endpoint, own.judge.model_asked) == ("b/large", "large")
    assert own.evaluator.fingerprint != usual.evaluator.fingerprint
    assert own.cost_usd is None
    assert usual.cost_usd is not None


async def test_members_of_a_panel_have_it_too_and_other_metrics_do_not() -> None:
    async with fake_openai(VERDICT) as server:
        panel = {"model": "large", "panel": {"samples": 2}}
        metrics = {"relevance": panel, "coverage": {"model": "m-a"}, "refusal": {}}
        wanted = settings(server.url, metrics)
        result = await judged(wanted, "relevance", answer="It is. [Page 1]", context={"Page-1": "It is."})
        found = [(one.name, one.model) for one in judge_endpoints(wanted.judge, {}, wanted.metrics)]
    assert [(vote.endpoint, vote.model) for vote in result.votes] == [("a/large", "large")] * 2
    # Coverage uses a, and b with the model of a.
    assert [name for name, _ in found] == ["a", "b", "a/large", "b/m-a"]
    assert asked_by(wanted.metrics["coverage"], found) == ("a", "b/m-a")
    assert asked_by(wanted.metrics["refusal"], found) == ("a", "b")


def test_several_models_of_one_endpoint_make_a_panel() -> None:
    panel = {"endpoints": ["b"], "models": ["large", "m-b", "small"], "samples": 2}
    wanted = settings(NOWHERE, {"relevance": {"panel": panel}})
    found = [(one.name, one.model) for one in judge_endpoints(wanted.judge, {}, wanted.metrics)]
    relevance = wanted.metrics["relevance"]
    assert asked_by(relevance, found) == ("b/large", "b", "b/small")
    assert [name for name, _ in found] == ["a", "b", "b/large", "b/small"]
    assert relevance.panel is not None
    assert relevance.panel.votes == 6


async def test_the_doctor_tries_each_model_with_what_it_is_for() -> None:
    async with fake_openai() as server:
        server.by_word = {'"input"': Answer(body=embeddings([1, 0], [1, 0]))}
        wanted = settings(server.url, {"near": {**NEAR, "model": "e", "endpoints": ["a"]}})
        found = await EndpointExaminer(wanted, {}, 5.0).examine({"verdict"})
    assert [(one.subject, one.outcome) for one in found] == [("a/e, near", "ok")]
    assert [(one["model"], sorted(one)) for one in server.requests] == [("e", ["input", "model"])]


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        (NEAR, "model: is required; name an embedding model"),
        ({**NEAR, "model": "e", "panel": {"samples": 3}}, "panel: is only for metrics with a judge"),
        ({"prompt_pack": "p.md", "panel": {"models": ["x", "x"]}}, "models: names a model twice"),
        ({"prompt_pack": "p.md", "model": "y", "panel": {"models": ["x", "z"]}}, "excludes panel.models"),
        ({"prompt_pack": "p.md", "panel": {"models": ["x"]}}, "must result in 2 to 15 votes"),
        ({"code": "latency", "model": "e"}, "model: is only for metrics with a judge"),
        ({"code": {"similarity": "sounds"}, "model": "e"}, r"similarity\.by"),
        ({"panel": ["a"]}, "must result in 2 to 15 votes"),
        ({"panel": {"endpoints": ["a", "b"], "samples": 8}}, r"must result in 2 to 15 votes.*got 16"),
        ({"panel": ["a", "b"], "endpoints": ["a"]}, "must have one entry with a panel without endpoints"),
        ({"panel": ["a", "d"]}, r"must name judge\.endpoints \(those are a, b\), got 'd'"),
        ({"panel": ["a", "a"]}, "names an endpoint twice"),
    ],
)
def test_what_cannot_be_asked_is_named(metric: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        settings(NOWHERE, {"near": metric})


async def test_the_settings_of_a_metric_name_its_panel() -> None:
    panel = {"panel": {"endpoints": ["b", "a"], "samples": 2}}
    wanted = settings(NOWHERE, {"tone": panel, "refusal": {}, "speed": {"code": "latency"}})
    async with open_pool(wanted.judge, wanted.judge.endpoints) as pool:
        judges = metric_judges(pool, build_metrics(wanted), wanted.metrics)
        votes, code = judges["tone"], judges["speed"]
        assert isinstance(votes, PanelJudge)
        assert votes.evaluator.model == "2 of m-b, 2 of m-a"
        assert votes.evaluator.scoring.endswith("quorum 3 of 4")
        assert isinstance(judges["refusal"], RetryingJudge)
        assert isinstance(code, Evaluator)
        assert code.evaluator.model == "code"


@pytest.mark.parametrize(("keeps", "calls"), [({}, 4), ({"max_entries": 9}, 2), ({"file": "verdicts"}, 1)])
async def test_the_settings_choose_the_cache(keeps: dict[str, Any], calls: int, tmp_path: Path) -> None:
    """Equal texts are asked each time, once a worker, or once: two workers judge two events each."""
    if "file" in keeps:
        keeps = {"max_entries": 9, "file": tmp_path / keeps["file"]}
    judge = JudgeSettings(cache=CacheSettings.model_validate(keeps))
    chat, metric = ScriptedChat(lambda _: json.dumps(REPLY)), build_metric("relevance", MetricSettings())
    texts: dict[str, Any] = {"answer": "It is. [Page 1]", "context": {"Page-1": "It is."}}
    for _ in range(2):
        async with open_pool(judge, [], chat=chat) as pool:
            asked = metric_judges(pool, {"relevance": metric}, {})["relevance"]
            for _ in range(2):
                assert (await asked.judge(task_for(metric, **texts))).status == "scored"
    assert len(chat.requests) == calls


def test_prices_are_those_of_the_settings_else_published_and_unknown_ones_are_logged() -> None:
    cases: list[tuple[dict[str, Any], float | None, bool]] = [
        ({"usd_per_million_tokens": {"input": 0.1, "output": 0.2}}, 0.1, False),
        ({}, 0.4, False),
        ({"base_url": NOWHERE}, None, True),
        ({"base_url": NOWHERE, "model": OFFLINE_MODEL}, 0.0, False),
    ]
    for values, usd, is_logged in cases:
        one = endpoint(**values)
        with capture_logs() as lines:
            prices = build_prices([one])
        assert prices.cost_usd(one.model, MILLION, endpoint="primary") == pytest.approx(usd)
        assert [(line["endpoint"], line["model"]) for line in lines] == [("primary", one.model)] * is_logged
        assert all("usd_per_million_tokens" in line["event"] for line in lines)


def test_a_budget_in_dollars_needs_known_prices() -> None:
    unpriced, offline = endpoint(base_url=NOWHERE), endpoint(model=OFFLINE_MODEL, base_url=NOWHERE)
    in_dollars = JudgeSettings(budget=BudgetSettings(usd_per_day=25))
    with pytest.raises(SettingsError, match="usd_per_million_tokens: is required with a budget in dollars"):
        check_prices(in_dollars, [endpoint(), unpriced])
    check_prices(in_dollars, [endpoint(), offline])
    check_prices(JudgeSettings(budget=BudgetSettings(calls_per_day=9)), [unpriced])
    metrics = {"near": {**NEAR, "model": "e", "endpoints": ["a"]}}
    own = settings(NOWHERE, metrics, budget={"usd_per_day": 1})
    with pytest.raises(SettingsError, match=r"metrics\.\*\.model \(a/e\): a price is required with a budget"):
        check_prices(own.judge, judge_endpoints(own.judge, {}, own.metrics))


@pytest.mark.parametrize("values", [{}, {"usd_per_million_tokens": {"input": 1, "output": 1}}])
def test_a_paid_endpoint_needs_a_budget(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"judge\.budget: is required, because gpt-4\.1-mini at"):
        check_prices(JudgeSettings(), [endpoint(**values)])
    check_prices(JudgeSettings(), [endpoint(base_url=NOWHERE, **values)])
    check_prices(JudgeSettings(), [endpoint(usd_per_million_tokens={"input": 0, "output": 0})])
    check_prices(JudgeSettings.model_validate({"budget": "none"}), [endpoint(**values)])


@pytest.mark.parametrize(
    ("env", "options", "address", "model"),
    [
        ({"OPENAI_MODEL": "m"}, {}, None, None),
        ({"OPENAI_API_KEY": "k"}, {"model": "m"}, "https://api.openai.com/v1", "m"),
        (
            {"OPENAI_BASE_URL": NOWHERE, "OPENAI_MODEL": "theirs"},
            {"base_url": "http://127.0.0.1:2/v1", "model": "mine"},
            "http://127.0.0.1:2/v1",
            "mine",
        ),
    ],
    ids=["a model alone", "a key alone", "options over the environment"],
)
async def test_options_override_the_environment(
    env: dict[str, str], options: dict[str, str], address: str | None, model: str | None
) -> None:
    found = await chosen_endpoint(env, **options)
    assert (found and (found.base_url, found.model)) == (address and (address, model))
    key = None if found is None or found.api_key is None else found.api_key.env
    assert key == ("OPENAI_API_KEY" if "OPENAI_API_KEY" in env else None)


@pytest.mark.parametrize(
    ("models", "problem"),
    [(("only",), ""), ((), "0 models (none)"), (("a", "b\x1b"), r"2 models (a, b\x1b)")],
)
async def test_the_only_model_is_taken(models: tuple[str, ...], problem: str) -> None:
    async with judge_server(lambda _: "", models=models) as server:
        env = {"OPENAI_BASE_URL": server.url}
        if not problem:
            found = await chosen_endpoint(env)
            assert found is not None
            assert found.model == "only"
            return
        with pytest.raises(SettingsError) as caught:
            await chosen_endpoint(env)
        assert problem in str(caught.value)
        with pytest.raises(JudgeUnavailableError, match=r"status 404; set OPENAI_MODEL"):
            await chosen_endpoint({"OPENAI_BASE_URL": f"{server.url}/elsewhere"})
    with pytest.raises(JudgeUnavailableError, match="does not answer"):
        await chosen_endpoint({"OPENAI_BASE_URL": NOWHERE})


def test_the_flex_tier_is_sent_and_costs_half() -> None:
    price = {"usd_per_million_tokens": {"input": 2, "output": 10}}
    flex = endpoint(**price, lane={"tier": "flex"})
    dear = endpoint(**price, lane={"tier": "flex", "price_factor": 0.8}, parameters={"service_tier": "auto"})
    batch = endpoint(**price, lane={"batch": {}})
    found = [build_prices([one]).cost_usd("m", MILLION, endpoint="primary") for one in (flex, dear, batch)]
    assert found == [1, 1.6, 2]
    pool = open_pool(JudgeSettings(), [flex, dear, batch])
    tiers = [one.options.parameters.get("service_tier") for one in pool.endpoints]
    assert tiers == ["flex", "auto", None]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"lane": {}}, "needs either batch or tier"),
        ({"lane": {"batch": {}, "tier": "flex"}}, "needs either batch or tier"),
        (
            {"lane": {"batch": {"give_up_after_seconds": 60}}},
            r"least close_after_seconds \(600\), got 60; raise it or lower the other",
        ),
        ({"context_tokens": 4096}, r"0\.context_tokens: must be more than max_output_tokens"),
    ],
)
def test_an_endpoint_that_cannot_work_is_refused(values: Mapping[str, Any], problem: str) -> None:
    document = {"endpoints": [{"name": "primary", "model": "m", **values}]}
    with pytest.raises(ValidationError, match=problem):
        JudgeSettings.model_validate(document)
    if "context_tokens" in values:
        assert JudgeSettings.model_validate(document | {"max_output_tokens": 1024})
