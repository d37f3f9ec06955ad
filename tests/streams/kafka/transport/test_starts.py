"""The log line about the start offsets of a new group."""

from __future__ import annotations

import io
import json

from aiokafka import TopicPartition

from streams.kafka.offsets import tell_starts
from streams.settings import TelemetrySettings
from streams.telemetry.logs import set_up_logs


def test_the_log_has_the_start_offsets_of_a_new_group() -> None:
    """At the default level the log has one line per configured topic with the setting and the offsets."""
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(), stream)
    places = {("qa.events", 0): 7, ("qa.events", 1): 9, ("x", 0): 0}
    offsets = {TopicPartition(*place): offset for place, offset in places.items()}
    tell_starts(offsets, offsets, {"qa.events": "latest"})
    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert told["event"] == "the group has no offsets on this topic and starts at kafka.start"
    assert (told["topic"], told["start"], told["offsets"]) == ("qa.events", "latest", {"0": 7, "1": 9})
