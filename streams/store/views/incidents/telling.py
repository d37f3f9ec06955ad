"""Describes an incident: title, a sentence per cause, Markdown and plain values. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from judge.text.printable import printable
from streams.store.views.incidents.causes import Cause, Finding
from streams.store.views.incidents.grouping import Incident
from streams.store.views.incidents.report import MetricReport, Report

VALUE_CHARS: Final = 60
UNSEEN: Final = 0.05
"""A share before the fall up to this may be due to an inexact start."""
SHOWN_PARTS: Final = 40


def part_name(metric: str, labels: tuple[tuple[str, str], ...]) -> str:
    """Return the name of a part of the traffic: "coverage of app=docs"."""
    of = ", ".join(f"{printable(name, 40)}={printable(value, VALUE_CHARS)}" for name, value in labels)
    return f"{metric} of {of or 'all answers'}"


def title(incident: Incident) -> str:
    """Return one line without the cause: "coverage and relevance fell, 8 parts affected"."""
    parts = len(incident.parts)
    return (
        f"{' and '.join(sorted(incident.metrics))} fell, {parts} {'part' if parts == 1 else 'parts'} affected"
    )


def headline(report: Report) -> str:
    """Return one line with the cause: "coverage fell, 8 parts affected: prompt_version=v8 is new"."""
    causes = [cause for one in report.metrics[:1] for cause in one.finding.causes]
    if not causes:
        return f"{title(report.incident)}; no cause stands out"
    return f"{title(report.incident)}: {' and '.join(short(cause) for cause in causes)}"


def short(cause: Cause) -> str:
    """Return a cause in a few words."""
    named = f"{printable(cause.name, 40)}={printable(cause.value, VALUE_CHARS) or '(none)'}"
    match cause.kind:
        case "within":
            return f"{named} got worse"
        case "new":
            return f"{named} is new" if cause.share_before < UNSEEN else f"{named} took over"
        case "mix":
            return f"the mix changed, more {named}"
        case "all":
            return "all traffic fell about equally"


def sentence(cause: Cause) -> str:
    """Return a cause with its numbers."""
    points = f"{cause.contribution:.2f} points of the fall (95% interval {cause.low:.2f} to {cause.high:.2f})"
    shares = f"{cause.share_before:.0%} of the traffic before, {cause.share_after:.0%} since"
    match cause.kind:
        case "within":
            return (
                f"{short(cause)}: {_mean(cause.before)} before, {_mean(cause.after)} since; {points}; "
                f"{shares}"
            )
        case "new":
            return f"{short(cause)}: {_mean(cause.after)} since; {points}; {shares}"
        case "mix":
            return (
                f"{short(cause)}: {points} are due to the changed mix, not to worse answers; {shares}; "
                f"these answers scored {_mean(cause.before if cause.before is not None else cause.after)}"
            )
        case "all":
            return f"{short(cause)}: {_mean(cause.before)} before, {_mean(cause.after)} since; {points}"


def _change(finding: Finding) -> str:
    """Return the change of the mean, which may be a rise after a short drop."""
    fall, low, high = finding.fall, finding.low, finding.high
    verb = "fell"
    if fall < 0:
        verb, fall, low, high = "rose", -fall, -high, -low
    return f"{verb} by {fall:.2f} (95% interval {low:.2f} to {high:.2f})"


def counted_alerts(number: int) -> str:
    """Return a number of alerts as text."""
    return "1 alert" if number == 1 else f"{number:,} alerts"


def _mean(value: float | None) -> str:
    return "too few" if value is None else f"{value:.2f}"


def summary_of(incident: Incident) -> dict[str, Any]:
    """Return plain values for a list of incidents; times in milliseconds since 1970."""
    return {
        "incident_id": incident.incident_id,
        "title": title(incident),
        "started": _ms(incident.started_at),
        "raised": _ms(incident.raised_at),
        "ended": None if incident.ended_at is None else _ms(incident.ended_at),
        "alerts": len(incident.drops),
        "metrics": list(incident.metrics),
        "parts": [part_name(*part) for part in incident.parts[:SHOWN_PARTS]],
        "part_count": len(incident.parts),
    }


def values_of(report: Report) -> dict[str, Any]:
    """Return plain values of the whole report."""
    return summary_of(report.incident) | {
        "headline": headline(report),
        "reports": [_metric_values(one) for one in report.metrics],
    }


def _metric_values(one: MetricReport) -> dict[str, Any]:
    finding = one.finding
    return {name: getattr(finding, name) for name in ("before", "after", "fall", "low", "high")} | {
        "metric": one.metric,
        "change": _change(finding),
        "judged": list(one.judged),
        "causes": [asdict(cause) | {"text": sentence(cause)} for cause in finding.causes],
        "mix": dict(finding.mix),
        "corrections": {kind: list(shares) for kind, shares in one.corrections.items()},
        "unsupported": [list(item) for item in one.unsupported],
        "worst": list(one.worst),
        "examples_before": list(one.before),
    }


def markdown(report: Report, *, link: str | None = None) -> str:
    """Return the report as Markdown, for a ticket or a chat.

    Args:
        report: The report.
        link: Base URL of the explorer, such as http://127.0.0.1:8081; None: no links.
    """
    return "\n".join(_lines(report, link)) + "\n"


def _lines(report: Report, link: str | None) -> Iterator[str]:
    incident = report.incident
    yield f"# {_escaped(headline(report))}"
    yield ""
    ended = "not over" if incident.ended_at is None else f"over since {_clock(incident.ended_at)}"
    yield (
        f"Incident `{incident.incident_id}`: since about {_clock(incident.started_at)}, {ended}, "
        f"{counted_alerts(len(incident.drops))}."
    )
    if link is not None:
        yield f"{link.rstrip('/')}/explore/incident/{incident.incident_id}"
    for one in report.metrics:
        yield ""
        yield f"## {one.metric}"
        yield ""
        finding = one.finding
        yield (
            f"{_mean(finding.before)} before ({one.judged[0]} judged), {_mean(finding.after)} since "
            f"({one.judged[1]} judged); "
            f"{_change(finding)}."
        )
        yield ""
        yield from (f"- {_escaped(sentence(cause))}" for cause in finding.causes)
        if not finding.causes:
            yield "- no label value explains it significantly"
        yield from _common(one)
        yield from _examples("Worst answers since", one.worst, link)
        yield from _examples("Latest answers before", one.before, link)
    yield ""
    yield "## Parts affected"
    yield ""
    yield from (f"- {_escaped(part_name(*part))}" for part in incident.parts[:SHOWN_PARTS])


def _common(one: MetricReport) -> Iterator[str]:
    if one.unsupported:
        yield ""
        yield "Most often rejected since (answers; before):"
        yield ""
        for kind, text, times, before in one.unsupported:
            yield f"- {times} ({before}): {kind} {_escaped(printable(text, 160))}"
    if one.corrections:
        yield ""
        yield "Corrections and suspicions (share before, since):"
        yield ""
        yield from (f"- {kind}: {was:.0%}, {now:.0%}" for kind, (was, now) in one.corrections.items())


def _examples(name: str, rows: Any, link: str | None) -> Iterator[str]:
    yield ""
    yield f"{name}:"
    yield ""
    for row in rows:
        event = printable(row["event_id"], 80)
        where = f"`{event.replace('`', '')}`"
        if link is not None:
            where = f"[{_escaped(event)}]({link.rstrip('/')}/explore/verdict/{row['result_id']})"
        yield f"- {row['score']} {where} {_escaped(printable(row['reason'], 160))}"


def _escaped(text: str) -> str:
    """Return text escaped for Markdown."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>()#|!~" else char for char in text)


def _clock(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
