"""Measure the time of a contestant. Only the standard library, because peers import it, too."""

from __future__ import annotations

import json
import time


class Pace:
    """Records wall-clock and CPU time at the first records, and prints both after the last one.

    Args:
        total: Number of records.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._first: tuple[int, float, float] | None = None
        self._line: str | None = None

    def seen(self, count: int, **more: object) -> bool:
        """Record how many are done; return whether these are all."""
        if self._first is None:
            if count:
                self._first = (count, time.perf_counter(), time.process_time())
            return False
        if count < self.total:
            return False
        if self._line is None:
            start, wall, cpu = self._first
            numbers = {
                "records": count - start,
                "seconds": time.perf_counter() - wall,
                "cpu_seconds": time.process_time() - cpu,
            }
            self._line = json.dumps({**numbers, **more})
        return True

    def tell(self) -> None:
        """Print the measurements."""
        print(self._line, flush=True)
