"""Logging with structlog; lines of libraries get the same format."""

from __future__ import annotations

import io
import logging
import sys
from typing import Any, TextIO

import structlog

from judge.text.redaction import Masker
from streams.settings import TelemetrySettings
from streams.telemetry.repeats import Repeats

# Their info lines report each fetch, join and seek; our own lines report what matters.
_TALKATIVE = (
    *("aiokafka", "faust", "mode", "aiohttp", "openai", "httpx2", "httpcore2", "asyncio"),
    # Faust logs start and stop of each service under the names of our subclasses.
    *("streams.kafka.app", "streams.kafka.transport"),
)
# At level debug these log whole requests and records, including logins and event texts.
_INDISCREET = ("aiokafka.conn", "aiokafka.producer.producer")


def set_up_logs(
    telemetry: TelemetrySettings, stream: TextIO | None = None, *, masker: Masker | None = None
) -> None:
    """Send all log lines to one stream, as JSON or as text.

    Foreign text, such as judged text, is always a field's value.

    Args:
        telemetry: Level and format; "auto" means text on a terminal, else JSON.
        stream: The stream; standard error by default.
        masker: Redacts known secrets in all lines; None if none are known.
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
    last: list[structlog.types.Processor] = (
        # structlog's own tracebacks show variables, which may contain secrets and texts.
        [
            _printable,
            structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=_traceback),
        ]
        if as_text
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *last,
                *([] if masker is None else [_masking(masker)]),
            ],
        )
    )
    # `emit`, not `handle`, which would filter the filter's own lines.
    handler.addFilter(Repeats(lambda line: _emit(handler, line)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(telemetry.log_level.upper())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.DEBUG if telemetry.log_level == "debug" else logging.WARNING)
    for name in _INDISCREET:
        logging.getLogger(name).setLevel(logging.INFO if telemetry.log_level == "debug" else logging.WARNING)


def _emit(handler: logging.Handler, line: logging.LogRecord) -> None:
    handler.acquire()
    try:
        handler.emit(line)
    finally:
        handler.release()


def _escaped(text: str) -> str:
    """Keep foreign text from forging lines or steering the terminal: line ends and controls are escaped."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape", "surrogatepass").decode("ascii")
        for sign in text
    )


def _printable(_logger: Any, _name: str, fields: structlog.types.EventDict) -> structlog.types.EventDict:
    return {name: _escaped(value) if isinstance(value, str) else value for name, value in fields.items()}


def _traceback(target: TextIO, failure: structlog.types.ExcInfo) -> None:
    written = io.StringIO()
    structlog.dev.plain_traceback(written, failure)
    target.write("\n".join(map(_escaped, written.getvalue().split("\n"))))


def _masking(masker: Masker) -> structlog.types.Processor:
    def mask(_logger: Any, _name: str, line: Any) -> Any:
        return masker.mask(line) if isinstance(line, str) else line

    return mask
