"""Takes the time of a contestant. Standard library only: peers with another environment import it too."""

from __future__ import annotations

import json
import time


class Pace:
    """Notes wall-clock and CPU time at the first records; tells both when the last one is done.

    Args:
        total: Records that there are.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._first: tuple[int, float, float] | None = None
        self._line: str | None = None

    def seen(self, count: int, **more: object) -> bool:
        """This many are done; gives whether these are all."""
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
        """Print what it took."""
        print(self._line, flush=True)
