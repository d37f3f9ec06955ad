"""Build the metrics from their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog

from judge.errors import ExtensionError, JudgeConfigurationError, PromptPackError
from judge.evaluate.guard import GuardedMetric, TextLimits, redactor
from judge.metric import Metric
from judge.metrics import registry
from judge.metrics.base import read_scale, read_score_range
from judge.metrics.code import CodeMetric, EmbeddingSimilarity, FunctionMetric
from judge.metrics.packs.metric import PAIRWISE, example_warnings
from judge.metrics.packs.pack import PromptPack, load_pack
from streams.errors import SettingsError
from streams.settings.judge import JudgeSettings
from streams.settings.metrics import CodeSettings, MetricSettings, PythonSettings
from streams.settings.tree import Settings

_log = structlog.stdlib.get_logger(__name__)


@contextmanager
def _blamed_on(setting: str) -> Iterator[None]:
    """Raise what makes a metric impossible as a problem of a setting; empty if the error names it."""
    try:
        yield
    except (ExtensionError, JudgeConfigurationError, PromptPackError) as error:
        raise SettingsError([f"{setting}: {error}" if setting else str(error)]) from error


def build_metric(name: str, settings: MetricSettings) -> Metric:
    """Build one metric; a function's module is located but not imported."""
    if settings.embeds:
        _refuse_range(name, settings)
        return EmbeddingSimilarity(name)
    if settings.python is not None:
        with _blamed_on(f"metrics.{name}.python"):
            return _function(name, settings, settings.python)
    if settings.code is not None:
        with _blamed_on(f"metrics.{name}.code"):
            return _check(name, settings, settings.code)
    pack = None
    if settings.prompt_pack is not None:
        with _blamed_on(f"metrics.{name}.prompt_pack"):
            pack = load_pack(settings.prompt_pack)
    is_ours = name in registry.BUILT_IN or (pack is None and name in registry.metric_names())
    with _blamed_on("" if is_ours else f"metrics.{name}.score_range"):
        metric = registry.build_metric(
            name,
            pack=pack,
            score_range=None if is_ours else settings.score_range,
            citation_pattern=settings.citation_pattern,
            without_citations=settings.without_citations,
        )
    for warning in pack_warnings(metric, pack):
        _log.warning("prompt pack", metric=name, file=str(settings.prompt_pack), warning=warning)
    return metric


def pack_warnings(metric: Metric, pack: PromptPack | None) -> Sequence[str]:
    """Return the warnings about a metric's pack: its text, and examples that do not give their verdict."""
    return () if pack is None else (*pack.warnings, *example_warnings(metric, pack))


def _function(name: str, settings: MetricSettings, python: PythonSettings) -> Metric:
    result, score_range = python.result, settings.score_range
    if result not in ("number", "integer"):
        _refuse_range(name, settings)
    elif score_range is not None:
        score_range = read_score_range(score_range, is_number=result == "number")
    elif result == "integer":
        what = "is required with result integer; set [1, 5]"
        raise SettingsError([f"metrics.{name}.score_range: {what}"])
    scale = read_scale(list(result) if isinstance(result, tuple) else result, score_range or (0.0, 1.0))
    return FunctionMetric(name, python.function, scale, seconds=python.seconds, memory_mb=python.memory_mb)


def _check(name: str, settings: MetricSettings, code: CodeSettings) -> Metric:
    check = next(kind for kind in type(code).model_fields if getattr(code, kind) is not None)
    options = getattr(code, check).model_dump(exclude={"worse", "by"})
    score_range = settings.score_range
    if check in {"length", "latency", "cost"}:
        score_range = score_range and read_score_range(score_range, is_number=True)
    else:
        _refuse_range(name, settings)
    if check == "latency" and options["label"].endswith(("_ms", "_milliseconds")):
        options["factor"] = 0.001
    if check == "contains":
        # Of one text, too, "all": the evaluator's version has it from the time when it was a setting.
        is_any = not options["good"] and len(options["texts"]) > 1
        options |= {"need": "any" if is_any else "all", "ignore_case": True}
    if check == "json_valid":
        options = {"schema": _schema(name, options["schema_file"])}
    return CodeMetric(name, check, score_range=score_range, **options)


def _refuse_range(name: str, settings: MetricSettings) -> None:
    if settings.score_range is not None:
        raise SettingsError([f"metrics.{name}.score_range: is fixed for this check; remove it"])


def _schema(name: str, file: Path | None) -> str | None:
    try:
        return None if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        where = f"metrics.{name}.code.json_valid.schema_file"
        raise SettingsError([f"{where}: {file} cannot be read: {error}"]) from error


def build_metrics(settings: Settings) -> dict[str, Metric]:
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
    pairs = [name for name, one in metrics.items() if one.scoring_version.startswith(PAIRWISE)]
    why = "compares two answers, which needs a language model, not the offline rules"
    return [f"{name}: {why}" for name in pairs]


def guarded(metric: Metric, judge: JudgeSettings) -> Metric:
    """Limit and redact a metric's texts by the settings of `judge`."""
    with _blamed_on(""):
        return GuardedMetric(metric, redactor=redactor(judge.redact), limits=TextLimits())
