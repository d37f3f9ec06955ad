from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from streams.telemetry.catalogue import CATALOGUE, LABELS
from streams.telemetry.exposition import OPENMETRICS, TEXT, expose
from streams.telemetry.instruments import Metrics
from streams.telemetry.labels import OTHERS_PER_PLACE, BoundedLabels, label_names
from tests.streams.results import scored


def test_labels_and_their_combinations_are_bounded() -> None:
    """Values beyond the limit are "other", a missing label is "", a combination too many is all "other"."""
    bounded = BoundedLabels(("app", "model"), 2)
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")
    assert bounded.values({"app": "b"}) == ("b", "")
    assert bounded.values({"app": "c", "model": "m"}) == ("other", "m")
    assert bounded.values({"app": "a\ud800b"}) == ("other", "")
    bounded = BoundedLabels(("app", "model"), 10, max_combinations=2)
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")
    assert bounded.values({"app": "a\ud800b", "model": "n"}) == ("a?b", "n")
    assert bounded.values({"app": "a", "model": "n"}) == ("other", "other")
    assert bounded.values({"app": "a", "model": "m"}) == ("a", "m")


def test_invented_values_give_way_to_real_ones() -> None:
    """Twenty values that are not seen again have no place for ever, and leave no series behind."""
    metrics = Metrics(CollectorRegistry(), labels=("tenant", "app"), max_label_values=20)
    for prefix, times in (("invented", 1), ("real", 10)):
        for number in [*range(20)] * times:
            labels = {"tenant": f"{prefix}-{number}", "app": "chat"}
            metrics.observe_result(scored(number, 3, labels=labels))
    text = expose(metrics.registry, TEXT)
    assert b"invented-" not in text
    assert text.count(b"\njudgestream_scores_total{") == 21
    # The first seven are in "other".
    assert b'scores_total{app="chat",metric="relevance",score="3",tenant="real-7"} 3.0' in text


@example([str(number) for number in range(400)], 1)
@given(st.lists(st.integers(0, 60).map(str), max_size=400), st.integers(1, 4))
def test_no_more_values_are_shown_than_have_a_place(values: list[str], limit: int) -> None:
    """However often values give way, those shown and those remembered are bounded, and each has its name."""
    shown: set[str] = set()
    bounded = BoundedLabels(("app",), limit, forget=lambda _, gone: shown.remove(gone))
    for value in values:
        (given,) = bounded.values({"app": value})
        assert given in {value, "other"}
        shown |= {given} - {"other"}
        assert len(shown) <= limit
        assert len(bounded._places[0]._others) <= OTHERS_PER_PLACE * limit


@pytest.mark.parametrize("value", ['x"} 1\nevil 2', "back\\slash", "\x00\x1b[31m", "a\u2028b", "é" * 200])
@pytest.mark.parametrize("kind", [TEXT, OPENMETRICS])
def test_hostile_label_values_stay_values(value: str, kind: str) -> None:
    """Any label value adds one series to each metric with labels."""
    metrics = Metrics(CollectorRegistry(), labels=("app",))
    counts = []
    for app in ("plain", value):
        result = scored(1, 3, labels={"app": app})
        metrics.observe_result(result.model_copy(update={"cost_usd": 0.1}))
        counts.append(len(expose(metrics.registry, kind).split(b"\n")))
    assert counts[1] - counts[0] == sum(LABELS in spec.labels for spec in CATALOGUE)


def test_event_label_names_become_legal_and_distinct() -> None:
    """Names that clash with a label beside them or start with a digit get a prefix; others are free."""
    names = ("prompt-version", "metric", "3d", "status", "reason", "score", "le", "quantile", "fingerprint")
    assert list(label_names(names).values()) == ["prompt_version", *(f"event_{name}" for name in names[1:])]
    free = ("model", "kind", "endpoint", "outcome", "topic", "partition")
    assert label_names(free) == {name: name for name in free}
    with pytest.raises(ValueError, match="drop one"):
        label_names(("a-b", "a_b"))
