"""`judgestream anchors`: frozen answers, judged again and again, that show whether the judge has shifted."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option, Typer

from streams.cli.running import BadUsageError, help_without_command
from streams.cli.session import BROKERS, CONFIG, JSON, ONLY_METRIC, STORE, YES, session

app = Typer(name="anchors", help="Find shifts of the judge itself on frozen answers.")
app.callback(invoke_without_command=True)(help_without_command)


@app.command(epilog="Example: judgestream anchors add --metric coverage --max-usd 2 --config settings.yaml")
def add(
    metric: str = Option(..., "--metric", "-m", metavar="NAME", help="The metric."),
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
    from streams.cli.anchoring import enrol

    call = session(config, bootstrap_servers, store)
    judged = [name for name, one in call.settings.metrics.items() if not one.is_code]
    if metric not in judged:
        raise BadUsageError(f"--metric must be one with a judge ({', '.join(judged)}), got {metric!r}")
    call.require_store("or name it with --store")
    call.run(lambda stop: enrol(call, metric, stop, count=count, max_usd=max_usd, yes=yes))


@app.command(epilog="Example: judgestream anchors status --config settings.yaml")
def status(
    metric: str | None = ONLY_METRIC,
    config: Path | None = CONFIG,
    bootstrap_servers: str | None = BROKERS,
    as_json: bool = JSON,
) -> None:
    """Print whether each metric's judge is steady, stricter or kinder, its anchors and their mean difference.

    By the monitor's saved state, which is at most a minute old.
    """
    from streams.cli.anchoring import tell_status

    call = session(config, bootstrap_servers)
    call.run(lambda _: tell_status(call, metric, as_json=as_json))


@app.command(epilog="Example: judgestream anchors remove coverage --config settings.yaml")
def remove(
    names: list[str] = Argument(..., metavar="METRIC|ID...", help="Metrics, or ids as of status --json."),
    yes: bool = YES,
    config: Path | None = CONFIG,
    bootstrap_servers: str | None = BROKERS,
) -> None:
    """Remove anchors with their texts; the broker deletes them at its next compaction."""
    from streams.cli.anchoring import remove_anchors

    call = session(config, bootstrap_servers)
    call.run(lambda _: remove_anchors(call, names, yes=yes))
