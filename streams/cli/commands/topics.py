"""`judgestream topics`: create missing topics, and drain the tasks of a removed metric."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import json
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from streams.cli.errors import BadUsageError, CommandError

if TYPE_CHECKING:
    from streams.kafka.topics.making import TopicsReport
    from streams.settings import Settings


topics_app = typer.Typer(
    help="Create missing topics; drain the tasks of a removed metric.",
    invoke_without_command=True,
)
T = TypeVar("T")


@topics_app.callback()
def topics(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="The settings file (YAML).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be created.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Create missing topics, with partitions, replicas and retention from section `topics`.

    Existing topics are never changed; differences are reported. Exit code 1: a topic cannot be created, or an
    existing topic's settings would lose records.
    """
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise BadUsageError("Missing option '--config' / '-c'; see judgestream topics --help")
    from streams.kafka.topics.admin import would_lose
    from streams.kafka.topics.making import make_topics

    report = _run(config, lambda settings: make_topics(settings, dry_run=dry_run))
    if as_json:
        typer.echo(json.dumps(_as_json(report, dry_run=dry_run)))
    else:
        for line in _lines(report, dry_run=dry_run):
            typer.echo(line)
    if report.problems:
        if as_json:
            raise typer.Exit(1)
        raise CommandError(would_lose(report.problems))


@topics_app.command()
def drain(
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="The settings file (YAML).")],
    metric: Annotated[str, typer.Option("--metric", help="The metric that was removed from the settings.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print how many tasks wait.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Turn the waiting tasks of a removed metric into dead letters.

    The dead letters have the reason unknown_metric; the tasks are deleted from their topic. Workers may keep
    running. Exit code 1: the metric is still in the settings, has no topic, or the broker refuses.
    """
    from streams.kafka.topics.removed import drain as drain_metric

    count = _run(config, lambda settings: drain_metric(settings, metric, dry_run=dry_run))
    if as_json:
        typer.echo(json.dumps({"metric": metric, "dry_run": dry_run, "tasks": count}))
    else:
        typer.echo(f"{'would set' if dry_run else 'set'} aside {count} tasks of metric {metric}")


def _run(config: Path, work: Callable[[Settings], Coroutine[Any, Any, T]]) -> T:
    """Run broker work for the settings' broker; turn its errors into the command's error."""
    from streams.cli.running import run_until_stopped
    from streams.cli.settings import bad_settings, settings_for_command
    from streams.errors import SettingsError, StreamsError
    from streams.kafka.access.errors import explain
    from streams.settings import TelemetrySettings
    from streams.telemetry.logs import set_up_logs
    from streams.telemetry.masking import settings_masker

    settings = settings_for_command(config)
    set_up_logs(TelemetrySettings(log_level="warning"), masker=settings_masker(settings, os.environ))
    try:
        return run_until_stopped(lambda _: work(settings))
    except SettingsError as error:
        raise bad_settings(error, config) from error
    except StreamsError as error:
        found = explain(error, settings.kafka)
        if found is not None and found.lasting:
            raise BadUsageError(str(found)) from error
        raise CommandError(str(error)) from error


def _lines(report: TopicsReport, *, dry_run: bool) -> Iterator[str]:
    for one in report.topics:
        topic = one.wanted
        if one.created:
            made = "would create" if dry_run else "created"
            settings = ", ".join(f"{key}={value}" for key, value in topic.config.items())
            yield (
                f"{made} {topic.name}: {topic.partitions} partitions, {topic.replication_factor} "
                f"copies, {settings}"
            )
        elif one.differences:
            yield f"kept {topic.name}: {'; '.join(one.differences)}"
        else:
            yield f"ok {topic.name}"


def _as_json(report: TopicsReport, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "topics": [
            {
                "name": one.wanted.name,
                "created": one.created and not dry_run,
                "missing": one.created,
                "partitions": one.wanted.partitions,
                "replication_factor": one.wanted.replication_factor,
                "config": dict(one.wanted.config),
                "differences": list(one.differences),
            }
            for one in report.topics
        ],
        "problems": list(report.problems),
    }
