from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from judge.metric import ScoredOutcome
from judge.metrics.coverage import Coverage
from judge.metrics.relevance import Relevance
from judge.text.citations import without_tags
from judge.text.support import Vocabulary, cannot_be_compared, needed, own_words, significant
from tests.judge.replies import coverage_reply, listed_claim, listed_item, relevance_reply
from tests.judge.tasks import make_task

ENGLISH = (
    "The tower was built by the company of an engineer for the fair, and it was the tallest of its "
    "time in the world."
)
GERMAN = (
    "Der Turm wurde von der Firma eines Ingenieurs zur Weltausstellung gebaut und war damals das "
    "höchste Bauwerk der Welt."
)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("completed", "completion", True),
        ("photosynthesis", "photosynthetic", True),
        ("tower", "towers", True),
        ("energie", "energy", True),
        ("башня", "башни", True),
        ("think", "things", False),
        ("strait", "straight", False),
        ("drivers", "driveway", False),
        ("art", "arts", False),  # a stem needs four letters
        ("same", "same", True),
    ],
)
def test_forms_of_one_word(one: str, other: str, alike: bool) -> None:
    """Two words are forms of one if they share a stem and have usual endings."""
    assert (one in Vocabulary([other])) is alike
    assert (other in Vocabulary([one])) is alike


@pytest.mark.parametrize(
    ("word", "digits"),
    [
        ("1889", "1889"),
        ("1,800,000", "18"),
        ("1.8", "18"),
        ("3rd", "3"),
        ("seven", "7"),
        ("0", "0"),
        ("tower", None),
    ],
)
def test_significant_digits(word: str, digits: str | None) -> None:
    """Equal significant digits agree: 1.8 million and 1,800,000, seven and 7."""
    assert significant(word) == digits


def test_how_many_words_are_needed() -> None:
    """One word in eight is needed, rounded up."""
    assert [needed(count) for count in (1, 8, 9, 16, 17)] == [1, 1, 2, 2, 3]


def test_own_words_exclude_words_of_the_question() -> None:
    known = Vocabulary(["where", "tower"])
    own = own_words("Yes, the towers [5] stand in Paris since 1889.", known)
    assert [word.text for word in own] == ["stand", "paris", "since", "1889"]


def test_tags_are_blanked_in_place() -> None:
    """A removed tag leaves spaces, so every other character keeps its offset."""
    text = "It is old. Evidence: [Page 1] [Pages 2-3] And [sic] big."
    assert without_tags(text) == "It is old." + " " * 32 + "And [sic] big."


@pytest.mark.parametrize(
    ("text", "answer", "question", "cannot"),
    [
        (ENGLISH, GERMAN, GERMAN, True),
        (ENGLISH, GERMAN, ENGLISH, False),  # the answer is in neither language
        (ENGLISH, GERMAN, "Wer hat den Turm gebaut?", False),  # too short to detect a language
        (ENGLISH, ENGLISH, ENGLISH, False),
        (ENGLISH, "東京は日本の首都です。", "日本の首都はどこですか。", True),
        (ENGLISH, "解答", "Where is it?", False),
        (ENGLISH, "", "", False),
        ("Osceola County Stadium/West Palm Beach", ENGLISH, ENGLISH, False),  # names have no stop words
    ],
)
def test_which_texts_cannot_be_compared(text: str, answer: str, question: str, cannot: bool) -> None:
    """Texts are incomparable if the answer is surely in the question's language and the text surely in
    another.
    """
    assert cannot_be_compared(text, answer, question=question) is cannot


def _coverage(
    reference: str,
    answer: str,
    question: str,
    *,
    facts: Iterable[tuple[str, str | None]],
    conclusions: Iterable[tuple[str, str | None]] = (),
) -> ScoredOutcome:
    reply = coverage_reply(
        [listed_item(*spans) for spans in facts], [listed_item(*spans) for spans in conclusions]
    )
    task = make_task("coverage", question=question, answer=answer, reference=reference)
    outcome = Coverage().interpret(task, json.dumps(reply))
    assert isinstance(outcome, ScoredOutcome)
    return outcome


def _believed(outcome: ScoredOutcome) -> bool:
    """Whether the first fact's match counts and is not suspected."""
    suspected = any(suspicion.kind == "match_not_borne_out" for suspicion in outcome.suspicions)
    return bool(outcome.evidence["facts"][0]["matched"]) and not suspected


REFERENCE = "The tower stands in Paris. It was completed in March 1889 for the fair."
QUESTION = "Where is the tower, and when was it completed?"


@pytest.mark.parametrize(
    ("answer", "matched"),
    [
        ("It stands in Paris.", True),
        ("Paris.", True),
        ("The tower is in London.", False),
        ("Where is the tower, and when was it completed?", False),
        ("The tower! Evidence: [Page 1]", False),
        ("I do not know.", False),
    ],
)
def test_a_match_shares_a_word_that_the_question_does_not_have(answer: str, matched: bool) -> None:
    outcome = _coverage(REFERENCE, answer, QUESTION, facts=[("The tower stands in Paris", answer)])
    assert _believed(outcome) is matched


@pytest.mark.parametrize(
    ("answer", "matched"),
    [
        ("In March 1889.", True),
        ("In 1889.", True),  # a number is specific
        ("In March 1925.", False),  # the numbers differ
        ("There is a fair every week.", False),  # one common word of three or more
        ("For the fair in March.", True),
    ],
)
def test_one_common_word_does_not_state_a_sentence(answer: str, matched: bool) -> None:
    """One shared common word is not a match; a number or a name is."""
    span = "It was completed in March 1889 for the fair"
    outcome = _coverage(REFERENCE, answer, QUESTION, facts=[(span, answer)])
    assert _believed(outcome) is matched


PLAN = (
    "An EHCP is a plan for health and care. Local authorities assess needs and review the plan every "
    "year in spring."
)
ABOUT_TEETH = "Dentists assess teeth every week and advise patients on brushing, flossing and caries."


@pytest.mark.parametrize(
    ("question", "answer", "matched"),
    [
        ("What is an EHCP?", ABOUT_TEETH, False),  # chance matches: assess, every, year
        ("What is an EHCP?", f"On the EHCP: {ABOUT_TEETH}", True),  # it mentions the subject of the question
        # a short answer need not repeat the question
        ("What is an EHCP?", "They assess it every year.", True),
        # the reference shares no word with the question
        ("Which document helps pupils?", ABOUT_TEETH, True),
        (
            "What is an EHCP?",
            "Local authorities assess needs every year and review each plan for children.",
            True,
        ),
    ],
)
def test_an_answer_on_something_else_must_say_half_of_a_sentence(
    question: str, answer: str, matched: bool
) -> None:
    """An answer on another subject matches only with half of a sentence's words."""
    span = "Local authorities assess needs and review the plan every year in spring."
    outcome = _coverage(PLAN, answer, question, facts=[(span, answer)])
    assert _believed(outcome) is matched


@pytest.mark.parametrize(
    ("reference", "answer", "matched"),
    [
        ("Here is a step-by-step process.", "Let's think about this step by step.", False),
        ("Here is a step-by-step process.", "Step by step.", True),
        ("No answer is known.", "No answer.", True),  # the reference is a refusal too
    ],
)
def test_a_refusal_or_an_opening_states_nothing(reference: str, answer: str, matched: bool) -> None:
    """A refusal or an opening phrase is no match, whatever words it shares."""
    outcome = _coverage(reference, answer, "How do I lay asphalt?", facts=[(reference, answer)])
    assert _believed(outcome) is matched


def test_a_whole_reference_is_not_matched_by_half_of_it() -> None:
    """Each sentence of a span must be supported."""
    outcome = _coverage(
        REFERENCE, "It stands in Paris.", QUESTION, facts=[(REFERENCE, "It stands in Paris.")]
    )
    assert not _believed(outcome)


@pytest.mark.parametrize("fact", [[], [("Paris", "in Paris")]])
def test_conclusions_need_facts(fact: list[tuple[str, str | None]]) -> None:
    """Conclusions without facts are suspected: one matched word would get the weight of all facts."""
    reference = (
        "It stands in Paris. Therefore visitors from all over the world come to see it and spend a lot "
        "of money there."
    )
    rest = "Therefore visitors from all over the world come to see it and spend a lot of money there"
    outcome = _coverage(
        reference,
        "It is in Paris.",
        "Where is it?",
        facts=fact,
        conclusions=[("It stands in Paris", "in Paris"), (rest, None)],
    )
    assert "conclusions_without_facts" in [suspicion.kind for suspicion in outcome.suspicions]


def test_words_of_the_question_count_beside_other_words() -> None:
    reference = "The tower is in Paris. It weighs 7300 tonnes."
    question = "Is the tower in Paris?"
    for answer, matched in (
        ("The tower is in Paris and weighs 7300 tonnes.", True),
        ("The tower is in Paris.", False),
    ):
        outcome = _coverage(
            reference, answer, question,
            facts=[("The tower is in Paris", answer), ("It weighs 7300 tonnes", answer)],
        )  # fmt: skip
        assert _believed(outcome) is matched


PAGE = "The tower stands on the Champ de Mars in Paris. It was painted brown by 25 people."


def _relevance(answer: str, claim: str, page_span: str, *, question: str = QUESTION) -> ScoredOutcome:
    reply = relevance_reply([listed_claim(claim, [1], page_span)])
    task = make_task("relevance", question=question, answer=answer, context={"Page-1": PAGE})
    outcome = Relevance().interpret(task, json.dumps(reply))
    assert isinstance(outcome, ScoredOutcome)
    return outcome


@pytest.mark.parametrize(
    ("answer", "claim", "believed"),
    [
        ("The tower is in Paris. [Page 1]", "The tower is in Paris.", True),
        ("In Paris. [Page 1]", "In Paris.", True),
        ("It was built by robots. [Page 1]", "It was built by robots.", False),
        (
            "It was painted by 40 people. [Page 1]",
            "It was painted by 40 people.",
            False,
        ),  # 25
        ("I do not know. [Page 1]", "I do not know.", False),
        ("Where is the tower? [Page 1]", "Where is the tower?", False),
        ("The tower, completed. [Page 1]", "The tower", False),  # every word is in the question
        # the rest is added as unsupported
        ("In Paris robots dance all night through the streets. [Page 1]", "Paris", False),
    ],
)
def test_a_page_must_support_a_claim(answer: str, claim: str, believed: bool) -> None:
    """Support needs words beyond the question in the sentences around the quotation."""
    outcome = _relevance(answer, claim, "The tower stands on the Champ de Mars in Paris.")
    assert (outcome.score == 5 and not outcome.suspicions) is believed


def test_an_answer_must_be_about_the_question() -> None:
    outcome = _relevance("It was painted brown by 25 people. [Page 1]", "It was painted brown by 25 people.",
                         "It was painted brown by 25 people.",
                         question="How do yeast cells feed on sugars?")  # fmt: skip
    assert "not_about_question" in [suspicion.kind for suspicion in outcome.suspicions]
