"""Classify an endpoint's refusals: retry, stop, or fail this event."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.resources import files
from typing import Any, Final

from judge.chat import RateLimits
from judge.errors import (
    EventError,
    JudgeConfigurationError,
    JudgeError,
    JudgeUnavailableError,
    ResponseFormatError,
)
from judge.text.redaction import Masker

MAX_MESSAGE_CHARS = 500
"""Of an endpoint's message that are passed on."""
MAX_READ_CHARS = 20_000
"""Of a message that are searched."""
_FILE: Final = files("judge.endpoints").joinpath("refusals.toml")
_TABLE: Final[Mapping[str, Any]] = tomllib.loads(_FILE.read_text("utf-8"))
_SHOWN = frozenset(_TABLE["shown"].split())
_REQUEST = frozenset({400, 422})


def error_for_status(
    *, endpoint: str, status: int, body: object, schema_sent: bool, secret: str
) -> JudgeError:
    """Return the error for a reply with an error status; `body` is its decoded JSON, or its text."""
    codes, message = _codes_and_message(body)
    message = Masker([secret]).mask(message)
    named = sorted(codes & _SHOWN)
    told = f"judge endpoint {endpoint} answered {status}" + (f" ({', '.join(named)})" if named else "")
    words = message[:MAX_READ_CHARS].lower()
    error = _error(told, status=status, codes=codes, words=words, schema_sent=schema_sent)
    line = " ".join(message[: 4 * MAX_MESSAGE_CHARS].split())
    error.said = line if len(line) <= MAX_MESSAGE_CHARS else f"{line[:MAX_MESSAGE_CHARS]}…"
    return error


def _error(told: str, *, status: int, codes: frozenset[str], words: str, schema_sent: bool) -> JudgeError:
    """Classify a refusal. Error messages do not contain its text, which may quote question and answer."""
    if schema_sent and status in _REQUEST | {500, 501}:
        # OpenAI's message for an invalid schema, which a weaker format would only hide.
        if "invalid schema for response_format" in words:
            return JudgeConfigurationError(told, "Correct the response_schema of the prompt pack")
        named = "response_format" in codes or _mentions(words, _TABLE["format_words"])
        if named and not any(codes.intersection(one["codes"]) for one in _TABLE["request"][:2]):
            return ResponseFormatError(told)
    if status in _REQUEST:
        return _error_for_request(told, codes, words)
    if status == 413:
        return EventError("context_too_long", told)
    redirects = "It redirects: set base_url to the address that answers" if 300 <= status < 400 else None
    remedy = redirects or _TABLE["configuration"].get(str(status))
    if remedy is not None:
        return JudgeConfigurationError(told, remedy)
    # 5xx, temporary and unknown statuses: a retry is safe.
    return JudgeUnavailableError(told, kind=_TABLE["unavailable"].get(str(status), "unavailable"))


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return the pause that an endpoint requests: `retry-after-ms`, else `Retry-After`, None if unreadable.

    A date (RFC 9110, 10.2.3) is relative to the reply's own `Date`, so that a wrong local clock does not
    matter, else to `now`.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    asked = headers.get("retry-after")
    seconds = _number(asked)
    if seconds is not None:
        return max(0.0, seconds)
    until = http_date(asked)
    if until is None:
        return None
    return max(0.0, (until - (http_date(headers.get("date")) or now)).total_seconds())


def _error_for_request(told: str, codes: frozenset[str], words: str) -> JudgeError:
    # Codes first, because messages may quote arbitrary text.
    by_code = (one["kind"] for one in _TABLE["request"] if codes.intersection(one["codes"]))
    by_words = (one["kind"] for one in _TABLE["request"] if _mentions(words, one["words"]))
    kind: Any = next(by_code, None) or next(by_words, None) or "rejected_request"
    if kind == "configuration":
        return JudgeConfigurationError(told, "Check the endpoint's model, key and parameters")
    return EventError(kind, told)


def _codes_and_message(body: object) -> tuple[frozenset[str], str]:
    """Return the error's codes and message, in the forms of OpenAI, Azure, vLLM, Ollama and gateways."""
    if not isinstance(body, Mapping):
        return frozenset(), str(body or "")
    error = body.get("error", body)
    if not isinstance(error, Mapping):
        return frozenset(), str(error)
    inner = error.get("innererror")
    named = [error.get("code"), error.get("type"), error.get("param")]
    named.append(inner.get("code") if isinstance(inner, Mapping) else None)
    message = next((error[key] for key in ("message", "detail") if error.get(key)), "")
    return frozenset(name.lower() for name in named if isinstance(name, str)), str(message)


def _mentions(words: str, phrases: Iterable[str]) -> bool:
    return any(phrase in words for phrase in phrases)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def http_date(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


# Rate-limit headers

_PREFIX = "x-ratelimit-"
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|us|µs|d|h|m|s)")
_UNIT_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MAX_CHARS = 64


def rate_limits(headers: Mapping[str, str]) -> RateLimits | None:
    found: dict[str, float] = {}
    for name, value in headers.items():
        # Skip most headers fast, because this runs for every call.
        if name[:12].lower() != _PREFIX or len(value) > _MAX_CHARS:
            continue
        key, text = name[12:].lower(), value.strip()
        number = duration_seconds(text) if key.startswith("reset-") else _number(text)
        if number is not None and number >= 0:
            found[key] = number
    if not found:
        return None
    used_up = (name for name in ("requests", "tokens") if found.get(f"remaining-{name}", 1.0) < 1)
    reset_seconds = max((found.get(f"reset-{name}", 0.0) for name in used_up), default=0.0)
    return RateLimits(found.get("limit-requests"), found.get("limit-tokens"), reset_seconds)


def duration_seconds(text: str) -> float | None:
    """Parse a duration: `6m0s`, `8.64s`, `120ms`, or plain seconds."""
    plain = _number(text)
    if plain is not None:
        return plain if plain >= 0 else None
    position, total = 0, 0.0
    for part in _PART.finditer(text):
        if part.start() != position:
            return None
        total += float(part[1]) * _UNIT_SECONDS[part[2]]
        position = part.end()
    return total if position and position == len(text) else None
