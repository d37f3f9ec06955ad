"""Classify an endpoint's refusals: retry, stop, or fail this event."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from judge.chat import QuotaReport, RateLimits
from judge.errors import (
    EventError,
    JudgeConfigurationError,
    JudgeError,
    JudgeUnavailableError,
    ResponseFormatError,
    UnavailableKind,
)
from judge.text.redaction import Masker
from schemas import FailedType

MAX_MESSAGE_CHARS = 500
"""Maximum characters of an endpoint's message that are passed on."""

MAX_READ_CHARS = 20_000
"""Maximum characters of a message that are searched."""
_CODES = frozenset({
    "authentication_error", "billing_hard_limit_reached", "billing_not_active", "content_filter",
    "content_policy_violation", "context_length_exceeded", "deploymentnotfound", "engine_overloaded",
    "exceed_context_size_error", "failed_precondition", "forbidden", "insufficient_quota",
    "internal_error", "internal_server_error", "invalid_api_key", "invalid_argument", "invalid_prompt",
    "invalid_request_error", "invalid_type", "invalid_value", "max_tokens", "messages",
    "missing_required_parameter", "model", "model_not_found", "not_found", "not_found_error",
    "overloaded", "overloaded_error", "permission_denied", "permission_error", "prompt",
    "quota_exceeded", "rate_limit_error", "rate_limit_exceeded", "request_too_large", "requests",
    "resource_exhausted", "response_format", "responsibleaipolicyviolation", "safety", "seed",
    "server_error", "service_unavailable", "stop", "string_above_max_length", "temperature", "timeout",
    "timeout_error", "tokens", "too_many_requests", "top_p", "unauthenticated", "unauthorized",
    "unavailable", "unknown_parameter", "unsupported_parameter", "unsupported_value",
})  # fmt: skip
"""Codes, types and parameters that may be shown; an unknown code may be a word of the prompt."""

# These do not depend on the event, so every call would fail.
_CONFIGURATION = frozenset({401, 402, 403, 404, 405, 406, 410, 411, 415, 426})
_REQUEST = frozenset({400, 422})
_KINDS: Mapping[int, UnavailableKind] = {
    408: "timeout",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",  # not registered, but common
}

# Meaning of a 400: by the error's codes, else by words of its message.
_REQUEST_KINDS: tuple[tuple[FailedType | Literal["configuration"], frozenset[str], tuple[str, ...]], ...] = (
    (
        "content_refused",
        frozenset({
            "content_filter", "content_policy_violation", "invalid_prompt", "responsibleaipolicyviolation",
            "safety",
        }),
        ("content management policy", "content policy", "content filter", "usage policies"),
    ),
    (
        "context_too_long",
        frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"}),
        (
            "context length", "context window", "context size", "maximum model length", "prompt is too long",
            "too many tokens",
        ),
    ),
    (
        "configuration",
        frozenset({
            "invalid_api_key", "model_not_found", "unknown_parameter", "unsupported_parameter",
            "unsupported_value",
        }),
        ("api key not valid", "unsupported parameter", "unrecognized request argument"),
    ),
)  # fmt: skip
_FORMAT_WORDS = (
    "response_format", "response format", "json_schema", "structured output", "guided decoding",
    "guided_json", "grammar",
)  # fmt: skip
# OpenAI's message for an invalid schema: correct the schema; a weaker format would only hide the error.
_BAD_SCHEMA_WORDS = ("invalid schema for response_format",)


def error_for_status(
    *,
    endpoint: str,
    status: int,
    body: object,
    headers: Mapping[str, str],
    now: datetime,
    schema_sent: bool,
    secret: str,
) -> JudgeError:
    """Return the error for a reply with an error status."""
    codes, message = _codes_and_message(body)
    message = Masker([secret]).mask(message)
    said = _cut(message)
    named = sorted(codes & _CODES)
    told = f"judge endpoint {endpoint} answered {status}" + (f" ({', '.join(named)})" if named else "")
    words = message[:MAX_READ_CHARS].lower()
    error = _error(told, status=status, codes=codes, words=words, schema_sent=schema_sent)
    if isinstance(error, JudgeUnavailableError):
        error.retry_after_seconds = retry_after_seconds(headers, now=now)
        error.limits = rate_limits(
            (name.encode(errors="replace"), value.encode(errors="replace")) for name, value in headers.items()
        )
    error.said = said
    return error


def _error(told: str, *, status: int, codes: frozenset[str], words: str, schema_sent: bool) -> JudgeError:
    """Classify a refusal. Error messages do not contain its text, which may quote question and answer."""
    if schema_sent and status in _REQUEST | {500, 501}:
        if _mentions(words, _BAD_SCHEMA_WORDS):
            return JudgeConfigurationError(told, "Correct the response_schema of the prompt pack")
        named = "response_format" in codes or _mentions(words, _FORMAT_WORDS)
        if named and not any(codes & known for _, known, _ in _REQUEST_KINDS[:2]):
            return ResponseFormatError(told)
    if status in _REQUEST:
        return _error_for_request(told, codes, words)
    if status == 413:
        return EventError("context_too_long", told)
    if status in _CONFIGURATION or 300 <= status < 400:
        return JudgeConfigurationError(told, _remedy(status))
    # 5xx, temporary and unknown statuses: a retry is safe.
    return JudgeUnavailableError(told, kind=_KINDS.get(status, "unavailable"))


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Parse the pause that an endpoint requests.

    Args:
        headers: The reply's headers: `retry-after-ms`, else `Retry-After` in seconds or as an HTTP date (RFC
            9110, 10.2.3), relative to the reply's own `Date`, so that a wrong local clock does not matter.
        now: Reference time if there is no `Date`.

    Returns:
        Seconds, 0 or more; None if nothing readable is given.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    asked = headers.get("retry-after")
    seconds = _number(asked)
    if seconds is not None:
        return max(0.0, seconds)
    until = _http_date(asked)
    if until is None:
        return None
    return max(0.0, (until - (_http_date(headers.get("date")) or now)).total_seconds())


def _error_for_request(told: str, codes: frozenset[str], words: str) -> JudgeError:
    # Codes first, because messages may quote arbitrary text.
    by_code = (kind for kind, known, _ in _REQUEST_KINDS if codes & known)
    by_words = (kind for kind, _, known in _REQUEST_KINDS if _mentions(words, known))
    kind = next(by_code, None) or next(by_words, None) or "rejected_request"
    if kind == "configuration":
        return JudgeConfigurationError(told, "Check the endpoint's model, key and parameters")
    return EventError(kind, told)


def _remedy(status: int) -> str:
    if 300 <= status < 400:
        return "It redirects: set base_url to the address that answers"
    return {
        401: "Check the API key (api_key_env)",
        402: "Check the account's balance",
        403: "Check the permissions of the API key",
        404: "Check base_url (it usually ends in /v1) and the model's name",
    }.get(status, "Check base_url")


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
    return (
        frozenset(name.lower() for name in named if isinstance(name, str)),
        message if isinstance(message, str) else str(message),
    )


def _mentions(words: str, phrases: tuple[str, ...]) -> bool:
    return any(phrase in words for phrase in phrases)


def _cut(message: str) -> str:
    line = " ".join(message[: 4 * MAX_MESSAGE_CHARS].split())
    return line if len(line) <= MAX_MESSAGE_CHARS else f"{line[:MAX_MESSAGE_CHARS]}…"


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _http_date(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


# Rate-limit headers

_PREFIX = b"x-ratelimit-"
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|us|µs|d|h|m|s)")
_UNIT_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MAX_CHARS = 64


def rate_limits(headers: Iterable[tuple[bytes, bytes]]) -> RateLimits | None:
    """Parse the limits that an endpoint reports."""
    found: dict[str, float] = {}
    for name, value in headers:
        # Skip most headers fast, because this runs for every call.
        if name[:12].lower() != _PREFIX or len(value) > _MAX_CHARS:
            continue
        key = name[12:].decode("ascii", "replace").lower()
        text = value.decode("utf-8", "replace").strip()
        number = duration_seconds(text) if key.startswith("reset-") else _number(text)
        if number is not None and number >= 0:
            found[key] = number
    if not found:
        return None
    return RateLimits(_report(found, "requests"), _report(found, "tokens"))


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


def _report(found: dict[str, float], what: str) -> QuotaReport:
    return QuotaReport(
        limit=found.get(f"limit-{what}"),
        remaining=found.get(f"remaining-{what}"),
        reset_seconds=found.get(f"reset-{what}"),
    )
