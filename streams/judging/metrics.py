"""Build the metrics from their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from judge.errors import ExtensionError, JudgeConfigurationError, PromptPackError
from judge.evaluate.guard import GuardedMetric, TextLimits, redactor
from judge.metric import Metric
from judge.metrics import registry
from judge.metrics.base import read_scale, read_score_range
from judge.metrics.code import CodeMetric, EmbeddingSimilarity
from judge.metrics.function import FunctionMetric
from judge.metrics.packs.metric import PAIRWISE, example_warnings
from judge.metrics.packs.pack import PromptPack, load_pack
from streams.errors import SettingsError
from streams.settings import JudgeSettings, MetricSettings, Settings
from streams.settings.metrics import CodeSettings, PythonSettings

_log = structlog.stdlib.get_logger(__name__)


def build_metric(name: str, settings: MetricSettings) -> Metric:
    """Build one metric.

    Raises:
        SettingsError: Its prompt pack or pattern cannot be used, or it has no score range.
    """
    if settings.embeds:
        return _by_embeddings(name, settings)
    if settings.is_code:
        return build_code_metric(name, settings)
    pack = _pack(name, settings)
    metric = _metric(name, settings, pack)
    for warning in pack_warnings(metric, pack):
        _log.warning("prompt pack", metric=name, file=str(settings.prompt_pack), warning=warning)
    return metric


def _by_embeddings(name: str, settings: MetricSettings) -> Metric:
    if settings.score_range is not None:
        raise SettingsError([f"metrics.{name}.score_range: is fixed for this check; remove it"])
    return EmbeddingSimilarity(name)


def pack_warnings(metric: Metric, pack: PromptPack | None) -> Sequence[str]:
    """Return the warnings about a metric's pack: its text, and examples that do not give their verdict."""
    return () if pack is None else (*pack.warnings, *example_warnings(metric, pack))


def _metric(name: str, settings: MetricSettings, pack: PromptPack | None) -> Metric:
    if name in registry.BUILT_IN or (pack is None and name in registry.metric_names()):
        try:
            return registry.build_metric(
                name,
                pack=pack,
                citation_pattern=settings.citation_pattern,
                without_citations=settings.without_citations,
            )
        except (ExtensionError, JudgeConfigurationError) as error:
            raise SettingsError([str(error)]) from error
    if pack is None:
        raise SettingsError(
            [f"metrics.{name}: is not a built-in metric; set prompt_pack, code or python, or rename it"]
        )
    score_range = settings.score_range or pack.score_range
    if score_range is None:
        raise SettingsError(
            [
                (
                    f"metrics.{name}.score_range: is required, because {settings.prompt_pack} has none; "
                    "set [lowest, highest]"
                )
            ]
        )
    try:
        return registry.build_metric(name, pack=pack, score_range=score_range)
    except PromptPackError as error:
        raise SettingsError([f"metrics.{name}.score_range: {error}"]) from error


def _pack(name: str, settings: MetricSettings) -> PromptPack | None:
    if settings.prompt_pack is None:
        return None
    try:
        return load_pack(settings.prompt_pack)
    except PromptPackError as error:
        raise SettingsError([f"metrics.{name}.prompt_pack: {error}"]) from error


def build_metrics(settings: Settings) -> dict[str, Metric]:
    """Build all metrics of the settings.

    Raises:
        SettingsError: Some metrics cannot be built; the error names all of them.
    """
    built: dict[str, Metric] = {}
    problems: list[str] = []
    for name, metric in settings.metrics.items():
        try:
            built[name] = guarded(build_metric(name, metric), settings.judge)
        except SettingsError as error:
            problems += error.problems
    if problems:
        raise SettingsError(list(dict.fromkeys(problems)))
    return built


def beyond_offline_rules(metrics: Mapping[str, Metric]) -> list[str]:
    """Return the metrics that the offline judge cannot judge, each with the reason."""
    return [
        f"{name}: compares two answers, which needs a language model, not the offline rules"
        for name, metric in metrics.items()
        if metric.scoring_version.startswith(PAIRWISE)
    ]


def guarded(metric: Metric, judge: JudgeSettings) -> Metric:
    """Limit and redact a metric's texts by the settings of `judge`.

    Raises:
        SettingsError: Names are redacted, but the engine for that is not installed.
    """
    try:
        return GuardedMetric(metric, redactor=redactor(judge.redact), limits=TextLimits())
    except JudgeConfigurationError as error:
        raise SettingsError([str(error)]) from error


Range = tuple[float, float]


def build_code_metric(name: str, settings: MetricSettings) -> CodeMetric | FunctionMetric:
    """Build one metric; a function's module is located but not imported.

    Raises:
        SettingsError: The check or the function cannot be used.
    """
    try:
        if settings.python is not None:
            return _function(name, settings.python, settings.score_range)
        if settings.code is not None:
            return _check(name, settings.code, settings.score_range)
    except (JudgeConfigurationError, PromptPackError) as error:
        where = "python" if settings.python is not None else "code"
        raise SettingsError([f"metrics.{name}.{where}: {error}"]) from error
    raise SettingsError([f"metrics.{name}: has neither code nor python"])


def _function(name: str, python: PythonSettings, score_range: Range | None) -> FunctionMetric:
    result = list(python.result) if isinstance(python.result, tuple) else python.result
    if result not in ("number", "integer"):
        _fixed(name, score_range)
    elif score_range is not None:
        score_range = read_score_range(score_range, is_number=result == "number")
    elif result == "integer":
        raise SettingsError([f"metrics.{name}.score_range: is required with result integer; set [1, 5]"])
    scale = read_scale(result, score_range or (0.0, 1.0))
    return FunctionMetric(name, python.function, scale, seconds=python.seconds, memory_mb=python.memory_mb)


def _check(name: str, code: CodeSettings, score_range: Range | None) -> CodeMetric:
    check = next(kind for kind in type(code).model_fields if getattr(code, kind) is not None)
    options = getattr(code, check).model_dump(exclude={"worse", "by"})
    if check in {"length", "latency", "cost"}:
        score_range = score_range and read_score_range(score_range, is_number=True)
    else:
        _fixed(name, score_range)
    if options.pop("unit", None) == "milliseconds":
        options["factor"] = 0.001
    elif check == "length":
        options["unit"] = code.length.unit if code.length else "words"
    if check == "json_valid":
        options = {"schema": _schema(name, options["schema_file"])}
    return CodeMetric(name, check, score_range=score_range, **options)


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
