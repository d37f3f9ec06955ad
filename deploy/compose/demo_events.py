"""Prints the demo's made-up events, one a line, without an end: `demo_events.py EVENTS_PER_SECOND`."""  # noqa: INP001 - a script, mounted beside its shell script

from __future__ import annotations

import sys
import time

from streams.demo.events import own_records

SLOWER = 30
"""Quality falls and recovers so many times slower than in `judgestream demo`: Prometheus looks at hours."""


def main(events_per_second: float) -> None:
    """Print at a steady rate, so that an event's time is the time at which it is sent."""
    started = time.monotonic()
    for number, record in enumerate(own_records(None, SLOWER)):
        time.sleep(max(started + number / events_per_second - time.monotonic(), 0.0))
        sys.stdout.buffer.write(record.value + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))
