"""A child process for code that may not terminate, use too much memory or crash.

It starts with the first call, takes one call at a time, and is killed at a call's time limit. A thread waits
for it. It gets the import path of this process, and only the environment variables that an interpreter needs.
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
# Needed to start an interpreter; other variables, which may be secrets, are not passed on.
_ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "PYTHONHOME", "SYSTEMROOT")
_SERVE: Final = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from judge.verdict.processes.child import serve; serve(*map(int, sys.argv[1:3]))"
)


class ChildLateError(Exception):
    """A call exceeded its time limit; its process was killed."""


class ChildFullError(Exception):
    """A call exceeded the memory limit."""


class ChildEndedError(Exception):
    """The process ended during a call; the text names the exit code or signal."""


class UnknownCallError(Exception):
    """The function or its arguments exist only in this process."""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Limits of a child process.

    Args:
        memory_bytes: Limit of its data segment.
        kept_bytes: A process that has used more is ended after the call, to free its memory.
        niceness: Added to its niceness, 0 to 19.
        first: Called when the process has started, within 60 s. Its exceptions are ignored; later calls meet
            the cause.
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
        limits: Its limits.
        name: Name of the thread that waits for it.
    """

    def __init__(self, limits: ChildLimits, *, name: str) -> None:
        self._limits = limits
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._process: _Process | None = None
        self._lock = threading.Lock()
        self._closed = False

    async def call(self, seconds: float, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function in the process. It, its arguments and its result must be picklable.

        Args:
            seconds: Time limit of the call, above 0; waiting for earlier calls does not count.
            function: The function.
            *args: For the function.
            **kwargs: For the function.

        Raises:
            ChildLateError: It took longer.
            ChildFullError: It exceeded the memory limit.
            ChildEndedError: It ended the process.
            UnknownCallError: It cannot be pickled, or is unknown to the process.
            EventError: It raised one.
            RuntimeError: It raised another exception; contains its type and text.
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
        """Send a job and wait for its answer; a process that exceeds the time limit is replaced."""
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
        """End the process; return how it ended."""
        with self._lock:
            child, self._process = self._process, None
        if child is None:
            return ""
        if patiently:  # its pipe is closed, so it is about to end
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
    process = subprocess.Popen(  # noqa: S603 - only this interpreter and fixed arguments
        [sys.executable, "-c", _SERVE, str(limits.memory_bytes), str(limits.niceness), *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        bufsize=0,
        start_new_session=True,  # so that its own children can be killed with it
    )
    if process.stdin is None or process.stdout is None:  # never, with PIPE
        raise EOFError
    os.set_blocking(process.stdin.fileno(), False)
    return _Process(process, process.stdin, process.stdout)


def _ignored(function: Callable[[], object]) -> None:
    """Call a function and drop its result, which may not be picklable."""
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
"""Memory after `load_and_keep`, excluded from the limits."""


def load_and_keep(function: Callable[[], object]) -> None:
    """Call a function, such as one that loads a model, whose memory does not count against the limits."""
    global _loaded_bytes  # noqa: PLW0603 - of this process
    before = _data_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    function()
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_DATA, (soft + max(_data_bytes() - before, 0), hard))
    _loaded_bytes = _held_bytes()


def _data_bytes() -> int:
    """Return the size of the data segment; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


def _held_bytes() -> int:
    """Return the peak memory of this process; the fallback `ru_maxrss` includes the parent's."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def serve(memory_bytes: int, niceness: int) -> None:
    """Run the child: answer calls from standard input until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # A function must neither print into the answers nor read the requests.
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    own = os.getpid()
    from judge.metrics import registry  # noqa: F401, PLC0415 - imported now, to keep it out of call times

    os.nice(niceness)
    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard))
    _send(answers, b"")
    while head := requests.read(_HEAD_BYTES):
        answer = _answered(requests.read(int.from_bytes(head, "big")))
        if os.getpid() != own:
            os._exit(0)  # a fork made by the function; only its parent answers
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
        return ("unknown",)  # defined only in the parent's main program
    del data
    try:
        return "value", function(*args, **kwargs)
    except InvalidVerdictError as error:
        return "invalid", error.detail
    except EventError as error:
        return "event", error.error_type, error.detail
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - reported to the parent
        if isinstance(error.__cause__, MemoryError):  # orjson raises SystemError from it
            return ("full",)
        return "error", type(error).__name__, str(error)[:2000]
