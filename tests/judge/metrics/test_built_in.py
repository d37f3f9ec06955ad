"""The built-in metrics and the library: prompts with their worked examples, selected texts, any reply."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from judge.chat import ChatRequest
from judge.errors import JudgeConfigurationError, JudgeError
from judge.metric import Metric, ScoredOutcome, UnscoredOutcome
from judge.metrics.coverage import Coverage
from judge.metrics.library import LibraryMetric, library_prompt
from judge.metrics.packs.pack import parse_pack
from judge.metrics.prompting import load_prompt, parse_fenced
from judge.metrics.registry import build_metric, metric_class, metric_names
from judge.metrics.relevance import Relevance
from schemas import CoverageVerdict, JudgeTask, RelevanceVerdict
from tests.judge.replies import coverage_reply, listed_item, relevance_reply
from tests.judge.tasks import TONE, make_task, task_for, yaml_pack

LIBRARY = [name for name in metric_names() if metric_class(name) is LibraryMetric]
REFERENCE = "The Eiffel Tower is in Paris. It was completed in 1889."
BUILT = "The Eiffel Tower, built in 1889, is located in Paris, France."
ANSWER = (
    "The tower is 330 metres tall. Evidence: [Page 1]\n"
    "It stands in Paris. Evidence: [Page 2]\n"
    "Gustave Eiffel's company built it. Evidence: [Page 3]"
)
PAGES = {
    "Page-1": "At 330 metres the tower is the tallest structure of the city.",
    "Page-2": "The tower stands in Paris, on the Champ de Mars.",
    "Page-3": "It was built by the company of Gustave Eiffel.",
}


def coverage_task(*, question: str = "What is it?", reference: str = REFERENCE) -> JudgeTask:
    return make_task("coverage", question=question, reference=reference, answer=BUILT)


def relevance_task(*, question: str = "What is it?", answer: str = ANSWER) -> JudgeTask:
    return make_task("relevance", question=question, answer=answer, context=PAGES)


def scored(metric: Metric, task: JudgeTask, reply: object) -> ScoredOutcome:
    outcome = metric.interpret(task, json.dumps(reply))
    assert isinstance(outcome, ScoredOutcome)
    verdicts: dict[str, type[BaseModel]] = {"coverage": CoverageVerdict, "relevance": RelevanceVerdict}
    verdict = verdicts[metric.name]
    verdict.model_validate(dict(outcome.verdict))
    orjson.dumps([outcome.verdict, outcome.evidence, [one.detail for one in outcome.corrections]])
    return outcome


@pytest.mark.parametrize(
    ("name", "score_range", "version"),
    [("coverage", (0, 5), "coverage-5"), ("relevance", (1, 5), "relevance-5")],
)
def test_names_ranges_and_versions_are_as_published(name: str, score_range: object, version: str) -> None:
    metric = build_metric(name)
    assert (metric.name, metric.score_range, metric.mode) == (name, score_range, "evidence")
    assert metric.scoring_version == version
    own = build_metric(name, pack=PACK)
    assert (own.name, own.mode, own.score_range) == (name, "verbatim", score_range)
    assert own.prompt_hash == PACK.hash != metric.prompt_hash


@pytest.mark.parametrize(
    ("metric", "task"),
    [
        (Coverage(), coverage_task(question="Where is it, and from when?")),
        (Relevance(), relevance_task(question="What is known of the tower?", answer=f"{ANSWER} [Page 9]")),
    ],
    ids=["coverage", "relevance"],
)
def test_the_rendered_prompt(metric: Metric, task: JudgeTask) -> None:
    request = metric.prepare(task)
    assert isinstance(request, ChatRequest)
    rendered = "\n".join(f"--- {message.role}\n{message.content}" for message in request.messages) + "\n"
    snapshot = Path(__file__).parent / "snapshots" / f"{metric.name}.evidence.txt"
    assert rendered == snapshot.read_text("utf-8")


def test_the_reply_limit_grows_with_the_reference_and_a_longer_one_is_too_long() -> None:
    limits = []
    for size in (1_000, 12_000):
        request = Coverage().prepare(coverage_task(reference="a" * size))
        assert isinstance(request, ChatRequest)
        limits.append(request.max_output_tokens)
    assert limits == [4_096, 15_600]
    outcome = Coverage().prepare(coverage_task(reference="a" * 12_001))
    assert outcome == UnscoredOutcome("too_long", evidence={"reference_bytes": 12_001, "limit": 12_000})


ITEMS = [
    listed_item("The Eiffel Tower is in Paris.", BUILT),
    listed_item("It was completed in 1889.", "built in 1889"),
    *(listed_item(*spans) for spans in (("Paris", "Paris"), ("nowhere", "1889"), ("1889", "z"))),
    *(listed_item(*spans) for spans in (("Tower", "tower"), ("completed in 1889", None), ("Tower", "art"))),
]


@given(*[st.lists(st.sampled_from(ITEMS))] * 3)
def test_no_list_does_better_than_the_texts_allow(facts: Any, conclusions: Any, terms: Any) -> None:
    task = make_task("coverage", reference=REFERENCE, answer="Bananas ripen quickly.")
    outcome = scored(Coverage(), task, coverage_reply(facts, conclusions, terms))
    lists = (outcome.evidence[name] for name in ("facts", "conclusions", "terms"))
    assert not [one for listed in lists for one in listed if one["matched"]]
    # Without any fact the metric's rule gives the neutral ratio; only then the score may exceed 1.
    assert outcome.score <= 1 or not outcome.evidence["facts"]


@given(
    st.lists(
        st.builds(
            dict,
            claim_span=st.sampled_from([*ANSWER.splitlines(), "in", "tower", "[Page 2]"]) | st.text(),
            pages=st.lists(st.integers(0, 9), max_size=3),
            page=st.none() | st.integers(0, 9),
            page_span=st.none() | st.sampled_from(["tower", "330", "the", "Paris"]) | st.text(),
            supported=st.booleans(),
            relevant=st.booleans(),
        ),
        max_size=5,
    ),
    st.integers(1, 5),
)
def test_full_marks_need_every_claim(claims: list[dict[str, Any]], score: int) -> None:
    outcome = scored(Relevance(), relevance_task(), relevance_reply(claims, score=score))
    assert 1 <= outcome.score <= score
    listed = outcome.evidence["claims"]
    assert {2, 1, 3} <= {page for claim in listed for page in claim["pages"]}
    if outcome.score == 5:
        assert all(claim["supported"] and claim["relevant"] and claim["page_span"] for claim in listed)


EXAMPLE = re.compile(r"^## Example\n\n(?P<event>.*?)\n\n(?P<reply>\{.*?\})\n", re.MULTILINE | re.DOTALL)
_PARTS = r"question|reference|answer|context|instructions|Page-\d+"
TEXT = re.compile(rf"^(?P<name>{_PARTS}): (?P<text>.*?)(?=\n(?:{_PARTS}): |\Z)", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("name", "prompt", "score", "value"),
    [
        # 1 of 3 facts, 1 of 2 terms, organization: 5 * (1/3 * 0.7 + 0.105 + 0.09) = 2.14...
        ("coverage", "coverage.evidence", 2, None),
        ("coverage", "coverage.pack", 2, None),
        ("relevance", "relevance.evidence", 3, None),  # 1 of 2 claims
        ("relevance", "relevance.pack", 3, None),
        ("faithfulness", None, 3, None),  # one of two claims
        ("answer_relevance", None, 2, None),
        ("completeness", None, 3, None),  # one of two parts
        ("refusal", None, 0, "refused"),
        ("tone", None, 2, None),
        ("toxicity", None, 0, True),  # true is the bad one
        ("pii_leak", None, 0, True),
        ("instruction_following", None, 1, None),  # none of two rules
        ("context_relevance", None, 3, None),  # one of two texts
        ("hallucinated_citation", None, 0, True),
    ],
)
def test_the_worked_example_comes_out_as_it_says(
    name: str, prompt: str | None, score: int, value: object
) -> None:
    instructions = library_prompt(name).instructions if prompt is None else load_prompt(prompt)
    pack = None
    if prompt is not None and prompt.endswith(".pack"):
        pack = parse_pack(instructions.encode(), dialect="markdown", origin="shipped")
        assert pack.warnings == ()
    example = EXAMPLE.search(instructions)
    assert example is not None
    texts = {match["name"]: match["text"] for match in TEXT.finditer(example["event"])}
    pages = {page: text for page, text in texts.items() if page.startswith("Page-")}
    metric = build_metric(name, pack=pack)
    task = task_for(
        metric,
        question=texts.get("question", "q"),
        answer=texts.get("answer", "a"),
        reference=texts.get("reference"),
        context=json.loads(texts["context"]) if "context" in texts else pages or None,
        messages=[{"role": "system", "content": texts.get("instructions", "")}],
    )
    outcome = metric.interpret(task, example["reply"])
    assert isinstance(outcome, ScoredOutcome)
    assert (outcome.score, outcome.value, outcome.corrections, outcome.objection) == (score, value, (), None)


EVENT: dict[str, Any] = {
    "question": "How long is Lake Orrin, and is it safe to swim in it?",
    "answer": "Lake Orrin is 28 kilometres long. Swimming in it is safe.",
    "context": {"guide": "Lake Orrin is 28 kilometres long.", "boats": "Boats leave at nine."},
    "messages": [
        {"role": "developer", "content": "Answer in English. Never name prices."},
        {"role": "user", "content": "Hello"},
    ],
}


@pytest.mark.parametrize("name", LIBRARY)
def test_a_library_metric_is_built_by_name(name: str) -> None:
    metric = build_metric(name)
    task = task_for(metric, **EVENT)
    assert [one.role for one in task.messages or ()] in ([], ["developer"])
    request = metric.prepare(task)
    assert isinstance(request, ChatRequest)
    assert tuple(parse_fenced(request.messages[1].content)) == library_prompt(name).uses
    assert request.response_schema is not None
    assert request.response_schema.schema["additionalProperties"] is False
    prompt = " ".join(request.messages[0].content.split()).casefold()
    for words in ("judged and nothing else", "in english", "a program", "number", "den"):
        assert words in prompt
    with pytest.raises(JudgeConfigurationError, match="by definition"):
        build_metric(name, score_range=(0, 99))


PACK = yaml_pack('{score_range: [1, 3], messages: [{role: user, content: "{answer}"}]}')
BOOLEAN_PACK = yaml_pack('{result: boolean, messages: [{role: user, content: "{answer}"}]}')


def test_a_pack_makes_a_metric() -> None:
    assert build_metric("tone", pack=PACK).score_range == (1, 3)
    assert build_metric("tone", pack=PACK, score_range=(0, 9)).score_range == (0, 9)
    assert build_metric("tone", pack=TONE.pack, score_range=(0, 9)).name == "tone"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "mood"}, r"not installed \(there are coverage, relevance, .*\) and has no prompt_pack"),
        ({"name": "tone", "pack": TONE.pack}, "needs a score_range"),
        ({"name": "tone", "pack": PACK, "score_range": (5, 1)}, "lower to a higher"),
        ({"name": "coverage", "score_range": (1, 5)}, r"is \[0, 5\] by definition"),
        ({"name": "coverage", "pack": BOOLEAN_PACK}, "result"),
        ({"name": "relevance", "citation_pattern": "("}, "citation_pattern must be a regular expression"),
        ({"name": "relevance", "citation_pattern": "a" * 501}, "citation_pattern must be at most 500"),
    ],
)
def test_settings_that_make_no_metric_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(JudgeError, match=words) as caught:
        build_metric(**arguments)
    assert isinstance(caught.value, JudgeConfigurationError) or "score_range" in str(caught.value)
