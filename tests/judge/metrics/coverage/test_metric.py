from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ChatMessage, ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Metric, ScoredOutcome, UnscoredOutcome
from judge.metrics.coverage import COVERAGE_SCHEMA, Coverage
from judge.metrics.packs.pack import parse_pack
from judge.metrics.prompting import parse_fenced
from judge.metrics.scoring import FORCED_VERDICT
from schemas import CoverageVerdict, QAEvent
from tests.judge.replies import coverage_reply, listed_item
from tests.judge.tasks import make_task

SNAPSHOT = Path(__file__).parent / "snapshots" / "coverage.evidence.txt"
REFERENCE = "The Eiffel Tower is in Paris. It was completed in 1889."
ANSWER = "The Eiffel Tower, built in 1889, is located in Paris, France."

IN_PARIS = ("The Eiffel Tower is in Paris.", "The Eiffel Tower is in Paris.", ANSWER)
IN_1889 = ("It was completed in 1889.", "It was completed in 1889.", "built in 1889")
TERM = ("Eiffel Tower", "Eiffel Tower", "The Eiffel Tower")

Given = tuple[str, str, str | None]
PACK = parse_pack(b'[{role: user, content: "{question}|{reference}|{answer}"}]', dialect="yaml", origin="p")


def _item(given: Given, *, matched: bool | None = None) -> dict[str, Any]:
    name, span, answer_span = given
    return listed_item(span, answer_span, name=name, matched=matched)


def _reply(
    facts: Iterable[Given] = (),
    conclusions: Iterable[Given] = (),
    terms: Iterable[Given] = (),
    *,
    similar: bool = True,
) -> str:
    lists = [map(_item, given) for given in (facts, conclusions, terms)]
    return json.dumps(coverage_reply(*lists, similar=similar))


def _judge(reply: str, *, reference: str = REFERENCE, answer: str = ANSWER) -> ScoredOutcome:
    metric = Coverage()
    outcome = metric.interpret(make_task("coverage", reference=reference, answer=answer), reply)
    assert isinstance(outcome, ScoredOutcome)
    CoverageVerdict.model_validate(dict(outcome.verdict))
    orjson.dumps(outcome.evidence)
    return outcome


def _kinds(outcome: ScoredOutcome) -> list[str]:
    return [*(one.kind for one in outcome.corrections), *(one.kind for one in outcome.suspicions)]


def _lines(outcome: ScoredOutcome) -> list[str]:
    rationale: list[str] = outcome.verdict["rationale"]
    return rationale


@pytest.mark.parametrize(
    "facts",
    [
        [IN_PARIS, IN_1889],
        [("a", "The Eiffel Tower is in Paris", "located in Paris"),
            ("b", "completed in 1889", "built in 1889")],
        [("a", "Eiffel Tower is in Paris", "The Eiffel Tower"), ("b", "1889", "1889")],
        [("a", "the eiffel tower\nIS in  Paris.", ANSWER), ("b", "It was completed in 1889", ANSWER)],
    ],
)  # fmt: skip
def test_the_worked_case(facts: list[Given]) -> None:
    """Two facts, no conclusion and one term yield the published verdict for any span length."""
    outcome = _judge(_reply(facts=facts, terms=[TERM]))
    assert outcome.verdict == {
        "score": 5,
        "rationale": [
            "Fact: 2 of 2 facts correctly matched.",
            "Conclusion: 0 of 0 conclusions correctly matched.",
            "Terminology: 1 of 1 terms correctly matched.",
            "Organization: matched",
            (
                "Score: 5 ≈ 5.0 = 5 * (facts_ratio 1.0 * 0.7 + terms_ratio 1.0 * 0.21 + "
                "organization_ratio 1.0 * 0.09)"
            ),
        ],
    }
    assert outcome.score == 5
    assert outcome.score_exact == "5"
    assert outcome.corrections == ()


def test_the_evidence_names_the_places() -> None:
    """Evidence offsets refer to the original texts, not to a normalised form."""
    reference, answer = "A  Tower\u00a0stands in Paris.", "In Paris a\u00adn old tower stands."
    outcome = _judge(
        _reply(facts=[("A tower stands in Paris", "a tower stands in paris", "an old Tower stands")]),
        reference=reference,
        answer=answer,
    )
    (fact,) = outcome.evidence["facts"]
    assert reference[fact["reference_start"] : fact["reference_end"]] == "A  Tower\u00a0stands in Paris"
    assert answer[fact["answer_start"] : fact["answer_end"]] == "a\u00adn old tower stands"
    assert outcome.evidence["organization"] == {"similar": True, "justification": "Both are short."}


def test_an_item_that_the_reference_does_not_have_is_dropped() -> None:
    """An item that is not in the reference is dropped and does not change the score."""
    outcome = _judge(
        _reply(facts=[IN_PARIS, IN_1889, ("It is 330 m tall.", "It is 330 m tall.", None)], terms=[TERM])
    )
    assert _kinds(outcome) == ["span_not_in_reference"]
    assert "facts[2]" in outcome.corrections[0].detail
    assert outcome.score == 5


@pytest.mark.parametrize(
    "answer_span", [None, "completed in 1889", "", "  ", "\u200b", ",", "art", "188"]
)  # fmt: skip
def test_an_unsupported_match_is_unmatched(answer_span: str | None) -> None:
    """A missing, invented or partial-word answer span leaves the fact unmatched."""
    reply = json.loads(_reply(facts=[IN_PARIS], terms=[TERM]))
    reply["facts"].append(listed_item("It was completed in 1889.", answer_span, matched=True))
    outcome = _judge(json.dumps(reply))
    assert _kinds(outcome) == ["span_not_in_answer"]
    assert _lines(outcome)[0] == "Fact: 1 of 2 facts correctly matched."
    # 0.35 + 0.21 + 0.09 = 0.65; times 5 is 3.25.
    assert outcome.score_exact == "3.25"


@pytest.mark.parametrize(
    ("conclusion", "score"),
    [
        (("the eiffel  tower is in Paris", "Eiffel Tower", None), 5),
        # The same span in other words is only a suspicion: 5 * (0.4 + 0 + 0.21 + 0.09) = 3.5.
        (("Paris has it.", "The Eiffel Tower is in Paris.", None), 4),
    ],
)
def test_a_fact_is_not_also_a_conclusion(conclusion: Given, score: int) -> None:
    """An item listed as fact and conclusion counts as a fact."""
    outcome = _judge(_reply(facts=[IN_PARIS, IN_1889], conclusions=[conclusion], terms=[TERM]))
    assert _kinds(outcome) == ["both_fact_and_conclusion"]
    assert outcome.score == score


def test_a_duplicate_counts_once() -> None:
    """Duplicates of a matched item do not raise the ratio."""
    missed = ("It was completed in 1889.", "It was completed in 1889.", None)
    outcome = _judge(
        _reply(facts=[IN_PARIS, IN_PARIS, ("the EIFFEL tower is in Paris", *IN_PARIS[1:]), missed])
    )
    assert _kinds(outcome) == ["duplicate_item", "duplicate_item"]
    assert _lines(outcome)[0] == "Fact: 1 of 2 facts correctly matched."


def test_a_duplicate_that_contradicts_leaves_the_item_unmatched() -> None:
    """An item listed as matched and as unmatched is unmatched."""
    outcome = _judge(_reply(facts=[IN_PARIS, (IN_PARIS[0], IN_PARIS[1], None), IN_1889]))
    assert _lines(outcome)[0] == "Fact: 1 of 2 facts correctly matched."


def test_two_facts_may_rest_on_one_sentence() -> None:
    """Two different items on one span are not duplicates."""
    outcome = _judge(
        _reply(facts=[("It is old.", "A big old tower", "old"), ("It is big.", "A big old tower", None)]),
        reference="A big old tower stands there.",
        answer="The old tower.",
    )
    assert _lines(outcome)[0] == "Fact: 1 of 2 facts correctly matched."
    assert outcome.corrections == ()


@pytest.mark.parametrize("term", ["1889", "1,889.5", "in 1889", "", " ", "\u200b", "1880s", "3rd", "…"])
def test_numbers_and_blanks_are_no_terms(term: str) -> None:
    """Numbers and blanks are dropped from the terms."""
    outcome = _judge(_reply(facts=[IN_PARIS, IN_1889], terms=[TERM, (term, "1889", None)]))
    assert _kinds(outcome) == ["not_a_term"]
    assert _lines(outcome)[2] == "Terminology: 1 of 1 terms correctly matched."


@pytest.mark.parametrize(
    ("answer_span", "kinds"),
    [
        ("the lights", ["term_not_in_answer"]),
        ("photosynthetic", []),
        ("synthesis of light", ["term_not_in_answer"]),
        ("Photosynthesis-like", []),
    ],
)
def test_a_term_without_its_word_is_marked(answer_span: str, kinds: list[str]) -> None:
    """A term matches any inflection of its word; a paraphrase is a suspicion."""
    outcome = _judge(
        _reply(
            facts=[("Plants use photosynthesis.", "Plants use photosynthesis", None)],
            terms=[("photosynthesis", "photosynthesis", answer_span)],
        ),
        reference="Plants use photosynthesis.",
        answer="Photosynthesis-like, photosynthetic, the lights, synthesis of light.",
    )
    assert _kinds(outcome) == kinds
    assert _lines(outcome)[2] == "Terminology: 1 of 1 terms correctly matched."


@pytest.mark.parametrize(
    ("reference", "marked"),
    [
        (REFERENCE, 2),
        ("Paris", 1),
        # One-word sentences are checked together.
        ("Paris. London. Rome.", 3),
        # A repeated sentence is one fact.
        ("It was completed in 1889. It was completed in 1889.", 1),
        ("The Who", 1),
        ("\U0001f642", 1),
        ("東京は日本の首都です。", 1),
    ],
)
def test_a_judge_that_lists_nothing_is_asked_again_and_marked(reference: str, marked: int) -> None:
    """If the judge lists nothing, it is asked again, and each sentence of the reference is a suspicion."""
    outcome = _judge(_reply(), reference=reference, answer="I do not know.")
    assert _kinds(outcome) == ["reference_not_accounted"] * marked
    assert outcome.objection is not None


def test_a_reference_of_stop_words_is_matched_by_its_own_words() -> None:
    """A span of stop words is valid if the reference has no other words."""
    outcome = _judge(
        _reply(facts=[("It is the Who.", "The Who", "the Who")]), reference="The Who", answer="It is the Who."
    )
    assert _lines(outcome)[0] == "Fact: 1 of 1 facts correctly matched."
    assert outcome.corrections == ()


def test_an_omitted_fact_is_marked() -> None:
    """A fact that the judge omits is a suspicion."""
    honest = _judge(
        _reply(facts=[IN_PARIS, ("It was completed in 1889.", "It was completed in 1889.", None)])
    )
    assert _kinds(honest) == []
    assert _kinds(_judge(_reply(facts=[IN_PARIS]))) == ["reference_not_accounted"]


def test_a_dropped_item_leaves_its_sentence_open() -> None:
    """An item whose span is a paraphrase does not account for its sentence."""
    outcome = _judge(_reply(facts=[IN_PARIS, ("1889", "finished in 1889", None)], terms=[TERM]))
    assert _kinds(outcome) == ["span_not_in_reference", "reference_not_accounted"]


def test_half_of_a_sentence_accounts_for_it() -> None:
    """A sentence is accounted for by spans of facts and conclusions with half of its content words; terms do
    not count.
    """
    reference = "Alpha beta gamma delta epsilon zeta."
    half = _judge(
        _reply(facts=[("a", "Alpha beta", None)], conclusions=[("b", "zeta", None)]), reference=reference
    )
    assert half.corrections == ()  # 3 of 6
    less = _judge(
        _reply(facts=[("a", "Alpha beta", None)], terms=[("zeta", "zeta", None)]), reference=reference
    )
    assert _kinds(less) == ["reference_not_accounted"]  # 2 of 6
    twice = _judge(_reply(facts=[("a", "Alpha beta", None), ("b", "alpha BETA", None)]), reference=reference)
    assert _kinds(twice) == ["reference_not_accounted"]  # the same two words


def test_a_span_accounts_for_all_its_repetitions() -> None:
    """One item accounts for every repetition of its span in the reference."""
    reference = "Paris is big and old. So we say: Paris is big and old."
    assert _judge(_reply(facts=[("a", "Paris is big and old", None)]), reference=reference).corrections == ()


@given(
    st.lists(st.sampled_from([IN_PARIS, IN_1889, ("x", "Paris", "Paris"), ("y", "nowhere", "1889"),
        ("z", "1889", "z")])),
    st.lists(st.sampled_from([IN_PARIS, ("it is old", "completed in 1889", None), ("w", "Tower", "tower")])),
    st.lists(st.sampled_from([TERM, ("Paris", "Paris", "Paris"), ("1889", "1889", "1889"),
        ("Tower", "Tower", "art")])),
)  # fmt: skip
def test_no_list_does_better_than_the_texts_allow(
    facts: list[Given], conclusions: list[Given], terms: list[Given]
) -> None:
    """If the answer shares no word with the reference, no item is matched."""
    outcome = _judge(_reply(facts, conclusions, terms), answer="Bananas ripen quickly.")
    lists = (outcome.evidence[name] for name in ("facts", "conclusions", "terms"))
    matched = [one for listed in lists for one in listed if one["matched"]]
    assert matched == []
    # Without any fact the metric's rule gives the neutral ratio; only then the score may exceed 1.
    assert outcome.score <= 1 or not outcome.evidence["facts"]


# Asking


def test_the_metric_is_one() -> None:
    """Name, range, mode and versions of the metric are as published."""
    metric: Metric = Coverage()
    assert (metric.name, metric.score_range, metric.mode, metric.scoring_version) == (
        "coverage", (0, 5), "evidence", "coverage-5",
    )  # fmt: skip


def test_an_event_gives_its_three_texts() -> None:
    """The metric selects question, answer and reference, and no pages."""
    event = QAEvent(event_id="e", question="q", answer="a", reference="r", context={"Page-1": "p"})
    assert Coverage().select(event) == Inputs(question="q", answer="a", reference="r")


def test_the_request() -> None:
    """A request has constant instructions, the fenced event and, in evidence mode, the schema."""
    task = make_task("coverage", question="Where?\x00", reference=REFERENCE, answer=ANSWER)
    request = Coverage().prepare(task)
    assert isinstance(request, ChatRequest)
    assert request.response_schema is COVERAGE_SCHEMA
    system, user = request.messages
    assert (system.role, user.role) == ("system", "user")
    assert parse_fenced(user.content) == {"question": "Where? ", "reference": REFERENCE, "answer": ANSWER}


def test_the_reply_limit_grows_with_the_reference_and_a_longer_one_is_too_long() -> None:
    """3,000 bytes give about 40 items of 75 to 95 tokens; beyond 12,000 bytes nothing is asked."""
    limits = []
    for size in (1_000, 12_000):
        request = Coverage().prepare(make_task("coverage", reference="a" * size, answer="a"))
        assert isinstance(request, ChatRequest)
        limits.append(request.max_output_tokens)
    assert limits == [4_096, 15_600]
    outcome = Coverage().prepare(make_task("coverage", reference="a" * 12_001, answer="a"))
    assert outcome == UnscoredOutcome("too_long", evidence={"reference_bytes": 12_001, "limit": 12_000})


def test_the_rendered_prompt() -> None:
    """The rendered prompt equals its snapshot."""
    request = Coverage().prepare(
        make_task("coverage", question="Where is it, and from when?", reference=REFERENCE, answer=ANSWER)
    )
    assert isinstance(request, ChatRequest)
    rendered = "\n".join(f"--- {message.role}\n{message.content}" for message in request.messages) + "\n"
    assert rendered == SNAPSHOT.read_text("utf-8")


_BLANK = ("", " \n", "\x00", "\u200b\ufeff", "\ud800")


@pytest.mark.parametrize(
    ("field", "blank"), [*product(("question", "answer", "reference"), _BLANK), ("reference", None)]
)
def test_missing_input_is_not_asked_about(field: str, blank: str | None) -> None:
    """A blank text or a missing reference is unscored with the forced verdict, without a call."""
    # `model_copy` skips validation: no valid message holds a lone surrogate.
    task = make_task("coverage", reference="r").model_copy(update={field: blank})
    for metric in (Coverage(), Coverage(pack=PACK)):
        assert metric.prepare(task) == UnscoredOutcome("missing_input", verdict=FORCED_VERDICT)


# Invalid replies


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"facts": None}, "facts"),
        ({"facts": [{}]}, "facts[0].item"),
        ({"facts": [{**_item(IN_PARIS), "matched": "yes"}]}, "facts[0].matched"),
        ({"facts": [{**_item(IN_PARIS), "matched": 1}]}, "facts[0].matched"),
        ({"terms": [_item(TERM), {**_item(TERM), "reference_span": None}]}, "terms[1].reference_span"),
        ({"terms": [_item(TERM), {**_item(TERM), "answer_span": 7}]}, "terms[1].answer_span"),
        ({"organization": True}, "organization"),
        ({"organization": {"justification": "x"}}, "organization.similar"),
    ],
)
def test_a_wrong_part_is_named(change: dict[str, Any], path: str) -> None:
    """The error names the path of the invalid part."""
    reply = json.loads(_reply([IN_PARIS])) | change
    with pytest.raises(InvalidVerdictError) as error:
        _judge(json.dumps(reply))
    assert path in error.value.detail
    assert error.value.error_type == "invalid_verdict"


def test_further_keys_and_prose_are_ignored() -> None:
    """Unknown keys and prose around the JSON are ignored."""
    reply = json.loads(_reply([IN_PARIS, IN_1889], terms=[TERM])) | {"thoughts": "hm"}
    reply["facts"][0]["confidence"] = 0.5
    assert _judge(f"Here it is:\n```json\n{json.dumps(reply)}\n```\nDone.").score == 5


REPLIES = st.text() | st.sampled_from(
    [
        "",
        "{}",
        "[]",
        '{"facts": ' + "[" * 100_000,
        '{"facts": ' + "9" * 10_000 + "}",
        '{"facts": NaN, "score": NaN}',
        '{"score": 1e999}',
        '{"score": ' + "9" * 5_000 + "}",
        '{"score": true, "rationale": []}',
        '{"score": 5, "rationale": [1, 2, 3, 4, 5]}',
        '{"score": 5, "rationale": {"a": 1}}',
        '{"score": 4.0}',
        '{"score": null}',
        '{"score": -1}',
        '{"score": 6}',
        '{"score": 5, "rationale": ["\\ud800"]}',
    ]
)


@given(REPLIES, st.sampled_from([None, PACK]))
def test_no_reply_breaks_anything(reply: str, pack: Any) -> None:
    """Any malformed reply raises `InvalidVerdictError`."""
    task = make_task("coverage", reference=REFERENCE, answer=ANSWER)
    with pytest.raises(InvalidVerdictError):
        Coverage(pack).interpret(task, reply)


@given(st.text(), st.text(), st.text(), st.booleans())
def test_no_span_breaks_anything(name: str, reference_span: str, answer_span: str, matched: bool) -> None:
    """Arbitrary characters in a reply give a serialisable outcome."""
    listed = [listed_item(reference_span, answer_span, name=name, matched=matched)]
    reply = coverage_reply(listed, listed, listed)
    for reference in (REFERENCE, reference_span + " x", "\ud800 half a pair"):
        outcome = _judge(json.dumps(reply), reference=reference.encode("utf-8", "replace").decode())
        orjson.dumps([outcome.verdict, outcome.evidence, [one.detail for one in outcome.corrections]])


def test_a_pack_replaces_the_prompts_and_is_verbatim() -> None:
    """A pack sets messages, hash and schema, and makes the metric verbatim."""
    metric = Coverage(pack=PACK)
    assert (metric.mode, metric.prompt_hash, metric.schema_hash) == ("verbatim", PACK.hash, "none")
    request = metric.prepare(make_task("coverage", question="q", reference="r", answer="a"))
    assert isinstance(request, ChatRequest)
    assert request.messages == (ChatMessage("user", "q|r|a"),)
