"""A process of its own for code that may run forever, hold too much memory or end the process.

It takes one call at a time, starts with the first and is killed when a call's time is over. A thread waits
for it. It has the import path of this process, and no more of the environment than an interpreter needs.
"""

from __future__ import annotations

import asyncio
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from judge.errors import EventError, InvalidVerdictError

_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0
_HEAD_BYTES: Final = 8
# What an interpreter needs to start; the rest of the environment, secrets among it, is no business of the
# child's.
_ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "PYTHONHOME", "SYSTEMROOT")
_SERVE: Final = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from judge.verdict.processes.child import serve; serve(*map(int, sys.argv[1:3]))"
)


class ChildLateError(Exception):
    """A call took longer than its bound, and its process was killed."""


class ChildFullError(Exception):
    """A call needed more memory than its process may hold."""


class ChildEndedError(Exception):
    """The process ended during a call; the text says how."""


class UnknownCallError(Exception):
    """What is to be called, or what it is given, can be found in this process alone."""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Bounds of a process.

    Args:
        memory_bytes: Data that it may hold.
        kept_bytes: One that has held more ends after the call, so that what it does not give back does not
            stay.
        niceness: By how much its priority is below this process's, 0 to 19.
        first: Called when the process has started, within a bound of 60 s. What it raises is for the calls
            to find out.
    """

    memory_bytes: int
    kept_bytes: int
    niceness: int = 0
    first: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class _Process:
    process: subprocess.Popen[bytes]
    requests: IO[bytes]
    answers: IO[bytes]


class Child:
    """One child process.

    Args:
        limits: Its bounds.
        name: Names the thread that waits for it.
    """

    def __init__(self, limits: ChildLimits, *, name: str) -> None:
        self._limits = limits
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._process: _Process | None = None
        self._lock = threading.Lock()
        self._closed = False

    async def call(self, seconds: float, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function in the process. What it is, is given and gives must be fit to be pickled.

        Args:
            seconds: Bound on the call, above 0; waiting for earlier calls does not count.
            function: What is called.
            *args: For the function.
            **kwargs: For the function.

        Raises:
            ChildLateError: It took longer.
            ChildFullError: It needed more memory than the process may hold.
            ChildEndedError: It ended the process.
            UnknownCallError: It cannot be sent there.
            EventError: It raised one.
            RuntimeError: It raised something else; its type and text.
        """
        loop = asyncio.get_running_loop()
        try:
            job = await loop.run_in_executor(self._thread, _pickled, (function, args, kwargs))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UnknownCallError(str(error)) from error
        return _value(await loop.run_in_executor(self._thread, self._exchange, job, seconds))

    def close(self) -> None:
        """End the process."""
        self._closed = True
        self._stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _exchange(self, job: bytes, seconds: float) -> tuple[Any, ...]:
        """Send a job and wait for its answer; a process that does not give one in time is replaced."""
        try:
            child = self._started()
        except (OSError, EOFError, TimeoutError):
            return "ended", f"its process did not start: ended{self._stop(patiently=True)}"
        try:
            *answer, held = _asked(child, job, time.monotonic() + seconds)
        except TimeoutError:
            self._stop()
            return "late", seconds
        except (OSError, EOFError):
            return "ended", f"its process ended{self._stop(patiently=True)}"
        if held >= self._limits.kept_bytes:
            self._stop()
        return tuple(answer)

    def _started(self) -> _Process:
        with self._lock:
            if self._process is not None and self._process.process.poll() is None:
                return self._process
            if self._closed:
                raise EOFError
            child = self._process = _start(self._limits)
        ready_at = time.monotonic() + _START_SECONDS
        _read(child.answers, ready_at)
        if self._limits.first is not None:
            _asked(child, _pickled((_ignored, (self._limits.first,), {})), ready_at)
        return child

    def _stop(self, *, patiently: bool = False) -> str:
        """End the process; say how it ended where it did so by itself."""
        with self._lock:
            child, self._process = self._process, None
        if child is None:
            return ""
        if patiently:  # a closed pipe says that it is about to end
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(_END_SECONDS)
        code = child.process.poll()
        if code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.process.pid, signal.SIGKILL)
        child.process.kill()
        child.process.communicate()
        return (
            " by us" if code is None else f" with signal {-code}" if code < 0 else f" with exit code {code}"
        )


def _start(limits: ChildLimits) -> _Process:
    process = subprocess.Popen(  # noqa: S603 - this interpreter, and nothing from outside
        [sys.executable, "-c", _SERVE, str(limits.memory_bytes), str(limits.niceness), *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        bufsize=0,
        start_new_session=True,  # so that it ends with all that it has started
    )
    if process.stdin is None or process.stdout is None:  # it has both, as asked for
        raise EOFError
    os.set_blocking(process.stdin.fileno(), False)
    return _Process(process, process.stdin, process.stdout)


def _ignored(function: Callable[[], object]) -> None:
    """Call a function whose value need not be fit to be pickled."""
    function()


def _value(answer: tuple[Any, ...]) -> Any:
    match answer:
        case ("value", value):
            return value
        case ("late", seconds):
            raise ChildLateError(f"took longer than {seconds:g} s")
        case ("full",):
            raise ChildFullError
        case ("ended", how):
            raise ChildEndedError(how)
        case ("unknown",):
            raise UnknownCallError
        case ("invalid", detail):
            raise InvalidVerdictError(detail)
        case ("event", error_type, detail):
            raise EventError(error_type, detail)
        case _:
            raise RuntimeError(": ".join(map(str, answer[1:])))


def _pickled(job: object) -> bytes:
    return pickle.dumps(job, pickle.HIGHEST_PROTOCOL)


def _asked(child: _Process, job: bytes, ending: float) -> tuple[Any, ...]:
    _write(child.requests, job, ending)
    answer: tuple[Any, ...] = pickle.loads(_read(child.answers, ending))  # noqa: S301 - of our own child
    return answer


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


_loaded_bytes = 0
"""What this process holds since `load_and_keep`, which no bound counts."""


def load_and_keep(function: Callable[[], object]) -> None:
    """Call a function whose memory stays, such as a language model's: the bounds are for what comes after."""
    global _loaded_bytes  # noqa: PLW0603 - of this process
    before = _data_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    function()
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_DATA, (soft + max(_data_bytes() - before, 0), hard))
    _loaded_bytes = _held_bytes()


def _data_bytes() -> int:
    """What counts against the bound on data; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


def _held_bytes() -> int:
    """The most that this process has held. Its `ru_maxrss` begins with what the parent held."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def serve(memory_bytes: int, niceness: int) -> None:
    """Be the child: answer calls from standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the terminal's word to the parent
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What a function prints must not get between the answers, nor read the requests.
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    own = os.getpid()
    from judge.metrics import registry  # noqa: F401, PLC0415 - imported now, so that no call pays for it

    os.nice(niceness)
    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard))
    _send(answers, b"")
    while head := requests.read(_HEAD_BYTES):
        answer = _answered(requests.read(int.from_bytes(head, "big")))
        if os.getpid() != own:
            os._exit(0)  # a process that the function has forked: the answer is its parent's to give
        _send(answers, answer)


def _send(answers: IO[bytes], data: bytes) -> None:
    answers.write(len(data).to_bytes(_HEAD_BYTES, "big") + data)
    answers.flush()


def _answered(data: bytes) -> bytes:
    try:
        answer = _called(data)
        return _pickled((*answer, _held_bytes() - _loaded_bytes))
    except MemoryError:
        return _pickled(("full", sys.maxsize))


def _called(data: bytes) -> tuple[Any, ...]:
    try:
        function, args, kwargs = pickle.loads(data)  # noqa: S301 - of our own parent
    except (AttributeError, ImportError):
        return ("unknown",)  # what only the parent's main program defines
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
        if isinstance(error.__cause__, MemoryError):  # orjson returns a value and an error: a SystemError
            return ("full",)
        return "error", type(error).__name__, str(error)[:2000]
