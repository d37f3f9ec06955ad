"""Guarantees of the message models."""

from __future__ import annotations

import hashlib
import inspect

import pytest
from pydantic import ValidationError

import schemas
from schemas import DeadLetter, Header, QAEvent, Scored, result_id


def test_everything_public_is_exported_and_nothing_else() -> None:
    """`__all__` has exactly the public names."""
    public = {
        name
        for name, value in vars(schemas).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public - {"annotations"} == set(schemas.__all__)


def test_a_result_id_is_a_hash_of_topic_event_metric_and_replay() -> None:
    recipe = hashlib.sha256(b'["qa.events","e-1","coverage",null]').hexdigest()[:32]
    assert result_id(topic="qa.events", event_id="e-1", metric="coverage", replay_id=None) == recipe


@pytest.mark.parametrize(
    "other",
    [
        {"topic": "qa.events2"},
        {"event_id": "e-2"},
        {"metric": "relevance"},
        {"replay_id": "r"},
        {"topic": "qa.events,e", "event_id": "-1"},
    ],
)
def test_result_ids_of_different_judgements_differ(other: dict[str, str]) -> None:
    base: dict[str, str | None] = {
        "topic": "qa.events",
        "event_id": "e-1",
        "metric": "coverage",
        "replay_id": None,
    }
    assert result_id(**base) != result_id(**{**base, **other})  # type: ignore[arg-type]  # str | None for all


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
    """A message cannot be changed."""
    event = QAEvent(event_id="1", question="q", answer="a")
    with pytest.raises(ValidationError, match="frozen"):
        event.answer = "b"  # type: ignore[misc]  # that is what is tested


def test_a_score_is_never_nan() -> None:
    with pytest.raises(ValidationError):
        Scored.model_validate({"score": float("nan")})
