"""Arbitrary events and replies give results that conform to the published schema."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generate.message_schemas import json_schema
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.guard import TextLimits
from judge.metric import Metric
from judge.metrics.coverage import COVERAGE_SCHEMA, Coverage
from judge.metrics.packs.metric import PackMetric
from judge.metrics.relevance import RELEVANCE_SCHEMA, Relevance
from judge.text.redaction import KINDS
from schemas import RESULT, Failed, Scored
from tests.judge.attacks.corpus import ATTACKS
from tests.judge.scripted import ScriptedChat
from tests.judge.tasks import guarded, task_for, yaml_pack

PACK = yaml_pack("messages:\n- {role: user, content: '{question} {answer} {reference} {context}'}\n")
METRICS: Mapping[str, Metric] = {
    "coverage": Coverage(),
    "coverage pack": Coverage(pack=PACK),
    "relevance": Relevance(),
    "relevance pack": Relevance(pack=PACK),
    "own": PackMetric("own", PACK, score_range=(0, 10)),
    "redacted": guarded(Coverage(), *KINDS, limits=TextLimits(question=100, answer=400)),
}

WORDS = ["Paris", "tower", "1889", "330", "in", "the", "not", "yes", "Évry", "東京", "塔", "кот", "a\u0301",
    "\u200b", "\u202e", "\x00", "🙂",
         "[Page 1]", "[Page 2]", "[Pages 1-3]", "Evidence:", ".", ". ", "?", "\n", " ", "<<<00000000>>>",
         "{answer}", "ada@example.com"]  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join) | st.text(max_size=200)
TEXTS |= st.integers(0, len(ATTACKS) - 1).map(lambda number: ATTACKS[number].answer[:2000])
EVENT_TEXTS = st.one_of(
    TEXTS,
    TEXTS.map(lambda text: f"The tower is in Paris. {text}"),
    TEXTS.map(lambda text: f"{text} 1889 [Page 1]"),
)
PAGES = st.none() | st.dictionaries(
    st.sampled_from(["Page-1", "page 2", "Page-3", "x"]), EVENT_TEXTS, min_size=1, max_size=4
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
)
KEYS = ["score", "rationale", "justification", "facts", "conclusions", "terms", "organization", "claims"]
OBJECTS = st.dictionaries(st.sampled_from(KEYS), ANY_JSON, max_size=8)


def _or_odd(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 19).flatmap(lambda number: good if number else SCALARS)


def _near(schema: Mapping[str, Any], *, may_be_odd: bool = True) -> st.SearchStrategy[Any]:
    """Return replies of a schema of which some have an odd value at the top."""
    if schema["type"] == "array":
        return st.lists(_near(schema["items"], may_be_odd=False), max_size=4)
    if schema["type"] == "object":
        parts = {name: _near(part, may_be_odd=False) for name, part in schema["properties"].items()}
        return st.fixed_dictionaries(
            {name: _or_odd(part) if may_be_odd else part for name, part in parts.items()}
        )
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": TEXTS, "boolean": st.booleans(), "integer": st.integers(0, 6), "null": st.none()
    }  # fmt: skip
    named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of([kinds[kind] for kind in named])


FORMS = {"coverage": _near(COVERAGE_SCHEMA.schema), "relevance": _near(RELEVANCE_SCHEMA.schema)}
FORMS["redacted"] = FORMS["coverage"]
LINES = st.lists(st.sampled_from(["Fact: 1 of 2", "Conclusion: 0 of 0", "Terminology: 1/1",
    "Organization: matched", "x"]), max_size=6)  # fmt: skip
NEAR_VERBATIM = st.fixed_dictionaries(
    {"score": _or_odd(st.integers(-1, 11)), "rationale": _or_odd(LINES), "justification": _or_odd(TEXTS)}
)


# `json.dumps` writes NaN and Infinity, as some servers do.
REPLIES = (
    (FORMS["coverage"] | FORMS["relevance"] | NEAR_VERBATIM | OBJECTS | ANY_JSON).map(json.dumps)
    | TEXTS
    | st.tuples(TEXTS, NEAR_VERBATIM.map(json.dumps), TEXTS).map("".join)
)


@cache
def _schema(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", METRICS)
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    question=EVENT_TEXTS, answer=EVENT_TEXTS, reference=EVENT_TEXTS | st.none(), context=PAGES, data=st.data()
)
def test_results_and_verdicts_conform_to_their_schemas(
    name: str,
    question: str,
    answer: str,
    reference: str | None,
    context: dict[str, str] | None,
    data: st.DataObject,
) -> None:
    metric = METRICS[name]
    fitting = FORMS.get(name, NEAR_VERBATIM).map(json.dumps)
    reply = data.draw(fitting if data.draw(st.integers(0, 3)) else REPLIES)
    task = task_for(metric, question=question, answer=answer, reference=reference, context=context)
    judge = Evaluator(metric, ScriptedChat(lambda _: reply), repair_attempts=1)
    result = asyncio.run(judge.judge(task))
    written = json.loads(RESULT.dump_json(result, by_alias=True))
    _schema("result").validate(written)
    if isinstance(result, Failed):
        assert result.error_type in {"invalid_verdict", "context_too_long"}, result.detail
    elif isinstance(result, Scored):
        low, high = metric.score_range
        assert low <= result.score <= high
        assert result.verdict["score"] == result.score
        if metric.name != "own":
            _schema(f"{metric.name}_verdict").validate(written["verdict"])
