from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from judge import EmbeddingSimilarity, Judge
from schemas import Scored, Unscored
from streams.doctor.endpoints import EndpointExaminer
from streams.errors import SettingsError
from streams.judging.endpoints import (
    asked_by,
    build_prices,
    check_prices,
    judge_endpoints,
    metric_judges,
    open_stack,
)
from streams.judging.metrics import build_metrics
from streams.settings import Settings
from tests.judge.built_tasks import task_for
from tests.judge.fake_openai import Answer, completion, embeddings, fake_openai
from tests.judge.replies import listed_claim, relevance_reply

NEAR: Mapping[str, Any] = {"code": {"similarity": "embeddings"}}
REPLY = relevance_reply([listed_claim("It is.", [1], "It is.")], score=3)
VERDICT = Answer(body=completion(json.dumps(REPLY)))


def settings(url: str, metrics: Mapping[str, Any], **judge: Any) -> Settings:
    endpoints = [
        {"name": name, "base_url": url, "model": f"m-{name}", "parameters": {"seed": 1}}
        | {"usd_per_million_tokens": {"input": 2, "output": 10}}
        for name in ("a", "b")
    ]
    return Settings.model_validate(
        {"metrics": metrics, "judge": {"endpoints": endpoints, "budget": "none", **judge}}
    )


async def judged(wanted: Settings, name: str, **texts: Any) -> Any:
    metrics = build_metrics(wanted)
    endpoints = judge_endpoints(wanted.judge, {}, wanted.metrics)
    async with open_stack(wanted.judge, endpoints, prices=build_prices(endpoints)) as stack:
        task = task_for(metrics[name], **texts)
        return await metric_judges(stack, metrics, wanted.metrics)[name].judge(task)


async def test_answer_and_reference_are_compared_by_the_vectors_of_an_endpoint() -> None:
    """Answer and reference are embedded in one call, redacted; (3, 4) and (4, 3) have a cosine of 24/25.

    1000 tokens at 2 USD per million cost 0.002 USD. The endpoint's parameters are sent, its limit on output
    tokens is not.
    """
    body = embeddings([3, 4], [4, 3], tokens=1000)
    async with fake_openai(Answer(body=body)) as server:
        wanted = settings(server.url, {"near": {**NEAR, "endpoints": ["b"]}}, redact=["emails"])
        result = await judged(wanted, "near", answer="Ask ann@example.com.", reference="Ask Ann.")
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
async def test_an_endpoint_without_vectors_is_an_outage_and_no_result(trouble: Answer) -> None:
    """An invalid embedding is retried, and the result has the number of tries."""
    async with fake_openai(trouble, Answer(body=embeddings([1, 0], [-1, 0]))) as server:
        result = await judged(
            settings(server.url, {"near": {**NEAR, "endpoints": ["a"]}}), "near", reference="It is."
        )
    assert isinstance(result, Scored)
    assert result.value == 0.0, "the cosine is -1, which maps to 0"
    assert result.judge is not None
    assert result.judge.tries == 2


async def test_without_a_reference_nothing_is_asked() -> None:
    """Without a reference the metric is unscored and no call is made."""
    async with fake_openai() as server:
        wanted = settings(server.url, {"near": {**NEAR, "endpoints": ["a"]}})
        result = await judged(wanted, "near", reference=" ")
    assert isinstance(result, Unscored)
    assert server.requests == []


async def test_the_offline_judge_compares_words() -> None:
    """The offline judge compares words: equal texts give 1, three shared words of five give 3/5."""
    event = {"question": "q", "answer": "the tower is in Paris", "reference": "the tower is not red"}
    async with Judge() as judge:
        one = await judge.score(event, EmbeddingSimilarity("near"))
        same = await judge.score({**event, "reference": event["answer"]}, EmbeddingSimilarity("near"))
    assert isinstance(one, Scored)
    assert isinstance(same, Scored)
    assert (one.value, same.value) == (0.6, 1.0)
    assert one.evaluator.model == "offline-rules-1"


async def test_a_metric_has_a_model_of_its_own_at_the_endpoints_it_names() -> None:
    """A metric's own model has its parameters and fingerprint, and not the endpoint's price."""
    async with fake_openai(VERDICT) as server:
        metrics: dict[str, Any] = {
            "relevance": {"model": "large", "parameters": {"seed": 7}, "endpoints": ["b"]}
        }
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
    """A panel uses the metric's model; an endpoint's own model is the endpoint itself."""
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
    """Each model of a panel votes at each endpoint, once per sample."""
    panel = {"endpoints": ["b"], "models": ["large", "m-b", "small"], "samples": 2}
    wanted = settings("http://127.0.0.1:9/v1", {"relevance": {"panel": panel}})
    found = [(one.name, one.model) for one in judge_endpoints(wanted.judge, {}, wanted.metrics)]
    relevance = wanted.metrics["relevance"]
    assert asked_by(relevance, found) == ("b/large", "b", "b/small")
    assert [name for name, _ in found] == ["a", "b", "b/large", "b/small"]
    assert relevance.panel is not None
    assert relevance.panel.votes == 6


async def test_the_doctor_tries_each_model_with_what_it_is_for() -> None:
    """The doctor requests embeddings from an embedding model, and skips endpoints that no metric uses."""
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
    ],
)
def test_what_cannot_be_asked_is_named(metric: Mapping[str, Any], problem: str) -> None:
    """An invalid combination of model, panel and code names its field."""
    with pytest.raises(ValidationError, match=problem):
        settings("http://127.0.0.1:9/v1", {"near": metric})


def test_a_budget_in_dollars_needs_the_price_of_a_metrics_own_model() -> None:
    """A budget in USD requires a price for a metric's own model."""
    metrics = {"near": {**NEAR, "model": "e", "endpoints": ["a"]}}
    wanted = settings("http://127.0.0.1:9/v1", metrics, budget={"usd_per_day": 1})
    with pytest.raises(SettingsError, match=r"metrics\.\*\.model \(a/e\): has no known price"):
        check_prices(wanted.judge, judge_endpoints(wanted.judge, {}, wanted.metrics))
