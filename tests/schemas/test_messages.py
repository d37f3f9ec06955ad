from __future__ import annotations

import hashlib
import inspect
from typing import Any, get_args

import pytest
from pydantic import ValidationError

import schemas
from schemas import DeadLetter, Header, QAEvent, Scored, result_id
from schemas.findings import MEANINGS, SUSPICION_KINDS, ContradictionKind, CorrectionKind
from tests.streams.results import scored

EVENT = {"event_id": "e", "question": "q", "answer": "a"}


def test_everything_public_is_exported_and_nothing_else() -> None:
    public = {
        name
        for name, value in vars(schemas).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public - {"annotations"} == set(schemas.__all__)


def test_a_result_id_is_a_hash_of_topic_event_metric_and_replay() -> None:
    recipe = hashlib.sha256(b'["qa.events","e-1","coverage",null]').hexdigest()[:32]
    judgement: dict[str, Any] = {
        "topic": "qa.events",
        "event_id": "e-1",
        "metric": "coverage",
        "replay_id": None,
    }
    assert result_id(**judgement) == recipe
    for other in (
        {"topic": "qa.events2"}, {"event_id": "e-2"}, {"metric": "relevance"}, {"replay_id": "r"},
        {"topic": "qa.events,e", "event_id": "-1"},
    ):  # fmt: skip
        assert result_id(**judgement | other) != recipe


def test_a_dead_letter_keeps_any_bytes() -> None:
    letter = DeadLetter(
        reason="undecodable",
        detail="not JSON",
        topic="qa.events",
        partition=0,
        offset=1,
        key=b"\x00\xff",
        value=b"\xfb\xef\xbe",  # standard base64 encodes these with +
        value_bytes=3,
        headers=(Header(name="h", value=b"\xff"), Header(name="none", value=None)),
        failed_at="2026-11-21T09:30:00Z",
    )
    written = letter.model_dump_json()
    assert '"value":"++++"' in written
    assert DeadLetter.model_validate_json(written) == letter


def test_a_lone_surrogate_is_refused_with_the_place() -> None:
    with pytest.raises(ValidationError, match="column"):
        QAEvent.model_validate_json('{"event_id": "1", "question": "\\ud800", "answer": "a"}')


def test_too_many_labels_are_refused_with_limit_and_remedy() -> None:
    with pytest.raises(ValidationError, match="labels must have at most 32 entries, got 33; drop some"):
        QAEvent(event_id="1", question="q", answer="a", labels={f"l{n}": "v" for n in range(33)})


def test_messages_are_frozen() -> None:
    event = QAEvent(event_id="1", question="q", answer="a")
    with pytest.raises(ValidationError, match="frozen"):
        event.answer = "b"  # type: ignore[misc]  # that is what is tested


def test_a_number_is_never_infinite() -> None:
    with pytest.raises(ValidationError, match=r"cost_usd\n"):
        Scored.model_validate(scored(1, 3).model_dump() | {"cost_usd": float("inf")})


def test_each_kind_has_one_sentence() -> None:
    kinds = {kind for part in get_args(CorrectionKind) for kind in get_args(part)}
    assert kinds == set(MEANINGS)
    assert kinds > {*SUSPICION_KINDS, *get_args(ContradictionKind)}
    assert all(text[0].isupper() and text.endswith(".") for text in MEANINGS.values())


# Forms of context that retrievers produce


@pytest.mark.parametrize(
    ("given", "pages"),
    [
        (None, None),
        ({}, {}),
        ({"Page-1": "one"}, {"Page-1": "one"}),
        ({"faq": {"text": "one"}}, {"faq": "one"}),
        (["one", "two"], {"Page-1": "one", "Page-2": "two"}),
        ([{"id": "doc-3", "text": "one"}, {"page_content": "two"}], {"doc-3": "one", "Page-2": "two"}),
        ([{"page": 7, "content": "one"}, "two"], {"7": "one", "Page-2": "two"}),
        ([{"id": "x", "text": "one"}, {"id": "x", "text": "two"}], {"x": "one", "Page-2": "two"}),
    ],
)
def test_pages_by_name(given: Any, pages: dict[str, str] | None) -> None:
    assert QAEvent.model_validate({**EVENT, "context": given}).context == pages


@pytest.mark.parametrize("given", [[1], [None], [{"id": "x"}], {"a": 3}, {"a": {"title": "t"}}, "text", 7])
def test_a_page_without_text_is_refused(given: Any) -> None:
    with pytest.raises(ValidationError, match="context"):
        QAEvent.model_validate({**EVENT, "context": given})


def test_an_event_has_at_most_ten_thousand_pages() -> None:
    many: tuple[Any, ...] = ([1] * 10_001, {str(number): 1 for number in range(10_001)})
    for given in many:
        with pytest.raises(ValidationError, match="must have at most 10000 pages, got 10001") as refused:
            QAEvent.model_validate({**EVENT, "context": given})
        assert refused.value.error_count() == 1


def test_long_lists_of_another_shape_are_passed_over() -> None:
    given: dict[str, Any] = dict.fromkeys(("messages", "tool_calls", "fields"), [{}] * 1_000_000)
    event = QAEvent.model_validate({**EVENT, **given})
    assert (event.messages, event.tool_calls, event.fields) == (None, None, None)
