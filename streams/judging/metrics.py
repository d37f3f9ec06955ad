"""Build the metrics from their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from judge.errors import JudgeConfigurationError, PromptPackError
from judge.metric import Metric
from judge.metrics import registry
from judge.metrics.embeddings import EmbeddingSimilarity
from judge.metrics.packs.metric import PAIRWISE
from judge.metrics.packs.pack import PromptPack, load_pack
from judge.verdict import names
from judge.verdict.examples import example_warnings
from judge.verdict.guarded_metric import GuardedMetric, TextLimits
from streams.errors import SettingsError
from streams.judging.code import build_code_metric
from streams.settings import JudgeSettings, MetricSettings, Settings

_log = structlog.stdlib.get_logger(__name__)


def build_metric(name: str, settings: MetricSettings) -> Metric:
    """Build one metric.

    Args:
        name: Its name; `coverage` and `relevance` are built in.
        settings: Its settings.

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
    if name in registry.BUILT_IN:
        try:
            return registry.build_metric(
                name,
                mode=settings.mode,
                pack=pack,
                verification=settings.verification,
                citation_pattern=settings.citation_pattern,
                without_citations=settings.without_citations,
            )
        except JudgeConfigurationError as error:
            raise SettingsError([str(error)]) from error
    if pack is None and name in registry.NAMED:
        try:
            return registry.build_metric(name, mode=settings.mode)
        except JudgeConfigurationError as error:
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
    limits = TextLimits(
        question=judge.max_question_chars, answer=judge.max_answer_chars, context=judge.max_context_chars
    )
    try:
        return GuardedMetric(metric, redactor=names.redactor(judge.redact), limits=limits)
    except JudgeConfigurationError as error:
        raise SettingsError([str(error)]) from error
