"""Run the processing of untrusted texts, or a user's own code, in a child that is killed at its limit.

A long loop in this process would stop its heartbeats, and the consumer group would remove the worker.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from judge.errors import EventError, InvalidVerdictError
from judge.metric import READ_AT_ONCE, OwnProcess
from schemas import FailedType

DEFAULT_SECONDS: Final = 10.0
"""Default time limit of processing texts; a user's code metric has its own."""
QUICK_SECONDS: Final = 1.0
"""A text that takes longer is processed once more in a second child, where only such texts wait for each
other: three hostile texts held up an ordinary one for 27 s."""
MEMORY_BYTES: Final = 160 * 1024 * 1024
"""Memory limit of the child for texts; only the text that exceeds it fails."""
NICENESS: Final = 10
"""Low priority of a user's code, so that a process restarted at every call does not slow the worker."""
_MIB: Final = 1024 * 1024
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0
# Not multiprocessing's spawn: it would import the user's main program again.
_SERVE: Final = (
    "import sys; sys.path[:] = sys.argv[5:]; "
    "from judge.evaluate.limited import serve; serve(*map(int, sys.argv[1:5]))"
)

_OF_TEXTS: Final[tuple[FailedType, str]] = (
    "verification_timeout",
    "its texts could not be processed: {}; shorten them",
)
_OF_A_METRIC: Final[tuple[FailedType, str]] = ("metric_error", "{}; correct it, or raise its limit")

P = ParamSpec("P")
T = TypeVar("T")


class LateError(EventError):
    """The time limit was exceeded."""


class UnknownCallError(EventError):
    """The function or its arguments cannot be sent to another process."""


async def run_limited(
    size: int, seconds: float, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function over texts of a `reading_size`: inline if they are short, else in a shared child.

    What cannot be pickled is run by a thread, which is abandoned, not ended, at the time limit. EventError
    (`verification_timeout`) is a limit exceeded. From the child, an exception besides EventError is a
    RuntimeError; inline and in a thread it is raised as it is.
    """
    if size <= READ_AT_ONCE:
        return function(*args, **kwargs)
    # A child with a language model takes seconds to start again, so it is not ended early.
    quick = seconds if _kept_loaded[-1] else min(seconds, QUICK_SECONDS)
    try:
        try:
            value: T = await _shared("quick").call(quick, function, *args, **kwargs)
        except LateError:
            if quick == seconds:
                raise
            value = await _shared("slow").call(seconds, function, *args, **kwargs)
    except UnknownCallError:
        try:
            return await asyncio.wait_for(asyncio.to_thread(function, *args, **kwargs), seconds)
        except TimeoutError:
            raise EventError(
                _OF_TEXTS[0], _OF_TEXTS[1].format(f"it took longer than {seconds:g} s")
            ) from None
    return value


_kept_loaded: list[Callable[[], object] | None] = [None]


def keep_loaded(function: Callable[[], object]) -> None:
    """Make the shared child call a function when it starts; its memory does not count against the limit."""
    _kept_loaded[:] = [function]


@cache
def _shared(name: str) -> Child:
    child = Child(f"limited-{name}", MEMORY_BYTES, first=_kept_loaded[-1], counts_first=False)
    atexit.register(child.close)
    return child


class Child:
    """One child process for one call at a time; it starts with the first call, and again after a kill.

    Args:
        first: Called when it has started, within 60 s. Exceptions are ignored; later calls meet the cause.
        counts_first: Whether the memory of `first` counts against the limit.
    """

    def __init__(
        self,
        name: str,
        memory_bytes: int,
        niceness: int = 0,
        *,
        first: Callable[[], object] | None = None,
        counts_first: bool = True,
        failure: tuple[FailedType, str] = _OF_TEXTS,
    ) -> None:
        self._failure = failure
        self._arguments = (memory_bytes, niceness, int(counts_first))
        self._first = first
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection
        self._lock = threading.Lock()
        self._closed = False

    async def call(self, seconds: float, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function as `run_limited` does; waiting for earlier calls does not count as its time."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._exchange, seconds, (function, args, kwargs))

    def close(self) -> None:
        self._closed = True
        self._end()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _exchange(self, seconds: float, job: tuple[Any, ...]) -> Any:
        try:
            pickled = pickle.dumps(job, pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise self._unknown(error) from error
        try:
            connection = self._started()
        except (OSError, EOFError, TimeoutError):
            raise self._over(f"its process did not start: ended{self._end(patiently=True)}") from None
        is_late = threading.Event()

        def kill() -> None:
            is_late.set()
            self._end()

        killer = threading.Timer(seconds, kill)
        killer.start()  # sending may block as long as receiving
        try:
            connection.send_bytes(pickled)
            return self._value(*connection.recv())
        except (OSError, EOFError):
            if is_late.is_set():
                raise self._over(f"it took longer than {seconds:g} s", LateError) from None
            raise self._over(f"its process ended{self._end(patiently=True)}") from None
        finally:
            killer.cancel()

    def _value(self, error: type[Exception] | None, *answer: Any) -> Any:
        if error is MemoryError:
            raise self._over(f"it needed more than {self._arguments[0] // _MIB} MiB of memory")
        if error is ImportError:
            raise self._unknown("its process does not know it")
        if error is not None:
            raise error(*answer)
        return answer[0]

    def _over(self, reason: str, kind: type[EventError] = EventError) -> EventError:
        error_type, text = self._failure
        return kind(error_type, text.format(reason))

    def _unknown(self, reason: object) -> UnknownCallError:
        return UnknownCallError(self._failure[0], f"it cannot be sent to its process: {reason}")

    def _started(self) -> Connection:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._connection
            if self._closed:
                raise EOFError
            ours, its = socket.socketpair()
            with its:
                arguments = map(str, (its.fileno(), *self._arguments))
                self._process = subprocess.Popen(  # noqa: S603 - only this interpreter and fixed arguments
                    [sys.executable, "-c", _SERVE, *arguments, *sys.path],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(its.fileno(),),
                    start_new_session=True,  # so that its own children can be killed with it
                )
            connection = self._connection = Connection(ours.detach())
        connection.send(self._first)
        if not connection.poll(_START_SECONDS):
            raise TimeoutError
        connection.recv()
        return connection

    def _end(self, *, patiently: bool = False) -> str:
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return ""
            connection = self._connection
        if patiently:  # its connection is closed, so it is about to end
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
        code = process.poll()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # Shut down, not closed, as a thread may be writing to it; it is closed when nothing refers to it.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as own:
            own.shutdown(socket.SHUT_RDWR)
        if code is None:
            return " by us"
        return f" with signal {-code}" if code < 0 else f" with exit code {code}"


class MetricProcess(Child):
    def __init__(self, limits: OwnProcess, *, name: str) -> None:
        memory_bytes = limits.memory_mb * _MIB
        super().__init__(f"metric-{name}", memory_bytes, NICENESS, first=limits.first, failure=_OF_A_METRIC)
        self.seconds = limits.seconds


def serve(descriptor: int, memory_bytes: int, niceness: int, counts_first: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - the function's own
    connection, own = Connection(descriptor), os.getpid()
    from judge.metrics import registry  # noqa: F401, PLC0415 - imported now, to keep it out of call times

    os.nice(niceness)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if counts_first:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard))
    with contextlib.suppress(Exception):
        first = connection.recv()
        if first is not None:
            first()
    if not counts_first:
        own_bytes = _data_bytes()
        resource.setrlimit(resource.RLIMIT_DATA, (own_bytes + memory_bytes, hard))
    connection.send(None)
    with contextlib.suppress(EOFError):
        while True:
            answer = _answer(connection.recv_bytes())
            if os.getpid() != own:
                os._exit(0)  # a fork made by the function; only its parent answers
            connection.send_bytes(answer)


def _data_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


def _answer(job: bytes) -> bytes:
    """Return the value after None, or what to raise and its arguments."""
    answer: tuple[Any, ...]
    try:
        function, args, kwargs = pickle.loads(job)  # noqa: S301 - of our own parent
    except (AttributeError, ImportError):
        return pickle.dumps((ImportError,))  # defined only in the parent's main program
    try:
        return pickle.dumps((None, function(*args, **kwargs)), pickle.HIGHEST_PROTOCOL)
    except InvalidVerdictError as error:
        answer = InvalidVerdictError, error.detail
    except EventError as error:
        answer = EventError, error.error_type, error.detail
    except Exception as error:  # noqa: BLE001 - reported to the parent
        answer = RuntimeError, f"{type(error).__name__}: {str(error)[:2000]}"
        if isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError):
            answer = (MemoryError,)  # orjson raises SystemError from it
    return pickle.dumps(answer)
