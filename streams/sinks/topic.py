"""Verdicts as OTLP log events on a topic, which a Collector's Kafka receiver forwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streams.errors import TooLargeError
from streams.kafka.output import Output
from streams.sinks.delivery import RefusedError
from streams.sinks.evaluation import Evaluation
from streams.sinks.otlp import log_request

CONTENT_TYPE: Final = (("content-type", b"application/x-protobuf"),)


class TopicSink:
    """Writes one request per verdict, keyed by trace id as in the Collector's exporter.

    Args:
        on_outcome: Receives the outcome (delivered or refused) and the number of verdicts.
    """

    def __init__(
        self, name: str, output: Output, *, topic: str, version: str, on_outcome: Callable[[str, int], None]
    ) -> None:
        self.name = name
        self._output = output
        self._topic = topic
        self._version = version
        self._on_outcome = on_outcome

    async def put(self, one: Evaluation) -> None:
        """Write a verdict; return when the broker has acknowledged it.

        Raises:
            RefusedError: It is too large for the topic.
        """
        key = None if one.result.trace_id is None else one.result.trace_id.encode()
        value = log_request([one], version=self._version)
        try:
            await self._output.write(self._topic, key=key, value=value, headers=CONTENT_TYPE)
        except TooLargeError as error:
            self._on_outcome("refused", 1)
            raise RefusedError(str(error)) from error
        self._on_outcome("delivered", 1)
