"""`judgestream doctor`: test everything a worker needs; `judgestream topics`: create missing topics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Exit, Option, style

from judge.text.printable import printable
from streams.cli.options import AGENTS, JSON, REQUIRED_CONFIG, chosen
from streams.cli.running import BadUsageError, emit, run_until_stopped, tell, until
from streams.cli.session import environment, log_to_stderr, session, settings_for_command

if TYPE_CHECKING:
    from streams.doctor.findings import Diagnosis

TELL_SECONDS = 10.0
_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "not tried": "bright_black"}


def doctor(
    config: Path = REQUIRED_CONFIG,
    agents: str = AGENTS,
    workers: int | None = Option(
        None, min=1, help="Number of workers; default: the group's current members."
    ),
    skip: list[str] | None = Option(
        None, metavar="CHECK", help="Skip a check; repeatable (verdict costs money)."
    ),
    timeout: float = Option(
        10.0, min=0.1, max=600, metavar="SECONDS", help="Time limit of each reply but verdicts."
    ),
    wait: float = Option(0.0, min=0, max=86_400, metavar="SECONDS", help="Retry temporary failures so long."),
    as_json: bool = JSON,
) -> None:
    """Test everything a worker needs: settings, secrets, broker, topics, rights, judge, verdicts, clock.

    Changes nothing and does not affect running workers. Exit code 0: a worker can run, possibly with
    warnings; 1: a check failed; 2: the settings are invalid.
    """
    from streams.doctor.examination import Examination
    from streams.doctor.findings import CHECKS, Diagnosis, bad_settings
    from streams.errors import SettingsError
    from streams.kafka.topics.table import ALL_AGENTS

    names = chosen("--agents", agents.split(","), ALL_AGENTS)
    skipped = chosen("--skip", skip, CHECKS) if skip else ()
    # The findings report refused connections and unknown prices.
    log_to_stderr("error")
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        settings = settings_for_command(config)
    except BadUsageError as error:
        if not isinstance(error.__cause__, SettingsError):
            raise
        problems = error.__cause__.problems
        diagnosis = Diagnosis(tuple(bad_settings("settings", "", problem) for problem in problems))
    else:
        examination = Examination(
            settings, env=environment(), agents=names, skip=skipped, timeout_seconds=timeout, workers=workers
        )
        work = examination.run_until_well
        found = run_until_stopped(lambda stop: until(stop, work(wait, on_trouble=_teller())))
        if found is None:
            raise Exit(130)
        diagnosis = found
    emit(diagnosis.as_json(), _lines(diagnosis), as_json=as_json)
    raise Exit(diagnosis.exit_code)


def _teller() -> Callable[[Diagnosis, float], None]:
    """Print the failures being retried: at once, on a change, and every `TELL_SECONDS`."""
    last = "", 0.0

    def show(diagnosis: Diagnosis, left: float) -> None:
        nonlocal last
        what = "; ".join(text for outcome, text, _ in diagnosis.lines() if outcome == "failed")
        if what != last[0] or last[1] - left >= TELL_SECONDS:
            last = what, left
            tell(f"waiting, {left:.0f} s left: {printable(what, 500)}")

    return show


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    for outcome, text, remedy in diagnosis.lines():
        yield f"{style(f'{outcome:<9}', fg=_COLOURS[outcome])} {text}"  # echo colours a terminal alone
        if remedy:
            yield f"{'':<9} {style(f'-> {remedy}', fg='cyan')}"
    counts = diagnosis.counts()
    parts = [f"{counts[name]} {name}" for name in ("failed", "warning", "ok", "not tried") if counts[name]]
    tokens = diagnosis.usage.input_tokens + diagnosis.usage.output_tokens
    if tokens:
        cost = "no price known" if diagnosis.cost_usd is None else f"{diagnosis.cost_usd:.6f} USD"
        parts.append(f"verdicts took {tokens} tokens ({cost})")
    yield f"a worker can{'not do its work' if diagnosis.failures else ' run'}: {', '.join(parts)}"


def topics(
    config: Path = REQUIRED_CONFIG,
    dry_run: bool = Option(False, "--dry-run", help="Only print what would be created."),
    as_json: bool = JSON,
) -> None:
    """Create missing topics, with partitions, replicas and retention from section `topics`.

    Existing topics are never changed; judgestream doctor checks them. Exit code 1: a topic cannot be created.
    """
    from streams.kafka.topics.admin import make_topics

    call = session(config)
    wanted, missing = call.run(lambda _: make_topics(call.settings, dry_run=dry_run))
    rows, lines = [], []
    for topic in wanted:
        is_missing = topic in missing
        rows.append(asdict(topic) | {"created": is_missing and not dry_run, "missing": is_missing})
        settings = ", ".join(f"{key}={value}" for key, value in topic.config.items())
        counts = f"{topic.partitions} partitions, {topic.replication_factor} copies"
        done = f"{'would create' if dry_run else 'created'} {topic.name}: {counts}, {settings}"
        lines.append(done if is_missing else f"ok {topic.name}")
    emit({"dry_run": dry_run, "topics": rows}, lines, as_json=as_json)
