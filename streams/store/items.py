"""Extracts the store's items from the records of each topic. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import orjson

from schemas import Alert, Label
from streams.store.packing import pack

TextsKept = Literal["full", "excerpt", "none"]
"""full: all texts; excerpt: the beginning of each; none: none at all."""

_Id = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]

EXCERPT_CHARS = 300
SEARCHED_CHARS = 20_000
"""Maximum characters of question and answer that are searchable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictItem:
    """A result to be written."""

    result_id: bytes
    event_id: str
    replayed: bool
    metric: str
    fingerprint: str
    model: str
    labels: Mapping[str, str]
    status: str
    score: float | None
    at: int
    judged: int
    probability: float
    cost: float | None
    corrections: tuple[str, ...]
    suspicions: tuple[str, ...]
    partition: int
    offset: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TextItem:
    """The texts of a task."""

    result_id: bytes
    at: int
    words: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertItem:
    """An alert."""

    alert_id: str
    raised: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelItem:
    """A person's label on a verdict."""

    label_id: str
    result_id: bytes
    at: int
    score: int | None
    note: str
    who: str
    body: bytes


Item = VerdictItem | TextItem | AlertItem | LabelItem


@dataclass(slots=True)
class Batch:
    """The records of one transaction.

    Attributes:
        items: The items to write.
        positions: The next offset by topic and partition.
        unreadable: Number of records with an invalid form.
    """

    items: list[Item] = field(default_factory=list)
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    unreadable: int = 0


class _Kind(msgspec.Struct):
    kind: str


class _Evaluator(msgspec.Struct):
    fingerprint: str
    model: str


class _Sampling(msgspec.Struct):
    probability: Annotated[float, msgspec.Meta(gt=0, le=1)]


class _Times(msgspec.Struct):
    occurred_at: _Moment
    judged_at: _Moment


class _Result(msgspec.Struct):
    """The searched and summed fields of a result. Decoding all fields would take five times as long."""

    result_id: _Id
    event_id: str
    metric: str
    status: Literal["scored", "unscored", "failed"]
    evaluator: _Evaluator
    sampling: _Sampling
    times: _Times
    labels: dict[str, str] = {}
    replay_id: str | None = None
    score: int | None = None
    kind: str = "integer"
    value: bool | float | str | None = None
    cost_usd: float | None = None
    corrections: list[_Kind] = []
    suspicions: list[_Kind] = []


class _Task(msgspec.Struct):
    """The stored fields of a task."""

    result_id: _Id
    question: str
    answer: str
    sampled_at: _Moment
    reference: str | None = None
    context: dict[str, str] | None = None
    messages: list[dict[str, str]] | None = None
    tool_calls: list[dict[str, str]] | None = None
    other_answer: str | None = None
    fields: dict[str, str] | None = None


_RESULT = msgspec.json.Decoder(_Result)
_TASK = msgspec.json.Decoder(_Task)


def verdict_item(raw: bytes, *, partition: int, offset: int) -> VerdictItem:
    """Extract the searched and summed fields of a result; the record itself is stored completely.

    Args:
        raw: Its record's value.
        partition: Its record's partition.
        offset: Its record's offset.

    Raises:
        msgspec.MsgspecError: It is not a result.
    """
    result = _RESULT.decode(raw)
    return VerdictItem(
        result_id=bytes.fromhex(result.result_id),
        event_id=result.event_id,
        replayed=result.replay_id is not None,
        metric=result.metric,
        fingerprint=result.evaluator.fingerprint,
        model=result.evaluator.model,
        labels=result.labels,
        status=result.status,
        score=_amount(result) if result.status == "scored" else None,
        at=milliseconds(result.times.occurred_at),
        judged=milliseconds(result.times.judged_at),
        probability=result.sampling.probability,
        cost=result.cost_usd,
        corrections=tuple(one.kind for one in result.corrections),
        suspicions=tuple(one.kind for one in result.suspicions),
        partition=partition,
        offset=offset,
        body=pack(raw),
    )


def _amount(result: _Result) -> float | None:
    """Return the exact number, of which a result's score is the nearest integer."""
    if result.kind == "number" and isinstance(result.value, int | float):
        return float(result.value)
    return result.score


def text_item(raw: bytes, kept: TextsKept) -> TextItem:
    """Extract the texts of a task, which are already redacted.

    Args:
        raw: Its record's value.
        kept: Which part of each text to keep.

    Raises:
        msgspec.MsgspecError: It is not a task.
    """
    task = _TASK.decode(raw)
    cut = EXCERPT_CHARS if kept == "excerpt" else None
    texts: dict[str, Any] = {
        "question": task.question[:cut],
        "answer": task.answer[:cut],
        "reference": None if task.reference is None else task.reference[:cut],
        "context": None
        if task.context is None
        else {name: text[:cut] for name, text in task.context.items()},
    }
    further = {name: text[:cut] for name, text in _further(task)}
    if further:
        texts["further"] = further
    if cut is not None:
        texts["excerpt"] = True
    return TextItem(
        result_id=bytes.fromhex(task.result_id),
        at=milliseconds(task.sampled_at),
        words=searched(texts),
        body=pack(dumped(texts)),
    )


def _further(task: _Task) -> Iterator[tuple[str, str]]:
    """Return a prompt pack's further inputs as texts by name."""
    if task.other_answer is not None:
        yield "other answer", task.other_answer
    for name, turns in (("messages", task.messages), ("tool calls", task.tool_calls)):
        if turns is not None:
            yield name, "\n".join("  ".join(turn.values()) for turn in turns)
    yield from (task.fields or {}).items()


def searched(texts: Mapping[str, Any]) -> str:
    """Return the searchable words of question and answer."""
    return f"{texts['question']} {texts['answer']}"[:SEARCHED_CHARS]


def alert_item(alert: Alert, raw: bytes) -> AlertItem:
    """Return an alert's item."""
    return AlertItem(alert_id=alert.alert_id, raised=milliseconds(alert.raised_at), body=pack(raw))


def label_item(label: Label, raw: bytes) -> LabelItem:
    """Return a label's item."""
    return LabelItem(
        label_id=label.label_id,
        result_id=bytes.fromhex(label.result_id),
        at=milliseconds(label.labelled_at),
        score=label.score,
        note=label.note,
        who=label.who,
        body=pack(raw),
    )


def milliseconds(moment: datetime) -> int:
    """Return a time as milliseconds since 1970."""
    return round(moment.timestamp() * 1000)


def dumped(value: Any) -> bytes:
    """Return JSON bytes, also of texts with lone surrogates."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_clean(value))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(name): _clean(one) for name, one in value.items()}
    return value
