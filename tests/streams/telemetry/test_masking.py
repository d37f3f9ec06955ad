"""Secrets are redacted from log lines, in each form."""

from __future__ import annotations

import base64
import io
import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
import structlog
from pydantic import SecretStr

from judge.text.redaction import MIN_CHARS, Masker
from streams.settings import Settings, TelemetrySettings
from streams.telemetry.logs import set_up_logs, settings_masker, short_secrets

SECRET = 'pa+ss/wörd "7"\\x'


def fail(what: object, held: str = "") -> None:
    assert held is not None
    raise ValueError(what)


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        json.dumps(SECRET),
        repr(SECRET),
        repr(SECRET.encode()),
        str({"key": SECRET}),
        json.dumps({"key": SECRET}, ensure_ascii=False).encode().decode(),
    ],
)
def test_every_way_to_write_it(form: str) -> None:
    masked = Masker([SECRET]).mask(f"before {form} after")
    assert "rd" not in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")


def test_base64_is_redacted() -> None:
    """A secret alone in base64, of either alphabet, is redacted."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert "***" in Masker([SECRET]).mask(encode(SECRET.encode()).decode())


def test_a_text_without_secrets_stays() -> None:
    assert Masker([]).mask("all of it") == "all of it"
    assert Masker([SECRET]).mask("all of it") == "all of it"
    assert Masker(["a" * (MIN_CHARS - 1), ""]).mask("aaaaa bbb") == "aaaaa bbb"


def test_the_longer_secret_goes_first() -> None:
    assert Masker(["secret-1", "secret-12"]).mask("secret-12") == "***"


def test_all_that_the_settings_name(tmp_path: Path) -> None:
    """Secrets given by value, variable or file in any section are redacted."""
    file = tmp_path / "file"
    file.write_text("kafka-by-file\n")
    security = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "ann", "password_file": file}
    keys: tuple[dict[str, Any], ...] = (
        {"api_key": SecretStr("judge-by-value")},
        {"api_key_env": "KEY"},
        {"api_key_file": tmp_path / "none"},
    )
    endpoints = [{"name": name, "model": "m", **key} for name, key in zip("abc", keys, strict=True)]
    settings = Settings.model_validate(
        {
            "kafka": {"security": security},
            "judge": {"endpoints": endpoints},
            "telemetry": {"basic_auth": {"username": "ann", "password_env": "PAGE"}},
        }
    )
    env = {"KEY": "judge-by-env", "PAGE": "page-by-env", "OPENAI_API_KEY": "sk-well-known", "OTHER": "other"}
    mask = settings_masker(settings, env).mask
    for secret in ("kafka-by-file", "judge-by-value", "judge-by-env", "page-by-env", "sk-well-known"):
        assert mask(f"<{secret}>") == "<***>"
    for word in ("ann", "other", "127.0.0.1:9092"):
        assert mask(word) == word
    assert short_secrets(settings, env) == []


def test_a_secret_too_short_to_redact_is_named() -> None:
    """A secret of five characters is too short to redact and named; one of six is redacted."""
    names = zip("abc", ("FIVE", "SIX", "NONE"), strict=True)
    endpoints = [{"name": name, "model": "m", "api_key_env": variable} for name, variable in names]
    settings = Settings.model_validate({"judge": {"endpoints": endpoints}})
    env = {"FIVE": "EMPTY", "SIX": "abcdef"}
    assert short_secrets(settings, env) == ["judge.endpoints.0.api_key_env"]
    assert settings_masker(settings, env).mask("EMPTY abcdef") == "EMPTY ***"


@pytest.mark.parametrize("form", ["json", "text"])
def test_log_lines(form: str) -> None:
    """Secrets are redacted in events, values, tracebacks and arguments of libraries."""
    stream = io.StringIO()
    telemetry = TelemetrySettings.model_validate({"log_format": form, "log_level": "debug"})
    set_up_logs(telemetry, stream, masker=Masker([SECRET]))
    log = structlog.stdlib.get_logger("ours")
    log.info(SECRET, detail=SECRET, raw=SECRET.encode(), deep={"a": [SECRET]})
    logging.getLogger("theirs").warning("with %s", SECRET)
    try:
        fail(SECRET)
    except ValueError:
        log.exception("failed")
    written = stream.getvalue()
    assert written.count("***") >= 5
    for part in ("wörd", "w\\xf6rd", "w\\xc3", "w\\\\xc3", "w\\u00f6rd"):
        assert part not in written
    assert "ValueError" in written


def test_tracebacks_show_no_variables() -> None:
    """Tracebacks show code and message, not the values of variables."""
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(log_format="text"), stream)
    try:
        fail(7, held="held-" + "in-a-variable")
    except ValueError:
        structlog.stdlib.get_logger("ours").exception("failed")
    assert "ValueError: 7" in stream.getvalue()
    assert "held-in-a-variable" not in stream.getvalue()


def test_whole_requests_are_never_written() -> None:
    """Debug lines of aiokafka with whole requests are not written."""
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(log_level="debug"), stream)
    logging.getLogger("aiokafka.conn").debug("Request %s", b"\\0user\\0password")
    logging.getLogger("aiokafka.producer.producer").debug("Sending (key=%s value=%s) to %s", 1, 2, 3)
    logging.getLogger("aiokafka.consumer").debug("joined")
    assert "joined" in stream.getvalue()
    assert "Request" not in stream.getvalue()
    assert "Sending" not in stream.getvalue()
