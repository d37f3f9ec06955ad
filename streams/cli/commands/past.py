"""Answers of the past are judged again: `replay`, and `anchors`, which find shifts of the judge itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from typer import Argument, Option, Typer

from streams.cli.options import BROKERS, CONFIG, JSON, METRIC, ONLY_METRIC, RATE, STORE, YES
from streams.cli.running import BadUsageError
from streams.cli.session import session


def replay(
    from_: str | None = Option(
        None, "--from", metavar="TIME", help="Start, by record timestamps (RFC 3339)."
    ),
    to: str | None = Option(None, metavar="TIME", help="End; default: now."),
    events: Path | None = Option(None, metavar="FILE", help="Judge the events of a file (as for `judge`)."),
    incident: str | None = Option(
        None, metavar="ID", help="Judge the events of an incident (or latest) with its metrics and parts."
    ),
    dead_letters: bool = Option(False, "--dead-letters", help="Resend the originals of dead letters."),
    metric: list[str] | None = Option(
        None, "--metric", "-m", help="One of the settings; repeatable; default: all."
    ),
    pack: Path | None = Option(None, metavar="FILE", help="Prompts instead of the metric's own."),
    endpoint: str | None = Option(None, metavar="NAME", help="The only one; default: as in the settings."),
    rate: float | None = RATE,
    max_usd: float | None = Option(
        None, metavar="USD", min=0.000001, help="Stop before exceeding this cost."
    ),
    share: float = Option(
        0.2, metavar="S", min=0.001, max=1, help="Share of the limits of judge and endpoints to use."
    ),
    resume: str | None = Option(None, metavar="ID", help="Resume a replay; use the same options."),
    reason: list[str] | None = Option(None, metavar="REASON", help="Only such dead letters; repeatable."),
    topic: list[str] | None = Option(
        None, "--topic", "-t", help="Only dead letters of this topic; repeatable."
    ),
    yes: bool = YES,
    bootstrap_servers: str | None = BROKERS,
    config: Path | None = CONFIG,
    as_json: bool = JSON,
) -> None:
    """Judge past events again, or resend dead letters.

    Prints an estimate and prompts first. Judges the events that the live stream sampled; results go to the
    same topic with a replay id and do not count in live series. At the end it compares both evaluators on the
    same events. After Ctrl-C, resume with --resume ID and the same options.

    With --dead-letters, the original records are resent to their topics with key, value, headers and time;
    fix the cause first. The dead letters remain: limit a second run with --from.
    """
    whats = {"--from": from_, "--events": events, "--incident": incident, "--dead-letters": dead_letters}
    ours = {"--reason": reason, "--topic": topic}
    others = {"--metric": metric, "--pack": pack, "--endpoint": endpoint, "--max-usd": max_usd}
    _check(whats, others | {"--resume": resume} if dead_letters else ours)
    since, until = _moment("--from", from_), _moment("--to", to)
    call = session(config, bootstrap_servers)
    from streams.batch.plan import Plan
    from streams.cli.past import judge_past, plan_of, send_dead_letters
    from streams.kafka.dead_letters import Query

    if dead_letters:
        wanted = Query(reasons=tuple(reason or ()), topics=tuple(topic or ()), since=since, until=until)
        call.run(lambda stop: send_dead_letters(call, wanted, stop, rate=rate, yes=yes, as_json=as_json))
        return
    plan = Plan(
        since=since,
        until=until,
        file=events,
        incident=incident,
        metrics=tuple(dict.fromkeys(metric or ())),
        pack=pack,
        endpoint=endpoint,
        per_second=rate,
        max_usd=max_usd,
        share=share,
    )
    plan = plan_of(plan, call)
    call.run(lambda stop: judge_past(call, plan, stop, resume=resume, yes=yes, as_json=as_json))


def _check(whats: Mapping[str, object], misplaced: Mapping[str, object]) -> None:
    given = [name for name, value in whats.items() if value]
    if "--dead-letters" in given and "--from" in given:
        given.remove("--from")  # it limits them
    if len(given) != 1:
        got = " and ".join(given) or "nothing"
        raise BadUsageError(
            f"name what to replay by one of {', '.join(whats)}, got {got}; "
            "for example: judgestream replay --from 2026-11-21T20:00:00Z --config F"
        )
    for name, value in misplaced.items():
        if value:
            raise BadUsageError(f"{name} cannot be used with {given[0]}; omit it")


def _moment(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        problem = f"must be a time as in RFC 3339, got {text!r}; for example 2026-11-21T20:00:00Z"
        raise BadUsageError(f"{option} {problem}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


anchors_app = Typer(name="anchors", help="Find shifts of the judge itself on frozen answers.")


@anchors_app.command(epilog="Example: judgestream anchors add --metric coverage --config settings.yaml")
def add(
    metric: str = METRIC,
    count: int = Option(100, "--count", "-n", metavar="N", min=20, max=500, help="Number of anchors."),
    max_usd: float | None = Option(None, metavar="USD", min=0, help="Stop before exceeding this cost."),
    yes: bool = YES,
    config: Path | None = CONFIG,
    store: Path | None = STORE,
    bootstrap_servers: str | None = BROKERS,
) -> None:
    """Enrol answers as anchors: judge each three times, and write it to qa.anchors.

    Prints an estimate and prompts first. Takes the metric's anchors so far and labelled answers of the store,
    up to half of them bad ones. Each call starts the comparison over, as is needed after a change of
    prompt or model. Workers then judge one again for every 20 live results: 5% more calls.
    """
    from streams.cli.past import enrol

    call = session(config, bootstrap_servers, store)
    judged = [name for name, one in call.settings.metrics.items() if not one.is_code]
    if metric not in judged:
        raise BadUsageError(f"--metric must be one with a judge ({', '.join(judged)}), got {metric!r}")
    call.require_store("or name it with --store")
    call.run(lambda stop: enrol(call, metric, stop, count=count, max_usd=max_usd, yes=yes))


@anchors_app.command(epilog="Example: judgestream anchors status --config settings.yaml")
def status(
    metric: str | None = ONLY_METRIC,
    config: Path | None = CONFIG,
    bootstrap_servers: str | None = BROKERS,
    as_json: bool = JSON,
) -> None:
    """Print whether each metric's judge is steady, stricter or kinder, its anchors and their mean difference.

    By the monitor's saved state, which is at most a minute old.
    """
    from streams.cli.past import tell_status

    call = session(config, bootstrap_servers)
    call.run(lambda _: tell_status(call, metric, as_json=as_json))


@anchors_app.command(epilog="Example: judgestream anchors remove coverage --config settings.yaml")
def remove(
    names: list[str] = Argument(..., metavar="METRIC|ID...", help="Metrics, or ids as of status --json."),
    yes: bool = YES,
    config: Path | None = CONFIG,
    bootstrap_servers: str | None = BROKERS,
) -> None:
    """Remove anchors with their texts; the broker deletes them at its next compaction."""
    from streams.cli.past import remove_anchors

    call = session(config, bootstrap_servers)
    call.run(lambda _: remove_anchors(call, names, yes=yes))
