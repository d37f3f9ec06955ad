"""`judgestream worker`: run the service."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import os
from typing import Annotated

import typer

from streams.cli.errors import BadUsageError
from streams.cli.session import RequiredConfig, Session

DEFAULT_AGENTS = "intake,judge,monitor"


def worker(
    config: RequiredConfig,
    agents: Annotated[
        str, typer.Option("--agents", metavar="NAMES", help="Agents to run, separated by commas.")
    ] = DEFAULT_AGENTS,
) -> None:
    """Run the service: read events, sample, judge, publish verdicts, detect drops.

    Runs until SIGTERM or Ctrl-C, then finishes the records in flight. After a crash, the next worker repeats
    them. The agent `store` also keeps results and texts in a file for `explore`, `show` and `export`.
    """
    import structlog

    from streams.cli.settings import runnable_settings, settings_for_command
    from streams.kafka.topics.table import ALL_AGENTS
    from streams.settings import TelemetrySettings
    from streams.telemetry.logs import set_up_logs
    from streams.telemetry.masking import SHORT_SECRET, settings_masker, short_secrets
    from streams.worker.run import run_worker

    named = {name.strip() for name in agents.split(",") if name.strip()}
    chosen = tuple(name for name in ALL_AGENTS if name in named)
    if not named or named.difference(ALL_AGENTS):
        raise BadUsageError(
            f"--agents must name one or more of {', '.join(ALL_AGENTS)}, separated by commas, got {agents!r}"
        )
    set_up_logs(TelemetrySettings(log_level="error"))  # packs' warnings are logged later
    judges = {"intake", "judge"} & set(chosen)
    settings = runnable_settings(config) if judges else settings_for_command(config)
    set_up_logs(settings.telemetry, masker=settings_masker(settings, os.environ))
    for place in short_secrets(settings, os.environ):
        structlog.stdlib.get_logger(__name__).warning(SHORT_SECRET, setting=place)
    Session(settings, config).run(
        lambda stop: run_worker(settings, stop=stop, agents=chosen), loop=settings.judge.event_loop
    )
