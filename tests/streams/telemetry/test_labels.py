from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from streams.telemetry.catalogue import CATALOGUE, LABELS
from streams.telemetry.exposition import OPENMETRICS, TEXT, expose
from streams.telemetry.instruments import Metrics
from streams.telemetry.labels import BoundedLabels, label_names
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


@given(st.lists(st.sampled_from("abcdefgh"), max_size=400), st.integers(1, 4))
def test_no_more_values_are_shown_than_have_a_place(values: list[str], limit: int) -> None:
    """However often values give way, those shown at a time are bounded, and each has a name of its own."""
    shown: set[str] = set()
    bounded = BoundedLabels(("app",), limit, forget=lambda _, gone: shown.remove(gone))
    for value in values:
        (given,) = bounded.values({"app": value})
        assert given in {value, "other"}
        shown |= {given} - {"other"}
        assert len(shown) <= limit


@pytest.mark.parametrize("value", ['x"} 1\nevil 2', "back\\slash", "\x00\x1b[31m", "a\u2028b", "é" * 200])
@pytest.mark.parametrize("kind", [TEXT, OPENMETRICS])
def test_hostile_label_values_stay_values(value: str, kind: str) -> None:
    """Any label value adds one series to each metric with labels."""
    metrics = Metrics(CollectorRegistry(), labels=("app",))
    counts = []
    for app in ("plain", value):
        metrics.observe_result(scored(1, 3, labels={"app": app}))
        counts.append(len(expose(metrics.registry, kind).split(b"\n")))
    assert counts[1] - counts[0] == sum(LABELS in spec.labels for spec in CATALOGUE)


def test_ten_thousand_hostile_values_cost_what_a_few_cost() -> None:
    """Above the limit further values add neither series nor memory.

    20 values and "other" for app, three for tenant: at most 21 * 3 = 63 combinations of one score.
    """
    metrics = Metrics(CollectorRegistry(), labels=("app", "tenant"), max_label_values=20)

    def flood(start: int, count: int) -> None:
        for number in range(start, start + count):
            app = f'app-{number}\n\x1b"{{}}' + "x" * (number % 100)
            metrics.observe_result(scored(1, 3, labels={"app": app, "tenant": f"t{number % 3}"}))

    flood(0, 500)
    before = expose(metrics.registry, TEXT).count(b"\n")
    tracemalloc.start()
    try:
        flood(500, 9_500)
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    after = expose(metrics.registry, TEXT)
    assert after.count(b"\n") == before
    assert after.count(b"\njudgestream_scores_total{") <= 63
    assert grown < 200_000


def test_event_label_names_become_legal_and_distinct() -> None:
    """Names that clash with a label beside them or start with a digit get a prefix; others are free."""
    names = ("prompt-version", "metric", "3d", "status", "reason", "score", "le", "quantile", "fingerprint")
    assert list(label_names(names).values()) == ["prompt_version", *(f"event_{name}" for name in names[1:])]
    free = ("model", "kind", "endpoint", "outcome", "topic", "partition")
    assert label_names(free) == {name: name for name in free}
    with pytest.raises(ValueError, match="drop one"):
        label_names(("a-b", "a_b"))
