"""Builds the sinks from the settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from streams.errors import SettingsError
from streams.kafka.output import Output
from streams.kafka.reader import TopicReader
from streams.settings import Settings, SinkSettings, read_secret
from streams.sinks.agent import SinkAgent
from streams.sinks.delivery import Delivery, Http
from streams.sinks.evaluation import Evaluation
from streams.sinks.incidents import IncidentAgent, IncidentWebhook, Notice
from streams.sinks.otlp import log_request, trace_request
from streams.sinks.receivers import Langfuse, Mlflow, OtlpHttp, Phoenix, Receiver, Webhook
from streams.sinks.topic import TopicSink

BATCH_RESULTS: Final = 100
LINGER_SECONDS: Final = 0.5
TIMEOUT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Sinks:
    """The parts of a worker with the agent `sink`."""

    ways: Sequence[Delivery[Any] | TopicSink]
    agents: Sequence[tuple[str, str, SinkAgent | IncidentAgent]]


def build_sinks(
    settings: Settings,
    output: Output,
    *,
    version: str,
    env: Mapping[str, str],
    on_outcome: Callable[[str, str, int], None],
) -> Sinks:
    """Build the sinks of the settings and their agents.

    Args:
        on_outcome: Receives a sink's name, an outcome and the number of verdicts.

    Raises:
        SettingsError: There is no sink, or a secret is missing.
    """
    if not settings.sinks:
        raise SettingsError(["sinks: has no receiver for the agent sink; add one or remove the agent"])
    verdicts: list[Delivery[Evaluation] | TopicSink] = []
    incidents: list[Delivery[Notice]] = []
    for name, sink in settings.sinks.items():
        told = partial(on_outcome, name)
        if sink.kind == "otlp_topic":
            topic = settings.topics.evaluations
            verdicts.append(TopicSink(name, output, topic=topic, version=version, on_outcome=told))
            continue
        call = Http(sink.url or "", TIMEOUT_SECONDS)
        if sink.kind == "incident_webhook":
            hook = IncidentWebhook(_secret(name, sink, env) or "", time.time)
            incidents.append(Delivery(name, hook, call, batch=1, linger_seconds=0, on_outcome=told))
            continue
        receiver = _receiver(name, sink, version, env)
        verdicts.append(
            Delivery(
                name,
                receiver,
                call,
                batch=BATCH_RESULTS,
                linger_seconds=LINGER_SECONDS,
                on_outcome=told,
            )
        )
    topics = settings.topics
    agents: list[tuple[str, str, SinkAgent | IncidentAgent]] = []
    if verdicts:
        agents.append((topics.scores, "sink", SinkAgent(verdicts, output)))
    if incidents:
        past, explorer = TopicReader(settings.kafka, env), settings.store.explorer_url
        told_of = IncidentAgent(
            incidents,
            output,
            past,
            topic=topics.alerts,
            scores=topics.scores,
            product_labels=settings.store.product_labels,
            explorer=explorer,
        )
        agents.append((topics.alerts, "incidents", told_of))
    return Sinks([*verdicts, *incidents], agents)


def _secret(name: str, sink: SinkSettings, env: Mapping[str, str]) -> str | None:
    found = read_secret(sink.secret, f"sinks.{name}.secret", env)
    return None if found is None else found.get_secret_value()


def _receiver(name: str, sink: SinkSettings, version: str, env: Mapping[str, str]) -> Receiver:
    secret = _secret(name, sink, env)
    receivers: Mapping[str, Callable[[], Receiver]] = {
        "otlp_http": lambda: OtlpHttp(partial(log_request, version=version), secret),
        "otlp_spans": lambda: OtlpHttp(partial(trace_request, version=version), secret),
        "langfuse": lambda: Langfuse(sink.public_key or "", secret or ""),
        "phoenix": lambda: Phoenix(secret),
        "mlflow": lambda: Mlflow(secret),
        "webhook": lambda: Webhook(secret or "", time.time),
    }
    return receivers[sink.kind]()
