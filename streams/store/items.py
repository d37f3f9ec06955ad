"""What the store takes from a record of each topic. Pure."""

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
"""Of question and answer together, so much can be searched for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictItem:
    """A result, ready to be written."""

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
    """What a person said of a verdict."""

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
    """Records that are written in one transaction.

    Attributes:
        items: What is written.
        positions: By topic and partition, the offset that is read next.
        unreadable: Records that are not what belongs on their topic.
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
    """What is searched and summed of a result.

    The rest is kept as it is: reading all of it takes five times as long.
    """

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
    """What is kept of a task."""

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
    """Take what is searched and summed from a result; the record itself is kept whole.

    Args:
        raw: Its record's value.
        partition: Of its record.
        offset: Of its record.

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
    """The number itself, of which a result's score is the nearest whole one."""
    if result.kind == "number" and isinstance(result.value, int | float):
        return float(result.value)
    return result.score


def text_item(raw: bytes, kept: TextsKept) -> TextItem:
    """Take the texts from a task. They were redacted when it was made.

    Args:
        raw: Its record's value.
        kept: How much of each text.

    Raises:
        msgspec.MsgspecError: It is no task.
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
    """What a prompt pack has shown beside the four texts, each as one text under its name."""
    if task.other_answer is not None:
        yield "other answer", task.other_answer
    for name, turns in (("messages", task.messages), ("tool calls", task.tool_calls)):
        if turns is not None:
            yield name, "\n".join("  ".join(turn.values()) for turn in turns)
    yield from (task.fields or {}).items()


def searched(texts: Mapping[str, Any]) -> str:
    """Give the words by which texts are found: those of question and answer."""
    return f"{texts['question']} {texts['answer']}"[:SEARCHED_CHARS]


def alert_item(alert: Alert, raw: bytes) -> AlertItem:
    """Take an alert as it is."""
    return AlertItem(alert_id=alert.alert_id, raised=milliseconds(alert.raised_at), body=pack(raw))


def label_item(label: Label, raw: bytes) -> LabelItem:
    """Take what a person said of a verdict."""
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
    """A moment as milliseconds since 1970."""
    return round(moment.timestamp() * 1000)


def dumped(value: Any) -> bytes:
    """JSON bytes, also of texts with lone surrogates."""
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
