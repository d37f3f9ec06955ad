"""Build the metrics that are computed by code, from their settings."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from judge.errors import JudgeConfigurationError, PromptPackError
from judge.metrics.code.checks import Check, Contains, FromLabel, Length, Similarity
from judge.metrics.code.function import Function
from judge.metrics.code.json_valid import JsonValid
from judge.metrics.code.metric import CodeMetric
from judge.metrics.code.regex import Regex
from judge.metrics.code.scale import read_scale
from judge.metrics.packs.options import read_score_range
from streams.errors import SettingsError
from streams.settings import MetricSettings
from streams.settings.metrics import CodeSettings, PythonSettings

Range = tuple[float, float]

LONGEST: Final[Range] = (0, 1000)
"""Default scale of lengths, in the unit of the check."""
SLOWEST: Final[Range] = (0, 60)
"""Default scale of latency, in seconds."""
MOST_EXPENSIVE: Final[Range] = (0, 1)
"""Default scale of cost, in US dollars."""


def build_code_metric(name: str, settings: MetricSettings) -> CodeMetric:
    """Build one metric; a function's module is located but not imported.

    Args:
        name: Its name.
        settings: Its settings, with `code` or `python`.

    Raises:
        SettingsError: The check or the function cannot be used.
    """
    try:
        if settings.python is not None:
            return CodeMetric(name, _function(name, settings.python, settings.score_range))
        if settings.code is not None:
            return CodeMetric(name, _check(name, settings.code, settings.score_range))
    except (JudgeConfigurationError, PromptPackError) as error:
        where = "python" if settings.python is not None else "code"
        raise SettingsError([f"metrics.{name}.{where}: {error}"]) from error
    raise SettingsError([f"metrics.{name}: has neither code nor python"])


def _function(name: str, python: PythonSettings, score_range: Range | None) -> Function:
    result = list(python.result) if isinstance(python.result, tuple) else python.result
    is_number = result == "number"
    if result not in ("number", "integer"):
        _fixed(name, score_range)
    elif score_range is not None:
        score_range = read_score_range(score_range, is_number=is_number)
    elif not is_number:
        raise SettingsError([f"metrics.{name}.score_range: is required with result integer; set [1, 5]"])
    return Function(
        python.function,
        read_scale(result, score_range or (0.0, 1.0)),
        seconds=python.seconds,
        memory_mb=python.memory_mb,
    )


def _check(name: str, code: CodeSettings, score_range: Range | None) -> Check:
    measured = _measured(code, score_range and read_score_range(score_range, is_number=True))
    if measured is not None:
        return measured
    _fixed(name, score_range)
    if code.regex is not None:
        return Regex(code.regex.pattern, code.regex.of, code.regex.good)
    if code.contains is not None:
        given = code.contains
        return Contains(given.texts, given.need, given.ignore_case, given.of, given.good)
    if code.json_valid is not None:
        return JsonValid(_schema(name, code.json_valid.schema_file))
    return Similarity()


def _measured(code: CodeSettings, score_range: Range | None) -> Check | None:
    """Return a check with a configurable scale; None for the other checks."""
    if code.length is not None:
        return Length(code.length.unit, score_range or LONGEST, code.length.of)
    if code.latency is not None:
        factor = 0.001 if code.latency.unit == "milliseconds" else 1.0
        return FromLabel(code.latency.label, score_range or SLOWEST, factor)
    if code.cost is not None:
        return FromLabel(code.cost.label, score_range or MOST_EXPENSIVE)
    return None


def _fixed(name: str, score_range: Range | None) -> None:
    if score_range is not None:
        raise SettingsError([f"metrics.{name}.score_range: is fixed for this check; remove it"])


def _schema(name: str, file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            [f"metrics.{name}.code.json_valid.schema_file: {file} cannot be read: {error}"]
        ) from error
