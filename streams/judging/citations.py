"""Detect that most judged answers have no recognised citation: their relevance of 1 has no meaning."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import structlog

from schemas import Failed, Scored, Unscored

MIN_RESULTS: Final = 20
"""Results before the first note."""
REMEDY: Final = (
    "set metrics.relevance.citation_pattern, or metrics.relevance.without_citations: unscored, or use a "
    "metric without citations"
)

_log = structlog.stdlib.get_logger(__name__)


class CitationWatch:
    """Counts results without a recognised citation, and logs a warning once if they are the majority.

    Args:
        metrics: The metrics that read citations.
    """

    def __init__(self, metrics: Collection[str]) -> None:
        self._metrics = frozenset(metrics)
        self._results = 0
        self._uncited = 0
        self._example = ""
        self._told = False

    def add(self, result: Scored | Unscored | Failed) -> None:
        """Count a result."""
        if isinstance(result, Failed) or result.metric not in self._metrics:
            return
        self._results += 1
        if any(suspicion.kind == "no_citation" for suspicion in result.suspicions):
            self._uncited += 1
            self._example = self._example or result.event_id
        if self.note is not None and not self._told:
            self._told = True
            _log.warning("answers without citations", detail=self.note)

    @property
    def note(self) -> str | None:
        """The note; None while most answers have citations or few are judged. Quotes no answer text."""
        if self._results < MIN_RESULTS or 2 * self._uncited <= self._results:
            return None
        return (
            f"{self._uncited} of {self._results} answers have no recognised citation, so relevance is 1 "
            f"(for example event {self._example[:80]!r}); {REMEDY}"
        )
