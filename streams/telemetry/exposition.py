"""Writes the response of /metrics, in Prometheus' text format or in OpenMetrics.

The output equals the Prometheus client's, with two differences. Label sets are rendered once and cached: they
are most of the text. And there are no `_created` series, which Prometheus does not use.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample
from prometheus_client.utils import floatToGoString

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_TEXT_TYPES: Final = {
    "unknown": "untyped",
    "info": "gauge",
    "stateset": "gauge",
    "gaugehistogram": "histogram",
}
_COUNTED: Final = {"counter", "histogram"}
_TEXT_SUFFIXES: Final = {"counter": "_total", "info": "_info"}


def content_type(accept: str) -> str:
    """Return the response format: OpenMetrics if the client accepts it, else text.

    Args:
        accept: The header Accept; empty if missing.
    """
    offers = (part.partition(";")[0].strip() for part in accept.split(","))
    return OPENMETRICS if "application/openmetrics-text" in offers else TEXT


def expose(registry: CollectorRegistry, kind: str, shown: set[tuple[object, ...]] | None = None) -> bytes:
    """Write all metrics down.

    Prometheus' `increase` does not see a new counter's first value, which for rare label values loses up to
    half. So a new series is exposed as 0 in its first scrape.

    Args:
        kind: `TEXT` or `OPENMETRICS`; only the latter has exemplars.
        shown: The series of counters and histograms exposed before, which is updated; None exposes all values
            as they are.
    """
    rich = kind == OPENMETRICS
    lines: list[str] = []
    for family in registry.collect():
        lines.extend(_head(family, rich=rich))
        created = family.name + "_created"
        samples = (sample for sample in family.samples if sample.name != created)
        if shown is not None and family.type in _COUNTED:
            samples = (_at_first(sample, shown) for sample in samples)
        lines.extend(_line(sample, rich=rich) for sample in samples)
    if rich:
        lines.append("# EOF\n")
    return "".join(lines).encode()


def _at_first(sample: Sample, shown: set[tuple[object, ...]]) -> Sample:
    key = (sample.name, *sample.labels.values())
    if key in shown:
        return sample
    shown.add(key)
    return Sample(sample.name, sample.labels, 0.0)


def _head(family: Metric, *, rich: bool) -> Iterator[str]:
    if rich:
        yield f"# HELP {family.name} {_escaped(family.documentation)}\n"
        yield f"# TYPE {family.name} {family.type}\n"
        return
    name = family.name + _TEXT_SUFFIXES.get(family.type, "")
    help_text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {name} {help_text}\n"
    yield f"# TYPE {name} {_TEXT_TYPES.get(family.type, family.type)}\n"


def _line(sample: Sample, *, rich: bool) -> str:
    labels = _labels(tuple(sample.labels.items())) if sample.labels else ""
    example = _exemplar(sample.exemplar) if rich and sample.exemplar is not None else ""
    return f"{sample.name}{labels} {_number(sample.value)}{example}\n"


def _number(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call] # untyped in the library


@lru_cache(maxsize=20_000)
def _labels(pairs: tuple[tuple[str, str], ...]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(pairs)) + "}"


def _exemplar(exemplar: Exemplar) -> str:
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(exemplar.labels.items()))
    at = "" if exemplar.timestamp is None else f" {exemplar.timestamp}"
    return f" # {{{labels}}} {_number(exemplar.value)}{at}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
