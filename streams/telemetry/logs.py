"""Logging: one format for all lines, without secrets; repeated lines are held back."""

from __future__ import annotations

import io
import logging
import re
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, TextIO

import structlog

from judge.text.redaction import MIN_CHARS, Masker
from streams.settings.load import secrets_of
from streams.settings.outputs import TelemetrySettings
from streams.settings.tree import Settings

# Their info lines report each fetch, join and seek; our own lines report what matters.
_TALKATIVE = ["aiohttp", "aiokafka", "asyncio", "faust", "mode"]
_TALKATIVE += ["httpcore", "httpcore2", "httpx", "httpx2", "openai"]
# Faust logs start and stop of each service under the names of our subclasses.
_TALKATIVE += [f"streams.kafka.{name}" for name in ("app", "consumer", "consumer_thread", "producer")]
# At level debug these log whole requests and records, including logins and event texts.
_INDISCREET = ("aiokafka.conn", "aiokafka.producer.producer")

SHORT_SECRET: Final = (
    f"this secret is shorter than {MIN_CHARS} characters and is not redacted in logs; use a longer one, or "
    "remove the setting if none is needed"
)
EVERY_SECONDS: Final = 60.0
"""Interval at which a repeated message is logged."""
VARIANTS: Final = 20
"""Own lines with the same event and different fields that are logged per `EVERY_SECONDS`."""
MOST_MESSAGES: Final = 1_000
MAX_FRAMES: Final = 12
_VARYING: Final = re.compile(r"0x[0-9a-f]+|\d+")
_TEMPLATE_CHARS: Final = 200


def set_up_logs(
    telemetry: TelemetrySettings, stream: TextIO | None = None, *, masker: Masker | None = None
) -> None:
    """Send all log lines to one stream, standard error by default, as JSON or as text.

    Foreign text, such as judged text, is always a field's value; the masker redacts known secrets.
    """
    stream = sys.stderr if stream is None else stream
    as_text = telemetry.log_format == "text" or (telemetry.log_format == "auto" and stream.isatty())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    if as_text:
        # structlog's own tracebacks show variables, which may contain secrets and texts.
        console = structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=_traceback)
        last: list[structlog.types.Processor] = [_printable, console]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    if masker is not None:
        last.append(lambda _logger, _name, line: masker.mask(str(line)))
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(telemetry.log_level.upper())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.DEBUG if telemetry.log_level == "debug" else logging.WARNING)
    for name in _INDISCREET:
        logging.getLogger(name).setLevel(logging.INFO if telemetry.log_level == "debug" else logging.WARNING)


def _escaped(text: str) -> str:
    """Keep foreign text from forging lines or steering the terminal."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape", "surrogatepass").decode("ascii")
        for sign in text
    )


def _printable(_logger: Any, _name: str, fields: structlog.types.EventDict) -> structlog.types.EventDict:
    return {name: _escaped(value) if isinstance(value, str) else value for name, value in fields.items()}


def _traceback(target: TextIO, failure: structlog.types.ExcInfo) -> None:
    written = io.StringIO()
    structlog.dev.plain_traceback(written, failure)
    # Indented, so that no line of a message looks like a line of the log.
    target.write("\n".join(f"  {_escaped(line)}" for line in written.getvalue().split("\n")))


def settings_masker(settings: Settings, env: Mapping[str, str]) -> Masker:
    """Return a masker of all readable secrets, also for texts of others, such as a library's debug line."""
    named = [secret for _, secret in secrets_of(settings, env)]
    return Masker({*named, env.get("OPENAI_API_KEY", "").strip()})


def short_secrets(settings: Settings, env: Mapping[str, str]) -> list[str]:
    """Return the settings with a secret too short to redact, such as the key "none" of your own judge."""
    return [path for path, secret in secrets_of(settings, env) if 0 < len(secret) < MIN_CHARS]


def surprise(error: BaseException) -> str:
    """Return type and place of an unexpected error, without its message, which may quote foreign texts."""
    return f"internal error: {type(error).__name__} at {(where(error) or ['an unknown place'])[-1]}"


def where(error: BaseException) -> list[str]:
    """Return the innermost places of an error's traceback as "file:line function", its origin last."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    return [
        f"{'/'.join(PurePath(frame.filename).parts[-3:])}:{frame.lineno} {frame.name}" for frame in frames
    ]


@dataclass(slots=True)
class _Message:
    since: float
    passed: int = 1
    held_back: int = 0


class Repeats(logging.Filter):
    """A filter: a repeated message is logged at first, then once a minute with the number held back.

    A broker that is unavailable for a minute makes its clients write tens of thousands of equal lines.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._messages: OrderedDict[Hashable, _Message] = OrderedDict()
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG:
            return True
        with self._lock:
            # This exact message and, for own lines, all lines of the same event.
            return all(self._passes(key, record, allowed) for key, allowed in _keys(record))

    def _passes(self, key: Hashable, record: logging.LogRecord, allowed: int) -> bool:
        now, known = self._now(), self._messages.get(key)
        if known is not None and now - known.since < EVERY_SECONDS:
            passes = known.passed < allowed
            known.passed, known.held_back = known.passed + passes, known.held_back + (not passes)
            return passes
        if known is not None and known.held_back:
            _add(record, repeated=known.held_back, seconds=round(now - known.since))
        self._messages[key] = _Message(now)
        self._messages.move_to_end(key)
        if len(self._messages) > MOST_MESSAGES:
            self._messages.popitem(last=False)
        return True


def _keys(record: logging.LogRecord) -> tuple[tuple[Hashable, int], ...]:
    """Return the keys that identify a line, each with the number logged before suppression."""
    message: Any = record.msg
    if not isinstance(message, dict):
        # Some libraries format the whole message, with addresses and numbers, without arguments.
        template = _VARYING.sub("#", str(message)[:_TEMPLATE_CHARS])
        return (((record.name, record.levelno, template), 1),)
    event = message.get("event")
    if event == "alert":
        return ()  # each is new
    kind = (record.name, record.levelno, event)
    fields = tuple(
        (name, repr(value))
        for name, value in sorted(message.items())
        if name not in {"timestamp", "exc_info"}
    )
    return (((*kind, fields), 1), (kind, VARIANTS))


def _add(record: logging.LogRecord, **numbers: int) -> None:
    message: Any = record.msg
    if isinstance(message, dict):
        record.msg = {**message, **numbers}
    else:
        shown = ", ".join(f"{name} {number}" for name, number in numbers.items())
        record.msg, record.args = f"{record.getMessage()} ({shown})", None
