"""Messages about failing brokers, sinks and schema registry, for the health report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from judge.text.printable import printable
from streams.intake.reading.registry.unpacking import Unpacking
from streams.kafka.access.errors import explain
from streams.kafka.output import WriteTrouble
from streams.settings import Settings
from streams.sinks.delivery import Delivery
from streams.sinks.topic import TopicSink
from streams.telemetry.masking import settings_masker


def broker_trouble(
    settings: Settings,
    env: Mapping[str, str],
    sinks: Iterable[Delivery[Any] | TopicSink],
    refused: str | None,
    failing: WriteTrouble | None,
    registry: Unpacking | None = None,
) -> list[str]:
    """Return a message for each current failure; empty if there is none.

    Args:
        settings: The settings.
        env: Environment variables, with the secrets to mask.
        sinks: The sinks of verdicts.
        refused: Why the broker refuses new connections; None if it accepts them.
        failing: The topic that cannot be written; None if all writes succeed.
        registry: The schema registry; None without one.
    """
    found = [
        f"sink {sink.name} fails: {sink.trouble}"
        for sink in sinks
        if isinstance(sink, Delivery) and sink.trouble is not None
    ]
    if registry is not None and registry.client.trouble is not None:
        found.append(f"waiting for the schema registry: {registry.client.trouble}")
    if refused is not None:
        found.append(f"the broker refuses new connections: {refused}")
    if failing is not None:
        explanation = explain(failing.error, settings.kafka)
        why = repr(failing.error) if explanation is None else str(explanation)
        seconds = time.monotonic() - failing.since
        found.append(f"writing to {failing.topic} has failed for {seconds:.0f} s: {printable(why, 300)}")
    # Messages may quote the broker and are readable without a login. Secrets may have changed since start.
    return [settings_masker(settings, env).mask(one) for one in found]
