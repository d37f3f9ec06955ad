from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    ProcessCollector,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from streams.telemetry.exposition import OPENMETRICS, TEXT, content_type, expose

_TRACE = "0af7651916cd43dd8448eb211c80319c"


def _registry(value: str, amount: float, help_text: str = "Help.") -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("c_total", help_text, ["app", "b"], registry=registry).labels(value, "").inc(
        amount, {"trace_id": _TRACE}
    )
    Gauge("g", "A gauge.", registry=registry).set(-amount)
    Histogram("h", "A histogram.", ["app"], registry=registry, buckets=(1, 5)).labels(value).observe(
        amount, {"trace_id": _TRACE}
    )
    Info("i", "An info.", registry=registry).info({"version": value})
    return registry


def _samples(families: object) -> list[Sample]:
    return [
        sample
        for family in families  # type: ignore[attr-defined] # the parsers are not annotated
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]


@given(
    value=st.text(st.characters(codec="utf-8"), max_size=60), amount=st.floats(min_value=0, allow_nan=False)
)
def test_says_what_the_client_says(value: str, amount: float) -> None:
    """Both formats have the samples of the client library's formats, for any label value."""
    registry = _registry(value, amount)
    ours, theirs = expose(registry, TEXT).decode(), generate_latest(registry).decode()
    assert _samples(parse_text(ours)) == _samples(parse_text(theirs))
    ours, theirs = expose(registry, OPENMETRICS).decode(), generate_openmetrics(registry).decode()  # type: ignore[no-untyped-call] # not annotated
    assert _samples(parse_openmetrics(ours)) == _samples(parse_openmetrics(theirs))  # type: ignore[no-untyped-call] # not annotated


@pytest.mark.parametrize("kind", [TEXT, OPENMETRICS])
def test_the_text_equals_the_clients_without_created(kind: str) -> None:
    """The text equals the client library's, except for `_created` series and process values."""
    registry = _registry("plain", 2.0, 'Help with "quotes", \\ and\nlines.')
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    theirs = generate_latest(registry) if kind == TEXT else generate_openmetrics(registry)  # type: ignore[no-untyped-call] # not annotated
    moving = ("process_", "python_gc", "_created")

    def still(text: bytes) -> list[str]:
        return [line for line in text.decode().splitlines() if not any(name in line for name in moving)]

    assert still(expose(registry, kind)) == still(theirs)
    assert b"_created" not in expose(registry, kind)
    assert b"process_" in expose(registry, kind)


def test_exemplars_are_for_openmetrics_alone() -> None:
    """Exemplars are in OpenMetrics only."""
    registry = _registry("a", 2.0)
    line = f'c_total{{app="a",b=""}} 2.0 # {{trace_id="{_TRACE}"}} 2.0 '
    assert line.encode() in expose(registry, OPENMETRICS)
    assert b"trace_id" not in expose(registry, TEXT)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml", TEXT),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5",
            OPENMETRICS,
        ),
        ("text/plain;version=0.0.4", TEXT),
    ],
)
def test_the_accept_header_chooses_the_format(accept: str, kind: str) -> None:
    """OpenMetrics is sent if Accept names it, else the text format."""
    assert content_type(accept) == kind


def test_a_new_series_is_shown_as_0_once_so_that_increase_sees_its_first_step() -> None:
    """A new counter or histogram is 0 in its first scrape, so that increase() sees its first step."""
    registry = CollectorRegistry()
    counter = Counter("c_total", "C.", ["app"], registry=registry)
    seconds = Histogram("h", "H.", registry=registry, buckets=(1.0,))
    Gauge("g", "G.", registry=registry).set(7)
    counter.labels("a").inc(3)
    seconds.observe(0.5)
    shown: set[tuple[object, ...]] = set()
    first, second = (expose(registry, TEXT, shown).decode() for _ in range(2))
    assert 'c_total{app="a"} 0.0' in first
    assert "h_count 0.0" in first
    assert 'h_bucket{le="1.0"} 0.0' in first
    assert "g 7.0" in first
    assert 'c_total{app="a"} 3.0' in second
    assert "h_count 1.0" in second
    counter.labels("b").inc(5)
    third = expose(registry, TEXT, shown).decode()
    assert 'c_total{app="a"} 3.0' in third
    assert 'c_total{app="b"} 0.0' in third
    assert 'c_total{app="b"} 5.0' in expose(registry, TEXT).decode()
