"""Checks whether the newest records of the events topic become events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final

from aiokafka.errors import KafkaError

from judge.evaluate.guard import TextLimits
from judge.metrics.registry import with_option
from judge.text.citations import read_citations, read_sources
from judge.text.printable import printable
from streams.doctor.findings import Finding, failed, not_tried, ok, warning
from streams.errors import ReaderDownError, SettingsError
from streams.intake.reader import open_reader
from streams.intake.trial import SettingsTrial, TrialOutcome, unpack
from streams.judging.agent import REMEDY
from streams.kafka.reader import TopicReader
from streams.kafka.record import Record
from streams.monitoring.config import FIVE_POINTS, MonitorConfig
from streams.monitoring.statistics.detectors import evenness_of, expected_answers, expected_margin
from streams.monitoring.watch import NOTABLE_FALL
from streams.settings.tree import Settings

RECORDS: Final = 100
MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
_TRACE_ID: Final = re.compile(rb"[0-9a-fA-F]{32}|.{16}", re.DOTALL)
_MEAN: Final = 0.8
_SPREAD: Final = 0.24
"""Usual mean and spread of judges' scores, on the scale [0, 1]."""
_KEYS: Final = (
    "set partition_traces_by_id: true (for log records partition_logs_by_trace_id: true) in the "
    "Collector's Kafka exporter and write to a new topic, "
    "or set ingest.otlp.unit: span"
)


async def examine_events(settings: Settings, env: Mapping[str, str], timeout_seconds: float) -> list[Finding]:
    """Read the newest records without a consumer group, and check them."""
    topic = settings.topics.events
    reader = TopicReader(settings.kafka, env, fetch_bytes=MAX_RECORD_BYTES)
    try:
        partitions = await reader.partitions(topic)
        records = await reader.newest(topic, RECORDS, seconds=timeout_seconds)
    except SettingsError:
        return [not_tried("events", topic, "credentials of kafka.security are missing, see secrets")]
    except (KafkaError, OSError, TimeoutError) as error:
        why = f"its records cannot be read ({type(error).__name__}), see broker and access"
        return [not_tried("events", topic, why)]
    try:
        events = open_reader(settings, env, patient=False)
    except SettingsError as error:
        return [failed("events", "schema registry", str(error), "correct ingest.registry")]
    try:
        supported = await events.check()
        records, unread = await unpack(records, events)
    except ReaderDownError as error:
        remedy = "check ingest.registry.url and auth, and that it runs; intake waits until it answers"
        return [failed("events", "schema registry", str(error), remedy, may_pass=True)]
    finally:
        await events.close()
    told = [] if supported is None else [ok("events", "schema registry", supported)]
    return [*told, *check_events(settings, records, partitions, unread)]


def check_events(
    settings: Settings, records: Sequence[Record], partitions: int, without: Sequence[TrialOutcome] = ()
) -> list[Finding]:
    """Check what records become with these settings; `without` are those without a schema to decode them."""
    topic = settings.topics.events
    if not records and not without:
        return [ok("events", topic, "has no records")]
    outcomes = [*SettingsTrial(settings).outcomes(records), *without]
    what = "traces" if settings.ingest.format == "otlp" else "records"
    count = sum(outcome.event is not None for outcome in outcomes)
    findings = [ok("events", topic, f"{count} of the {len(outcomes)} newest {what} become events")]
    findings += _keys(settings, records, partitions)
    findings += _delay(settings, records, outcomes)
    unread = [one for one in outcomes if one.event is None and (what == "records" or one.before is None)]
    if unread:
        remedy = (
            "run judgestream map --topic with these settings to see each; correct the producer, "
            "ingest.format or ingest.mapping"
        )
        said = printable(unread[0].problem or "", 300)
        findings.append(
            warning("events", topic, f"{len(unread)} of them cannot be read; the first one: {said}", remedy)
        )
    return findings + _silent(topic, outcomes) + _uncited(settings, outcomes)


def _uncited(settings: Settings, outcomes: Sequence[TrialOutcome]) -> list[Finding]:
    """Warn, with an example, if most answers with a context have no recognised citation."""
    citing = (settings.metrics.get(name) for name in with_option("citation_pattern"))
    metric = next((one for one in citing if one is not None), None)
    if metric is None or metric.without_citations == "unscored":
        return []
    answers = [
        (event.answer, read_sources(event.context, pattern=metric.citation_pattern).citing)
        for event in (one.event for one in outcomes)
        if event is not None and event.context and len(event.answer) <= TextLimits().answer
    ]
    uncited = [(answer, citing) for answer, citing in answers if not read_citations(answer, citing).claims]
    if not uncited or 2 * len(uncited) <= len(answers):
        return []
    unread = next((one for text, citing in uncited for one in read_citations(text, citing).unread), None)
    example = uncited[0][0][-80:] if unread is None else unread
    detail = (
        f"{len(uncited)} of {len(answers)} answers have no recognised citation, for example: "
        f"{printable(example, 80)}"
    )
    return [warning("events", settings.topics.events, detail, REMEDY)]


def _delay(settings: Settings, records: Sequence[Record], outcomes: Sequence[TrialOutcome]) -> list[Finding]:
    """Tell how long a drop takes at the records' rate, once a series is known for 30 days."""
    moments = [one.timestamp_ms for one in records if one.timestamp_ms is not None]
    days = (max(moments) - min(moments)) / 86_400_000 if moments else 0.0
    rates = [one.probability for one in outcomes if one.probability and one.metrics]
    if days <= 0 or not rates:
        return []
    a_day = sum(rates) / days * (len(moments) - 1) / len(moments)
    evenness = evenness_of([(1.0, rate) for rate in rates])
    monitor = settings.monitor
    rules = MonitorConfig(**dict(monitor)).rules("relevance")
    min_drop, threshold = monitor.min_drop / FIVE_POINTS, rules.thresholds[0]
    margin = expected_margin(
        _SPREAD, known=30 * a_day, first=monitor.baseline_samples, min_drop=min_drop, evenness=evenness
    )
    answers = expected_answers(
        NOTABLE_FALL, mean=_MEAN, spread=_SPREAD, margin=margin, threshold=threshold, evenness=evenness
    )
    said = f"a drop of 0.44 of 5 points (spread 1.2) after 30 days, at {a_day:,.0f} judged answers a day,"
    if not isfinite(answers):
        remedy = "raise the sampling rates, lower monitor.samples_per_false_alarm, or set monitor.targets"
        return [warning("events", "monitor", f"{said} is not called", remedy)]
    detail = f"{said} takes about {answers:,.0f} of them: {answers / a_day:,.1f} days"
    return [ok("events", "monitor", detail)]


def _keys(settings: Settings, records: Sequence[Record], partitions: int) -> list[Finding]:
    if settings.ingest.format != "otlp" or settings.ingest.otlp.unit != "trace" or partitions <= 1:
        return []
    strange = sum(_TRACE_ID.fullmatch(one.key or b"") is None for one in records)
    if not strange:
        return []
    detail = (
        f"{strange} of {len(records)} records are not keyed by trace id, so traces are spread over "
        f"{partitions} partitions"
    )
    return [failed("events", settings.topics.events, detail, _KEYS)]


def _silent(topic: str, outcomes: Sequence[TrialOutcome]) -> list[Finding]:
    findings: list[Finding] = []
    for hint, count in Counter(hint for one in outcomes for hint in one.hints).items():
        family, _, remedy = hint.partition(": ")
        detail = f"{count} of {len(outcomes)} traces have model calls without recorded content ({family})"
        findings.append(warning("events", topic, detail, remedy))
    return findings
