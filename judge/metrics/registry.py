"""Registry of metrics by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from judge.errors import JudgeConfigurationError
from judge.metric import Metric, Mode, Verification
from judge.metrics.base import BuiltInMetric
from judge.metrics.coverage.metric import Coverage
from judge.metrics.library.metric import LibraryMetric
from judge.metrics.library.prompts import LIBRARY, library_prompt
from judge.metrics.packs.metric import PackMetric
from judge.metrics.packs.options import read_score_range
from judge.metrics.packs.pack import PromptPack
from judge.metrics.relevance.metric import Relevance, WithoutCitations
from schemas.base import EventField


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A metric that needs no prompt pack.

    Args:
        build: The metric's class.
        needs: Fields that an event needs to be judged by default; None: only if the settings name the metric.
        cites: Whether it reads citations.
    """

    build: type[BuiltInMetric]
    needs: tuple[EventField, ...] | None = None
    cites: bool = False

    @property
    def score_range(self) -> tuple[int, int]:
        """Lowest and highest score."""
        return self.build.RANGE


_ROWS: Final = (
    BuiltIn(Coverage, needs=("reference",)),
    BuiltIn(Relevance, needs=("context",), cites=True),
)
BUILT_IN: Final[Mapping[str, BuiltIn]] = MappingProxyType({row.build.NAME: row for row in _ROWS})
"""Built-in metrics by name; settings, defaults, ranges, the monitor and the demo use this table."""


def score_ranges() -> Mapping[str, tuple[float, float]]:
    """Return the lowest and highest score of all metrics that need no prompt pack."""
    ranges = {name: metric.score_range for name, metric in BUILT_IN.items()}
    return MappingProxyType(ranges | {name: library_prompt(name).score_range for name in LIBRARY})


NAMED: Final[tuple[str, ...]] = (*BUILT_IN, *LIBRARY)
"""All metrics that need no prompt pack: the built-in ones and the library's."""


def build_metric(
    name: str,
    *,
    mode: Mode | None = None,
    pack: PromptPack | None = None,
    score_range: tuple[float, float] | None = None,
    verification: Verification = "marks",
    citation_pattern: str | None = None,
    without_citations: WithoutCitations = "lowest",
) -> Metric:
    """Build a metric from its settings.

    Args:
        name: `coverage`, `relevance`, a library metric, or any other name for a user-defined metric, which
            needs a pack.
        mode: The mode; None: evidence, or verbatim with a pack.
        pack: Prompts. For a built-in metric they replace its own; its checks stay.
        score_range: Lowest and highest score of a user-defined metric; overrides the pack's.
        verification: How suspicions are handled (built-in metrics).
        citation_pattern: A regular expression for citations of your own (relevance).
        without_citations: Result of an answer without citations (relevance).

    Raises:
        JudgeConfigurationError: The settings contradict each other.
        PromptPackError: The score range is invalid.
    """
    if pack is not None and mode == "evidence":
        raise JudgeConfigurationError(
            f"metric {name}: mode must be verbatim with a prompt pack, got evidence; remove mode or the pack"
        )
    if name in LIBRARY and pack is None:
        if mode == "verbatim":
            raise JudgeConfigurationError(f"metric {name}: mode must be evidence, got verbatim; remove it")
        return _to_the_letter(LibraryMetric(name), score_range)
    if name not in BUILT_IN:
        return _own_metric(name, pack, score_range)
    if pack is not None and (pack.choice is not None or pack.is_number):
        raise JudgeConfigurationError(
            f"metric {name}: a pack for it must not have `result`: its scores are whole numbers; remove it"
        )
    # Only relevance has citations.
    citing = {"citation_pattern": citation_pattern, "without_citations": without_citations}
    build: Callable[..., Metric] = BUILT_IN[name].build
    metric = build(
        mode=mode or "evidence",
        pack=pack,
        verification=verification,
        **(citing if BUILT_IN[name].cites else {}),
    )
    return _to_the_letter(metric, score_range)


def build_prompted(name: str, mode: Mode) -> BuiltInMetric | LibraryMetric:
    """Build a metric that needs no pack, to print its prompt.

    Args:
        name: One of `NAMED`.
        mode: The mode; library metrics have only evidence.
    """
    return LibraryMetric(name) if name in LIBRARY else BUILT_IN[name].build(mode=mode)


def _to_the_letter(metric: Metric, score_range: tuple[float, float] | None) -> Metric:
    if score_range is not None and tuple(score_range) != metric.score_range:
        raise JudgeConfigurationError(
            f"metric {metric.name}: score_range is {list(metric.score_range)} by definition, got "
            f"{list(score_range)}; remove it"
        )
    return metric


def _own_metric(name: str, pack: PromptPack | None, score_range: tuple[float, float] | None) -> Metric:
    if pack is None:
        raise JudgeConfigurationError(
            f"metric {name} is not built in ({', '.join(NAMED)} are) and needs a prompt_pack"
        )
    given = score_range if score_range is not None else pack.score_range
    if given is None:
        raise JudgeConfigurationError(
            f"metric {name} needs a score_range, in its settings or in its prompt pack, such as [1, 5]"
        )
    return PackMetric(name, pack, score_range=read_score_range(given, is_number=pack.is_number))
