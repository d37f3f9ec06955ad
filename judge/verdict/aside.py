"""Reading long texts in a process of its own, with a bound on time and memory.

A loop in Python or in an expression holds the interpreter's lock or the event loop while it runs: heartbeats
stop, and the worker is thrown out of its group. What is short is read at once, for that takes milliseconds
whatever it holds. The rest is read by a child process, which is killed when its time is over. It starts with
the first long text and ends with this process.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import IO, Any, Final, ParamSpec, TypeVar

from judge.errors import EventError, InvalidVerdictError

INLINE_BYTES: Final = 16_000
"""Texts whose size together (`judge.task.reading_size`) is no more are read at once."""
DEFAULT_SECONDS: Final = 10.0
MAX_MEMORY_BYTES: Final = 160 * 1024 * 1024
"""Of data that the child may hold; a text that needs more fails alone."""
KEPT_BYTES: Final = 80 * 1024 * 1024
"""A child that has held more ends, so that what it does not give back does not stay."""
_START_SECONDS: Final = 60.0
_HEAD_BYTES: Final = 8
# What an interpreter needs to start; the rest of the environment, secrets among it, is no business of the
# child's.
_ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "PYTHONHOME", "SYSTEMROOT")
_SERVE: Final = "import sys; sys.path[:] = sys.argv[1:]; from judge.verdict.aside import serve; serve()"

P = ParamSpec("P")
T = TypeVar("T")


async def read(
    size: int, seconds: float, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function that reads foreign texts: at once where they are short, else aside.

    Args:
        size: How much there is to read (`judge.task.reading_size`).
        seconds: Bound on the time in the child; above 0.
        function: What reads; what it is, is given and gives must be fit to be pickled. Where it is not, a
            thread runs it, which the bound leaves behind and does not end.
        *args: For the function.
        **kwargs: For the function.

    Raises:
        EventError: `verification_timeout`: time or memory did not suffice; or what the function raises.
        RuntimeError: The function raised something else; its type and text.
    """
    if size <= INLINE_BYTES:
        return function(*args, **kwargs)
    return await _shared().call(seconds, function, *args, **kwargs)


@cache
def _shared() -> Aside:
    aside = Aside()
    atexit.register(aside.close)
    return aside


@dataclass(frozen=True, slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    requests: IO[bytes]
    answers: IO[bytes]


class Aside:
    """One child process, one call at a time."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside")
        self._spare = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside-unpickled")
        self._child: _Child | None = None
        self._lock = threading.Lock()

    async def call(self, seconds: float, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call a function in the child; see `read`."""
        loop = asyncio.get_running_loop()
        try:
            job = await loop.run_in_executor(self._thread, _pickled, (function, args, kwargs))
        except (pickle.PicklingError, AttributeError, TypeError):
            return await self._beside(seconds, function, args, kwargs)
        answer = await loop.run_in_executor(self._thread, self._exchange, job, seconds)
        match answer:
            case ("value", value):
                return value  # type: ignore[no-any-return]  # what the function gave
            case ("unknown", _):
                return await self._beside(seconds, function, args, kwargs)
            case _:
                raise _error(*answer)

    def close(self) -> None:
        """End the child."""
        self._stop()
        for pool in (self._thread, self._spare):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _beside(
        self, seconds: float, function: Callable[..., T], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> T:
        """Call a function that cannot be sent to the child in a thread of this process."""
        running = asyncio.get_running_loop().run_in_executor(self._spare, lambda: function(*args, **kwargs))
        try:
            return await asyncio.wait_for(asyncio.shield(running), seconds)
        except TimeoutError:
            self._spare = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside-unpickled")
            raise _too_long(seconds) from None

    def _exchange(self, job: bytes, seconds: float) -> tuple[Any, ...]:
        """Send a job and wait for its answer; a child that does not give one in time is replaced."""
        try:
            child = self._started()
            ending = time.monotonic() + seconds
            _write(child.requests, job, ending)
            answer: tuple[Any, ...] = pickle.loads(_read(child.answers, ending))  # noqa: S301 - of our own child
        except TimeoutError:
            self._stop()
            return "late", seconds
        except (OSError, EOFError):
            self._stop()
            return "memory", MAX_MEMORY_BYTES
        *answer_parts, stays = answer
        if not stays:
            self._stop()
        return tuple(answer_parts)

    def _started(self) -> _Child:
        with self._lock:
            if self._child is None or self._child.process.poll() is not None:
                self._child = _start()
            return self._child

    def _stop(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.process.kill()
            child.process.communicate()


def _start() -> _Child:
    process = subprocess.Popen(  # noqa: S603 - this interpreter, and nothing from outside
        [sys.executable, "-c", _SERVE, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        bufsize=0,
    )
    if process.stdin is None or process.stdout is None:  # it has both, as asked for
        raise EOFError
    os.set_blocking(process.stdin.fileno(), False)
    _read(process.stdout, time.monotonic() + _START_SECONDS)
    return _Child(process, process.stdin, process.stdout)


def _error(kind: str, *says: Any) -> Exception:
    match kind:
        case "late":
            return _too_long(says[0])
        case "memory":
            held = MAX_MEMORY_BYTES // (1024 * 1024)
            return EventError(
                "verification_timeout",
                (
                    f"its texts need more than the {held} MiB in which they may be read; shorten them "
                    "or lower judge.max_context_chars"
                ),
            )
        case "invalid":
            return InvalidVerdictError(*says)
        case "event":
            return EventError(*says)
        case _:
            return RuntimeError(f"{says[0]}: {says[1]}")


def _too_long(seconds: float) -> EventError:
    return EventError(
        "verification_timeout",
        (
            f"reading its texts took longer than {seconds:g} s (judge.verification_seconds); shorten "
            "them or raise the bound"
        ),
    )


def _pickled(job: object) -> bytes:
    return pickle.dumps(job, pickle.HIGHEST_PROTOCOL)


def _write(pipe: IO[bytes], data: bytes, ending: float) -> None:
    left = memoryview(len(data).to_bytes(_HEAD_BYTES, "big") + data)
    while left:
        _wait([], [pipe], ending)
        left = left[os.write(pipe.fileno(), left[: 1 << 16]) :]


def _read(pipe: IO[bytes], ending: float) -> bytes:
    size = int.from_bytes(_read_bytes(pipe, _HEAD_BYTES, ending), "big")
    return _read_bytes(pipe, size, ending)


def _read_bytes(pipe: IO[bytes], size: int, ending: float) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        _wait([pipe], [], ending)
        part = os.read(pipe.fileno(), min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _wait(readable: list[IO[bytes]], writable: list[IO[bytes]], ending: float) -> None:
    left = ending - time.monotonic()
    if left <= 0 or not any(select.select(readable, writable, [], left)):
        raise TimeoutError


def serve() -> None:
    """Be the child: answer calls from standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the terminal's word to the parent
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What a function prints must not get between the answers.
    os.dup2(2, 1)
    from judge.metrics import registry  # noqa: F401, PLC0415 - imported now, so that no call pays for it

    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, hard))
    _send(answers, b"")
    while head := requests.read(_HEAD_BYTES):
        _send(answers, _answered(requests.read(int.from_bytes(head, "big"))))


def _send(answers: IO[bytes], data: bytes) -> None:
    answers.write(len(data).to_bytes(_HEAD_BYTES, "big") + data)
    answers.flush()


def _answered(data: bytes) -> bytes:
    try:
        answer = _called(data)
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return _pickled((*answer, held < KEPT_BYTES))
    except MemoryError:
        return _pickled(("memory", None, False))


def _called(data: bytes) -> tuple[Any, ...]:
    try:
        function, args, kwargs = pickle.loads(data)  # noqa: S301 - of our own parent
    except (AttributeError, ImportError):
        return "unknown", None  # what only the parent's main program defines
    del data
    try:
        return "value", function(*args, **kwargs)
    except InvalidVerdictError as error:
        return "invalid", error.detail
    except EventError as error:
        return "event", error.error_type, error.detail
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the parent makes a failure of it
        return "error", type(error).__name__, str(error)[:2000]
