from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from schemas import Scored, Suspicion
from streams.judging.agent import MIN_RESULTS, CitationWatch
from tests.streams.results import scored


def _result(number: int, *, cites: bool, metric: str = "relevance") -> Scored:
    suspicions = () if cites else (Suspicion(kind="no_citation", detail="secret text"),)
    result = scored(number, 1)
    changes = {"metric": metric, "event_id": f"event-{number}", "suspicions": suspicions}
    return result.model_copy(update=changes)


def test_uncited_answers_are_logged_once() -> None:
    """Uncited answers are logged once, with an event id and the remedy, without text of an answer."""
    watch = CitationWatch(["relevance"])
    with capture_logs() as logs:
        for number in range(2 * MIN_RESULTS):
            assert (watch.note is not None) == (number >= MIN_RESULTS)
            watch.add(_result(number, cites=False))
    assert len(logs) == 1
    assert watch.note is not None
    assert "'event-0'" in watch.note
    assert "citation_pattern" in watch.note
    assert "secret" not in str(logs)


@pytest.mark.parametrize(("cites", "metric"), [(True, "relevance"), (False, "tone")])
def test_other_traffic_is_passed_over(cites: bool, metric: str) -> None:
    """Answers with citations, and metrics that read none, are ignored."""
    watch = CitationWatch(["relevance"])
    for number in range(2 * MIN_RESULTS):
        watch.add(_result(number, cites=cites, metric=metric))
    assert watch.note is None


def test_half_is_not_most() -> None:
    """Half of the answers give no note; one more does."""
    watch = CitationWatch(["relevance"])
    for number in range(2 * MIN_RESULTS):
        watch.add(_result(number, cites=number % 2 == 0))
    assert not watch.note
    watch.add(_result(0, cites=False))
    assert watch.note
