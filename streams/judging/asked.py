"""Select the endpoints of a metric: those of the settings, or the same with the metric's own model. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import product

from streams.settings import EndpointSettings, MetricSettings


def with_own_models(
    endpoints: Sequence[EndpointSettings], metrics: Iterable[MetricSettings]
) -> tuple[EndpointSettings, ...]:
    """Return the endpoints, with one added for each model that a metric sets instead of an endpoint's own.

    It has the address, key and limits of its endpoint, but its own breaker and its model's published price.

    Args:
        endpoints: The endpoints of the settings.
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
                update["parameters"] = {}  # the endpoint's parameters are for sampling
            own = endpoint.model_copy(update=update)
            found.setdefault(own.name, own)
    return tuple(found.values())


def _asks(metric: MetricSettings, endpoint: EndpointSettings, endpoints: Sequence[EndpointSettings]) -> bool:
    if metric.panel is not None and not metric.asked:
        return endpoint is endpoints[0]
    return not metric.asked or endpoint.name in metric.asked


def voters(metric: MetricSettings, endpoints: Sequence[EndpointSettings]) -> tuple[EndpointSettings, ...]:
    """Return the endpoint of each call for one answer: the first one, or a panel's, repeated per sample."""
    if metric.is_code:
        return ()
    known = {one.name: one for one in endpoints}
    asked = [known[name] for name in asked_by(metric, [(one.name, one.model) for one in endpoints])]
    return tuple(asked[:1] if metric.panel is None else asked * metric.panel.samples)


def asked_by(metric: MetricSettings, endpoints: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names of a metric's endpoints, in order of preference.

    Args:
        metric: Its settings.
        endpoints: Name and model of every endpoint in order, including those of `with_own_models`.
    """
    # Names in the settings have no slash.
    models = {name: model for name, model in endpoints if "/" not in name}
    names = metric.asked or tuple(models)
    if metric.panel is not None and not metric.asked:
        names = names[:1]
    return tuple(
        name if model in (None, models.get(name)) else f"{name}/{model}"
        for name, model in product(names, metric.models)
    )
