"""Sound and broken metric functions."""

# ruff: noqa: ARG001 - a function may ignore its event
from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from decimal import Decimal

from judge import QAEvent, Score


def words(event: QAEvent) -> int:
    return len(event.answer.split())


async def polite(event: QAEvent) -> Score:
    await asyncio.sleep(0)
    is_polite = "please" in event.answer
    return Score("polite" if is_polite else "curt", reason=f"{event.event_id} from {event.labels.get('app')}")


def nothing(event: QAEvent) -> None: ...


def sleeps(event: QAEvent) -> float:
    time.sleep(3600)
    return 1.0


def raises(event: QAEvent) -> float:
    raise KeyError(event.event_id)


def exits(event: QAEvent) -> float:
    os._exit(7)


def leaves(event: QAEvent) -> float:
    sys.exit(3)


def eats(event: QAEvent) -> int:
    return len(bytearray(1 << 30))


def rubbish(event: QAEvent) -> object:
    return {"score": 5}


def process(event: QAEvent) -> int:
    return os.getpid()


def forks(event: QAEvent) -> int:
    return 0 if os.fork() == 0 else len(event.answer.split())


def starts(event: QAEvent) -> int:
    sys.stdin.read()
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]).pid


def speechless(event: QAEvent) -> float:
    class Speechless(Exception):  # noqa: N818 - a user's own
        def __str__(self) -> str:
            raise RuntimeError

    raise Speechless


def decimal(event: QAEvent) -> Decimal:
    return Decimal("0.25")
