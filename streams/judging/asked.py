"""Which endpoints a metric asks: those of the settings, or the same with a model of its own. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import product

from streams.settings import EndpointSettings, MetricSettings


def with_own_models(
    endpoints: Sequence[EndpointSettings], metrics: Iterable[MetricSettings]
) -> tuple[EndpointSettings, ...]:
    """Add an endpoint for each model that a metric asks for in place of an endpoint's own.

    It has the address, the key and the limits of its endpoint, and counts for itself: its own breaker, and
    the published price of its model.

    Args:
        endpoints: Those of the settings.
        metrics: The metrics' settings.
    """
    found = {one.name: one for one in endpoints}
    for metric in metrics:
        for endpoint, model in product(endpoints, metric.models):
            if model in (None, endpoint.model) or not _asks(metric, endpoint, endpoints):
                continue
            update: dict[str, object] = {"name": f"{endpoint.name}/{model}", "model": model}
            update |= {"usd_per_million_tokens": None, "context_tokens": None}
            if metric.embeds:
                update["parameters"] = {}  # those of the endpoint are for sampling
            own = endpoint.model_copy(update=update)
            found.setdefault(own.name, own)
    return tuple(found.values())


def _asks(metric: MetricSettings, endpoint: EndpointSettings, endpoints: Sequence[EndpointSettings]) -> bool:
    if metric.panel is not None and not metric.asked:
        return endpoint is endpoints[0]
    return not metric.asked or endpoint.name in metric.asked


def asked_by(metric: MetricSettings, endpoints: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """Name the endpoints that a metric asks, in order of preference.

    Args:
        metric: Its settings.
        endpoints: Name and model of each that there is, in order, those of `with_own_models` included.
    """
    # No name in the settings has a slash.
    models = {name: model for name, model in endpoints if "/" not in name}
    names = metric.asked or tuple(models)
    if metric.panel is not None and not metric.asked:
        names = names[:1]
    return tuple(
        name if model in (None, models.get(name)) else f"{name}/{model}"
        for name, model in product(names, metric.models)
    )
