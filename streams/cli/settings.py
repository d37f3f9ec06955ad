"""Loads settings for a command; all problems become one `BadUsageError`."""
# ruff: noqa: PLC0415 - heavy imports stay inside the functions, so that --help is quick

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from streams.cli.running import BadUsageError
from streams.errors import SettingsError

if TYPE_CHECKING:
    from streams.settings import Settings

T = TypeVar("T")
DEBUG_VARIABLE = "JUDGESTREAM_DEBUG"
"""Shows tracebacks; a variable of the command line, not a setting."""
WITHOUT_KAFKA: Final = {"JUDGESTREAM_SAMPLING__KEY": "record_key"}
"""With which a file is judged: values that meet each condition which other settings put on Kafka's."""


def settings_for_command(path: Path | None, overrides: Mapping[str, str] | None = None) -> Settings:
    """Load the settings.

    Args:
        path: The settings file; None for the environment and defaults alone.
    """
    try:
        return _load(path, overrides)
    except SettingsError as error:
        raise bad_settings(error, path) from error


def runnable_settings(path: Path) -> Settings:
    """Load settings and check, without the network, that a worker would start with them."""
    try:
        settings = _load(path)
        problems = _obstacles(settings)
    except SettingsError as error:
        further = [] if error.rest is None else error.rest.own(_obstacles(error.rest.settings))
        problems = [*error.problems, *further]
    if problems:
        every = SettingsError(problems)
        raise bad_settings(every, path) from every
    return settings


def environment() -> dict[str, str]:
    """Return the variables that settings read."""
    return {name: value for name, value in os.environ.items() if name != DEBUG_VARIABLE}


def _load(path: Path | None, overrides: Mapping[str, str] | None = None) -> Settings:
    from streams.settings import load_settings

    if path is not None and (folder := str(path.parent.resolve())) not in sys.path:
        sys.path.append(folder)  # the module of a metric in Python may be beside the settings file
    return load_settings(path, environment() | dict(overrides or {}))


def _obstacles(settings: Settings) -> list[str]:
    from judge.chat import OFFLINE_MODEL
    from streams.intake.reader import open_reader
    from streams.judging.endpoints import check_prices, judge_endpoints
    from streams.judging.metrics import beyond_offline_rules, build_metrics

    problems: list[str] = []
    if "metrics" not in settings.model_fields_set:
        problems.append(
            "metrics: is required (got nothing); add a metric, for example coverage: {when: "
            "{has: [reference]}}"
        )

    def tried(work: Callable[[], T]) -> T | None:
        try:
            return work()
        except SettingsError as error:
            problems.extend(error.problems)
            return None

    metrics = tried(lambda: build_metrics(settings)) or {}
    endpoints = tried(lambda: judge_endpoints(settings.judge, os.environ, settings.metrics))
    if endpoints and all(endpoint.model == OFFLINE_MODEL for endpoint in endpoints):
        remedy = "name an endpoint with a model in judge.endpoints"
        problems += [f"metrics.{problem}; {remedy}" for problem in beyond_offline_rules(metrics)]
    for endpoint in endpoints or ():
        tried(endpoint.read_key)
    if endpoints is not None:
        tried(lambda: check_prices(settings.judge, endpoints))
    tried(lambda: open_reader(settings, os.environ))
    return problems


def bad_settings(error: SettingsError, path: Path | None) -> BadUsageError:
    """Return the problems of settings as one error."""
    count = len(error.problems)
    where = "the environment" if path is None else str(path)
    what = "1 problem" if count == 1 else f"{count} problems"
    return BadUsageError(
        "\n".join((f"{what} in the settings ({where}):", *(f"  {one}" for one in error.problems)))
    )
