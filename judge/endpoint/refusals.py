"""What an endpoint's refusal means: wait, stop, or give up this one event."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from judge.endpoint.rate_headers import rate_limits
from judge.errors import (
    EventError,
    JudgeConfigurationError,
    JudgeError,
    JudgeUnavailableError,
    ResponseFormatError,
    UnavailableKind,
)
from judge.text.sensitive.secrets import Masker
from schemas import FailedType

MAX_MESSAGE_CHARS = 500
"""Maximum characters of an endpoint's own words that are passed on."""

MAX_READ_CHARS = 20_000
"""So much of them is looked at."""
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
"""Codes, types and parameters that are shown; an unknown code may be a word of the prompt."""

# Temporary by RFC 9110 and by what gateways use them for; every 5xx is temporary as well.
# Nothing in these depends on the event, so that every call would fail alike.
_CONFIGURATION = frozenset({401, 402, 403, 404, 405, 406, 410, 411, 415, 426})
_REQUEST = frozenset({400, 422})
_KINDS: Mapping[int, UnavailableKind] = {
    408: "timeout",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",  # not registered; a common way to say so
}

# What a 400 is about: by the error's codes, else by its words.
_REQUEST_KINDS: tuple[tuple[FailedType | Literal["configuration"], frozenset[str], tuple[str, ...]], ...] = (
    (
        "content_refused",
        frozenset(
            {
                "content_filter",
                "content_policy_violation",
                "responsibleaipolicyviolation",
                "invalid_prompt",
                "safety",
            }
        ),
        ("content management policy", "content policy", "content filter", "usage policies"),
    ),
    (
        "context_too_long",
        frozenset({"context_length_exceeded", "string_above_max_length", "exceed_context_size_error"}),
        (
            "context length",
            "context window",
            "context size",
            "maximum model length",
            "prompt is too long",
            "too many tokens",
        ),
    ),
    (
        "configuration",
        frozenset(
            {
                "invalid_api_key",
                "model_not_found",
                "unknown_parameter",
                "unsupported_parameter",
                "unsupported_value",
            }
        ),
        ("api key not valid", "unsupported parameter", "unrecognized request argument"),
    ),
)
_FORMAT_WORDS = (
    "response_format",
    "response format",
    "json_schema",
    "structured output",
    "guided decoding",
    "guided_json",
    "grammar",
)
# OpenAI's words for a schema that breaks its rules: repairing the schema helps, a weaker format only hides
# it.
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
    """Return what a reply other than a completion means.

    Args:
        endpoint: The endpoint's configured name.
        status: The HTTP status.
        body: The decoded JSON body, or the text where it is not JSON.
        headers: The reply's headers, looked up without regard to case.
        now: The moment that a date in `Retry-After` is measured from, unless the reply has a `Date` of its
            own.
        schema_sent: Whether the request had a `response_format`.
        secret: The API key, which is redacted of what is quoted.

    Returns:
        JudgeUnavailableError, JudgeConfigurationError (ResponseFormatError where the `response_format` is
        what is refused) or EventError, to be raised.
    """
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
    """What the refusal means. Its own words are in no error's message: they may quote question and answer."""
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
    # 5xx, temporary and unknown ones: waiting loses nothing.
    return JudgeUnavailableError(told, kind=_KINDS.get(status, "unavailable"))


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Read how long an endpoint asks to be left alone.

    Args:
        headers: The reply's headers: `retry-after-ms`, else `Retry-After` in seconds or as an HTTP date
            (RFC 9110, 10.2.3), measured from the reply's own `Date` so that a wrong clock here does not
            matter.
        now: Measured from this moment where there is no `Date`.

    Returns:
        Seconds, 0 or more; None where the endpoint says nothing that can be read.
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    seconds = _seconds(asked)
    if seconds is not None:
        return seconds
    until = _http_date(asked)
    if until is None:
        return None
    return max(0.0, (until - (_http_date(headers.get("date")) or now)).total_seconds())


def _error_for_request(told: str, codes: frozenset[str], words: str) -> JudgeError:
    # The codes first, because they are meant for programs; messages quote whatever they like.
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
    """The error's codes and words, in the forms that OpenAI, Azure, vLLM, Ollama and gateways write it."""
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


def _seconds(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _http_date(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
