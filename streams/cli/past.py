"""Replays, dead letters that are sent again, and anchors: estimate, prompt, judge or send, report."""

from __future__ import annotations

import asyncio
import json
import os
import zlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import fmean
from typing import Any, Final

from aiokafka.errors import KafkaError
from pydantic import TypeAdapter, ValidationError
from typer import Abort, Exit

from judge.text.printable import printable
from schemas import ANCHOR, Anchor, DeadLetter, JudgeTask, Scored
from schemas.anchor import FIRST_JUDGEMENTS
from streams.batch.engine import Batch, open_batch
from streams.batch.plan import Estimate, Plan, begun_at, new_id
from streams.batch.replay import Replay
from streams.batch.sources import Line, format_of, read_lines
from streams.cli.records import Sender
from streams.cli.running import BadUsageError, CommandError, agrees, emit, tell
from streams.cli.session import Session, opened
from streams.errors import SettingsError, StreamsError
from streams.judging.endpoints import judge_endpoints
from streams.judging.metrics import build_metrics
from streams.kafka.dead_letters import Matches, Query, select
from streams.kafka.topics.grants import produce_grants, tail_grants
from streams.monitoring.anchors import FEWEST, AnchorWatch, Enrolment, anchor_id
from streams.monitoring.observations import KnownAnchors, task_again
from streams.store import verdicts
from streams.store.database import Snapshot
from streams.store.views.labels import all_labels

SENT_AGAIN: Final = "judgestream-sent-again"
"""Header of a resent record: the position of its dead letter."""
NOT_KEPT: Final = ("messages", "tool calls")
"""Texts that the store keeps in a form for people only."""
VOID_AFTER: Final = timedelta(hours=1)
"""Results of another evaluator for this long make anchors void; a fallback's are for a shorter time."""
CHANGED: Final = "void: its evaluator has changed; judgestream anchors add enrols again"
Candidates = dict[str, tuple[JudgeTask, float | None]]
"""Answers that could be anchors, by anchor id, with a person's score."""
IsBad = Callable[[float | None], bool]


def plan_of(plan: Plan, call: Session) -> Plan:
    """Add an incident's time, metrics and parts from the verdict store."""
    if plan.incident is None:
        return plan
    with call.snapshot() as snapshot:
        found = call.incident(snapshot, plan.incident)
    labels = [dict(part) for _, part in found.parts]
    return replace(
        plan,
        incident=found.incident_id,
        since=found.started_at,
        until=found.ended_at,
        metrics=plan.metrics or tuple(found.metrics),
        parts=() if {} in labels else tuple(labels),
    )


async def judge_past(
    call: Session, plan: Plan, stop: asyncio.Event, *, resume: str | None, yes: bool, as_json: bool
) -> None:
    topics = call.settings.topics
    rights = [*produce_grants(topics.scores), *tail_grants(topics.scores), *tail_grants(topics.events)]
    again = ""
    try:
        begun = datetime.now(UTC) if resume is None else begun_at(resume, plan)
        replay_id = resume or new_id(plan, begun)
        again = f"continue with --resume {replay_id} and the same options"
        async with call.producer(rights) as producer:
            lines, ask = partial(_lines, plan), partial(agrees, yes=yes)
            run = Replay(plan, replay_id, begun, call.settings, producer, lines, tell, ask)
            await run.run(stop)
    except SettingsError as error:
        if all(one.startswith("--") for one in error.problems):  # an option's
            raise BadUsageError("\n".join(error.problems)) from error
        raise
    except (KafkaError, StreamsError) as error:
        raise CommandError(f"{error}; {again}") from error
    emit(run.as_json(), run.told(), as_json=as_json)
    if run.end == "stopped":
        tell(f"stopped; {again}")
        raise Exit(130)
    if run.end == "max_usd":
        raise CommandError(f"--max-usd {plan.max_usd:g} is spent; {again}, and a higher --max-usd")
    if run.end == "outage":
        raise CommandError(f"{run.trouble}; {again}")


def _lines(plan: Plan) -> Iterator[Line]:
    assert plan.file is not None  # noqa: S101 - called for files only
    with opened(plan.file) as handle:
        yield from read_lines(handle, format_of(plan.file, None), plan.file.name)


async def send_dead_letters(
    call: Session, wanted: Query, stop: asyncio.Event, *, rate: float | None, yes: bool, as_json: bool
) -> None:
    source, found, sender = call.settings.topics.dead_letters, Matches(), Sender(None, rate, stop)
    reader = await call.reader(source)
    ranges = await reader.between(source, wanted.since)
    async for _ in select(reader.read(source, ranges), wanted, found):
        pass
    by_topic = sorted(found.by_topic.items())
    for (name, reason), count in by_topic:
        tell(f"{count} records of {printable(name)}, set aside as {reason}")
    if found.cut:
        tell(f"{found.cut} are truncated and cannot be sent")
    if found.unreadable:
        tell(f"{found.unreadable} records of the topic are not dead letters")
    if found.count:
        if not (yes or agrees(f"Send {found.count} records again?", yes=yes)):
            raise Abort
        names = sorted({name for name, _ in found.by_topic})
        rights = [grant for name in names for grant in produce_grants(name)]
        async with call.producer(rights) as producer, aclosing(reader.read(source, ranges)) as records:
            # One at a time: a refused record costs its batch, and the producer buffers for 40 s of an outage.
            sender = Sender(producer, rate, stop, unconfirmed=1)
            await sender.run(_originals(select(records, wanted, Matches())))
    summary = {
        "found": found.count,
        "sent": sender.confirmed,
        "refused": sender.refused,
        "cut": found.cut,
        "unreadable": found.unreadable,
        "by_topic": [{"topic": name, "reason": reason, "count": count} for (name, reason), count in by_topic],
    }
    line = f"{sender.confirmed} of {found.count} records sent again" if found.count else "nothing to send"
    emit(summary, [line], as_json=as_json)
    sender.end()


async def _originals(
    letters: AsyncIterator[tuple[str, DeadLetter]],
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    async for position, letter in letters:
        headers = [(one.name, one.value) for one in letter.headers if one.name != SENT_AGAIN]
        yield (
            position,
            {
                "topic": letter.topic,
                "value": letter.value,
                "key": letter.key,
                "headers": [*headers, (SENT_AGAIN, position.encode())],
                "timestamp_ms": letter.timestamp and round(letter.timestamp.timestamp() * 1000),
            },
        )


def candidates(known: Iterable[Anchor], snapshot: Snapshot, metric: str) -> Candidates:
    """Return a metric's present anchors, and its labelled answers whose texts the store keeps."""
    found: Candidates = {one.anchor_id: (one.task, one.human_score) for one in known if one.metric == metric}
    latest = {one["result_id"]: one for one in all_labels(snapshot) if one["metric"] == metric}
    for result_id, label in latest.items():
        verdict = None if label["score"] is None else verdicts.one(snapshot, result_id)
        task = None if verdict is None else _task(verdict)
        if task is not None:
            value = label.get("value")
            found[anchor_id(task)] = task, value if isinstance(value, float) else float(label["score"])
    return found


def _task(verdict: Mapping[str, Any]) -> JudgeTask | None:
    """Return a verdict's task, from its record and texts; None if the store does not have them whole."""
    texts, result = verdict["texts"], verdict["result"]
    if texts is None or texts["excerpt"] or any(name in texts["further"] for name in NOT_KEPT):
        return None
    further = dict(texts["further"])
    other, times = further.pop("other answer", None), result["times"]
    try:
        return JudgeTask.model_validate(
            {**result, **times, **texts, "replay_id": None, "other_answer": other, "fields": further or None}
        )
    except ValidationError:  # of another version
        return None


def choose(found: Candidates, count: int, is_bad: IsBad) -> Candidates:
    """Return so many answers in the order of their ids, which are hashes; up to half of them bad ones."""
    ordered = sorted(found.items())
    bad = [one for one in ordered if is_bad(one[1][1])]
    good = [one for one in ordered if one not in bad]
    return dict([*bad[: max(count // 2, count - len(good))], *good][:count])


def worse_half(ends: tuple[float, float], *, rising: bool) -> IsBad:
    middle = sum(ends) / 2
    return lambda score: score is not None and (score > middle if rising else score < middle)


async def enrol(
    call: Session, name: str, stop: asyncio.Event, *, count: int, max_usd: float | None, yes: bool
) -> None:
    judge, wanted = call.settings.judge, {name: call.settings.metrics[name]}
    metrics = build_metrics(call.settings.model_copy(update={"metrics": wanted}))
    endpoints = judge_endpoints(judge, os.environ, wanted)
    is_bad = worse_half(metrics[name].score_range, rising=wanted[name].rises)
    known = (await read_anchors(call)).anchors
    with call.snapshot() as snapshot:
        chosen = choose(candidates(known.values(), snapshot, name), count, is_bad)
    _refuse_few(name, len(chosen))
    estimate = Estimate(metrics, wanted, endpoints)
    for task, _ in chosen.values():
        for _ in range(FIRST_JUDGEMENTS):
            estimate.add(task)
    effort = f"{len(chosen)} answers, {FIRST_JUDGEMENTS} judgements each, {estimate.total.cost}"
    if not agrees(f"{name}: {effort}; go on?", yes=yes):
        raise Abort
    options: dict[str, Any] = {"cached": False, "stop": stop, "max_usd": max_usd}
    async with open_batch(metrics, wanted, judge, endpoints, **options) as batch:
        results = await _judged(batch, chosen)
    if batch.end != "done":
        raise CommandError(f"ended early ({batch.trouble or batch.end}); no anchor is written, run it again")
    anchors = {one.anchor_id: one for one in _scored(chosen, results, is_bad)}
    _refuse_few(name, len(anchors))
    gone = [key for key, one in known.items() if one.metric == name and key not in anchors]
    await write_anchors(call, {**dict.fromkeys(gone), **anchors})
    bad = sum(one.known_bad for one in anchors.values())
    tell(f"{name}: {len(anchors)} anchors, {bad} of them known to be bad")
    if not bad:
        tell("warning: without bad answers a judge that becomes kinder to them is not noticed; label some")


def _refuse_few(name: str, count: int) -> None:
    if count < FEWEST:
        raise CommandError(
            f"{name} has {count} labelled answers with texts and scores; fewer than {FEWEST} cannot tell a "
            "shift from chance. Label more with judgestream review or judgestream labels import, and keep "
            "the texts of answers (store.texts: full)"
        )


async def _judged(batch: Batch, chosen: Candidates) -> dict[str, list[Scored]]:
    async def tasks() -> AsyncIterator[JudgeTask]:
        for task, _ in chosen.values():
            for number in range(FIRST_JUDGEMENTS):
                yield task_again(task, f"{ANCHOR}first-{number + 1}")

    found: dict[str, list[Scored]] = {}
    async with aclosing(batch.run(tasks())) as outcomes:
        async for result in outcomes:
            if isinstance(result, Scored):
                found.setdefault(anchor_id(result), []).append(result)
    return found


def _scored(chosen: Candidates, results: Mapping[str, list[Scored]], is_bad: IsBad) -> Iterator[Anchor]:
    """Yield the answers that one evaluator, that of most results, scored three times."""
    now, prints = datetime.now(UTC), [one.evaluator.fingerprint for some in results.values() for one in some]
    usual = max(prints, key=prints.count, default="")
    for key, some in results.items():
        if len(some) == FIRST_JUDGEMENTS and {one.evaluator.fingerprint for one in some} == {usual}:
            task, human = chosen[key]
            scores = tuple(float(one.amount) for one in some)
            yield Anchor(
                anchor_id=key,
                metric=task.metric,
                task=task,
                evaluator=some[0].evaluator,
                scores=scores,
                human_score=human,
                known_bad=is_bad(fmean(scores) if human is None else human),
                enrolled_at=now,
            )


async def read_anchors(call: Session) -> KnownAnchors:
    topic, known = call.settings.topics.anchors, KnownAnchors()
    known.add([record async for record in (await call.reader(topic)).read(topic)])
    return known


async def write_anchors(call: Session, anchors: Mapping[str, Anchor | None]) -> None:
    async with call.sending(call.settings.topics.anchors) as send:
        for key, anchor in anchors.items():
            await send(anchor, key)


async def remove_anchors(call: Session, names: Collection[str], *, yes: bool) -> None:
    known = (await read_anchors(call)).anchors
    gone = [key for key, one in known.items() if key in names or one.metric in names]
    if not gone:
        raise BadUsageError(f"there are no anchors {', '.join(names)[:100]}; see judgestream anchors status")
    if not agrees(f"remove {len(gone)} of {len(known)} anchors?", yes=yes):
        raise Abort
    await write_anchors(call, dict.fromkeys(gone))
    tell(f"{len(gone)} anchors removed")


@dataclass(frozen=True, slots=True)
class _Saved:
    heard_at: datetime
    anchors: AnchorWatch | None = None


_SAVED: Final = TypeAdapter(_Saved)


async def tell_status(call: Session, metric: str | None, *, as_json: bool) -> None:
    known, topic = await read_anchors(call), call.settings.topics.monitor_state
    saved: dict[str, dict[str, _Saved]] = {}
    async for record in (await call.reader(topic)).read(topic):
        key = json.loads(record.key or b"[]")
        if record.value is not None and len(key) > 1 and not key[3]:  # not a mark, and of the whole traffic
            saved.setdefault(key[1], {})[key[2]] = _SAVED.validate_json(zlib.decompress(record.value))
    every = sorted(known.enrolments.items())
    found = [_status(name, one, saved.get(name, {})) for name, one in every if metric in (None, name)]
    nothing = "no anchors; enrol some with judgestream anchors add --metric NAME"
    emit(found, [_line(one) for one in found] or [nothing], as_json=as_json)


def _status(name: str, enrolment: Enrolment, saved: Mapping[str, _Saved]) -> dict[str, Any]:
    fingerprint, since = enrolment.evaluator.fingerprint, enrolment.since
    ours = saved.get(fingerprint)
    watch = None if ours is None else ours.anchors
    if watch is None or watch.since != since:
        watch = AnchorWatch(since)
    heard = max((one.heard_at for one in saved.values()), default=since)
    void = heard - max(since, since if ours is None else ours.heard_at) > VOID_AFTER
    difference = watch.difference
    return {
        "metric": name,
        "anchors": len(enrolment.anchors),
        "known_bad": sum(one.known_bad for one in enrolment.anchors.values()),
        "evaluator": fingerprint,
        "enrolled_at": since.isoformat(),
        "calls": watch.calls,
        "difference": None if difference is None else difference.model_dump(include={"mean", "low", "high"}),
        "judge": CHANGED if void else watch.words,
        "ids": list(enrolment.anchors),
    }


def _line(status: Mapping[str, Any]) -> str:
    line = f"{status['metric']}: {status['judge']}; {status['anchors']} anchors ({status['known_bad']} bad)"
    if status["difference"] is None:
        return line
    interval = "{mean:+.2f} (95%: {low:+.2f} to {high:+.2f})".format_map(status["difference"])
    return f"{line}, {status['calls']} calls, mean difference {interval}"
