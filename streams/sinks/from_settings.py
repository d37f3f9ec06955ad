"""The sinks, built from the settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from streams.errors import SettingsError
from streams.kafka.output import Output
from streams.settings import Settings, SinkSettings, resolve_secret
from streams.sinks.delivery import Delivery, Http
from streams.sinks.receivers import Langfuse, Mlflow, OtlpHttp, Phoenix, Receiver, Webhook
from streams.sinks.topic import TopicSink


def build_sinks(
    settings: Settings,
    output: Output,
    *,
    version: str,
    env: Mapping[str, str],
    on_outcome: Callable[[str, str, int], None],
) -> list[Delivery | TopicSink]:
    """Build every sink of the settings.

    Args:
        settings: The settings.
        output: The way to topics.
        version: Of judgestream.
        env: Environment variables.
        on_outcome: Told of a sink, by name, what became of how many verdicts.

    Raises:
        SettingsError: There is no sink, or a secret is not where the settings say.
    """
    if not settings.sinks:
        raise SettingsError(
            ["sinks: names no receiver, and the agent sink has nothing to do; add one or leave it out"]
        )
    built: list[Delivery | TopicSink] = []
    for name, sink in settings.sinks.items():
        told = partial(on_outcome, name)
        if sink.kind == "otlp_topic":
            topic = settings.topics.evaluations
            built.append(TopicSink(name, output, topic=topic, version=version, on_outcome=told))
            continue
        receiver = _receiver(name, sink, version, env)
        call = Http(sink.url or "", sink.timeout_seconds)
        built.append(
            Delivery(
                name,
                receiver,
                call,
                batch=sink.batch,
                linger_seconds=sink.linger_seconds,
                on_outcome=told,
            )
        )
    return built


def _receiver(name: str, sink: SinkSettings, version: str, env: Mapping[str, str]) -> Receiver:
    found = resolve_secret(f"sinks.{name}.secret", env_name=sink.secret_env, file=sink.secret_file, env=env)
    secret = None if found is None else found.get_secret_value()
    receivers: Mapping[str, Callable[[], Receiver]] = {
        "otlp_http": lambda: OtlpHttp(version, secret),
        "langfuse": lambda: Langfuse(sink.public_key or "", secret or ""),
        "phoenix": lambda: Phoenix(secret),
        "mlflow": lambda: Mlflow(secret),
        "webhook": lambda: Webhook(secret or "", time.time),
    }
    return receivers[sink.kind]()
