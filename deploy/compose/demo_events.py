"""Prints the demo's made-up events, one a line, without an end: `demo_events.py EVENTS_PER_SECOND`."""  # noqa: INP001 - a script, mounted beside its shell script

from __future__ import annotations

import sys
import time

from streams.demo.events import Cycle, endless_records, load_questions

CYCLE = Cycle(good_seconds=1200, worse_seconds=1200, recovered_seconds=2400)
"""Longer than in `judgestream demo`: Prometheus looks at minutes and hours."""


def main(events_per_second: float) -> None:
    """Print at a steady rate, so that an event's time is the time at which it is sent."""
    started = time.monotonic()
    records = endless_records(load_questions(), CYCLE, lambda: time.monotonic() - started)
    for number, record in enumerate(records):
        time.sleep(max(started + number / events_per_second - time.monotonic(), 0.0))
        sys.stdout.buffer.write(record.value + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))
