from __future__ import annotations

from datetime import UTC, datetime

import pytest

from judge.endpoint.refusals import error_for_status, retry_after_seconds
from judge.errors import (
    EventError,
    JudgeConfigurationError,
    JudgeError,
    JudgeUnavailableError,
    ResponseFormatError,
)

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def mapped(status: int, body: object = None, *, schema_sent: bool = False, secret: str = "") -> JudgeError:
    return error_for_status(
        endpoint="primary",
        status=status,
        body=body,
        headers={},
        now=NOW,
        schema_sent=schema_sent,
        secret=secret,
    )


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 11:59:00 GMT"}, 0.0),
        # The endpoint's clock is an hour ahead: by its own Date header the wait is 10 s.
        ({"retry-after": "Sat, 21 Nov 2026 13:00:10 GMT", "date": "Sat, 21 Nov 2026 13:00:00 GMT"}, 10.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Sat, 99 Nov 2026 12:00:30 GMT"}, None),
    ],
)
def test_the_wait_that_an_endpoint_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    """`Retry-After` is read as milliseconds, seconds or a date; any other value gives None."""
    assert retry_after_seconds(headers, now=NOW) == seconds


@pytest.mark.parametrize("status", [408, 409, 425, 429, 460, 499, 500, 502, 503, 504, 529, 599])
def test_a_temporary_status_is_unavailable(status: int) -> None:
    """Temporary and unknown statuses raise `JudgeUnavailableError`."""
    assert isinstance(mapped(status), JudgeUnavailableError)


@pytest.mark.parametrize("status", [301, 307, 401, 402, 403, 404, 405, 410])
def test_a_status_of_every_call_is_a_configuration_error(status: int) -> None:
    """Statuses that every call would get raise `JudgeConfigurationError` with endpoint and status."""
    error = mapped(status, {"error": {"message": "no", "code": "forbidden"}})
    assert isinstance(error, JudgeConfigurationError)
    assert f"primary answered {status} (forbidden). " in str(error)


@pytest.mark.parametrize(
    ("body", "error_type"),
    [
        ({"error": {"code": "content_filter", "message": "x"}}, "content_refused"),
        ({"error": {"innererror": {"code": "ResponsibleAIPolicyViolation"}}}, "content_refused"),
        ({"error": {"message": "triggering Azure's content management policy"}}, "content_refused"),
        ({"error": {"code": "context_length_exceeded"}}, "context_too_long"),
        (
            {"object": "error", "message": "This model's maximum context length is 4096 tokens"},
            "context_too_long",
        ),
        ({"error": {"type": "exceed_context_size_error"}}, "context_too_long"),
        ({"error": "prompt is too long"}, "context_too_long"),
        ({"error": {"message": "odd"}}, "rejected_request"),
        ("plain words", "rejected_request"),
        (None, "rejected_request"),
        ([1], "rejected_request"),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_request_fails_this_event_alone(status: int, body: object, error_type: str) -> None:
    """A 400 or 422 is an `EventError`, typed by the error's code or else by its words."""
    error = mapped(status, body)
    assert isinstance(error, EventError)
    assert error.error_type == error_type


def test_a_parameter_the_model_does_not_take_is_configuration() -> None:
    """A refused parameter is a configuration error, because it would fail every event."""
    error = mapped(
        400, {"error": {"code": "unsupported_value", "message": "'temperature' does not support 0"}}
    )
    assert isinstance(error, JudgeConfigurationError)


@pytest.mark.parametrize("status", [400, 422, 500])
def test_a_refused_response_format_needs_a_schema_in_the_request(status: int) -> None:
    """A refused `response_format` is a `ResponseFormatError` only if the request had a schema."""
    body = {"error": {"message": "'response_format.type' must be 'text'"}}
    assert isinstance(mapped(status, body, schema_sent=True), ResponseFormatError)
    assert not isinstance(mapped(status, body), JudgeConfigurationError)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "unsupported", "param": "response_format"}}, ResponseFormatError),
        ({"error": {"message": "failed to parse grammar"}}, ResponseFormatError),
        (
            {"detail": [{"loc": ["body", "response_format", "type"], "msg": "Input should be 'text'"}]},
            ResponseFormatError,
        ),
        (
            {
                "error": {
                    "code": "context_length_exceeded",
                    "message": "too long; response_format counts, too",
                }
            },
            EventError,
        ),
        ({"error": {"code": "content_filter", "message": "grammar"}}, EventError),
        ({"error": {"message": "model not loaded"}}, EventError),
    ],
)
def test_a_response_format_error_must_name_the_format(body: object, expected: type[JudgeError]) -> None:
    """A `ResponseFormatError` needs the parameter or its words, and no code with another meaning."""
    assert isinstance(mapped(400, body, schema_sent=True), expected)


def test_a_schema_that_breaks_the_endpoints_rules_is_configuration() -> None:
    """An invalid schema is a configuration error; a weaker format would hide the mistake."""
    words = "Invalid schema for response_format 'v': 'additionalProperties' is required"
    body = {"error": {"message": words, "type": "invalid_request_error", "param": "response_format"}}
    error = mapped(400, body, schema_sent=True)
    assert isinstance(error, JudgeConfigurationError)
    assert not isinstance(error, ResponseFormatError)
    assert "Correct the response_schema" in str(error)


def test_the_key_is_never_quoted_and_messages_are_cut() -> None:
    """`said` hides the key and is shorter than 600 characters."""
    error = mapped(401, {"error": {"message": "Incorrect key sk-secret " + "x" * 5000}}, secret="sk-secret")
    assert "sk-secret" not in error.said
    assert "***" in error.said
    assert len(error.said) < 600


@pytest.mark.parametrize("status", [301, 401, 403, 404, 429, 500, 503])
def test_messages_do_not_quote_the_endpoint(status: int) -> None:
    """The message names status and code alone; the server's words stay in `said`."""
    words = "blocked: 'My name is Ada and I have'"
    error = mapped(status, {"error": {"message": words, "code": "quota_exceeded", "type": "My name is Ada"}})
    assert "Ada" not in str(error)
    assert f"answered {status} (quota_exceeded)" in str(error)
    assert error.said == words


@pytest.mark.parametrize("status", [400, 413, 422])
def test_an_events_own_result_quotes_nothing_either(status: int) -> None:
    """The message of an `EventError` shows known codes only; an unknown one may be a word of the prompt."""
    body = {
        "error": {"message": "odd: 'ada'", "code": "ada", "type": "invalid_request_error", "param": "ada.l"}
    }
    error = mapped(status, body)
    assert str(error) == f"judge endpoint primary answered {status} (invalid_request_error)"
    assert error.said == "odd: 'ada'"
