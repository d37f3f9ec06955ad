from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from streams.doctor import own
from streams.doctor.findings import Diagnosis, Finding, bad_settings, failed, not_tried, ok, warning
from streams.doctor.own import examine_budget, examine_packs, examine_port, examine_process, examine_secrets
from streams.settings.outputs import TelemetrySettings
from streams.settings.tree import Settings
from tests.streams.certificates import Authority

ENDPOINT = {"name": "main", "base_url": "https://judge.example/v1", "model": "m"}
SASL = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "u"}


def settings(**sections: Any) -> Settings:
    return Settings.model_validate({"judge": {"endpoints": [ENDPOINT]}, **sections})


def by_subject(found: list[Finding]) -> dict[str, Finding]:
    return {one.subject: one for one in found}


def test_secrets_are_missing_until_they_are_there(tmp_path: Path) -> None:
    password, files = tmp_path / "password", Authority(tmp_path).issue("server")
    given = settings(
        kafka={"security": SASL | {"password_file": password}},
        judge={"endpoints": [{**ENDPOINT, "api_key_env": "KEY"}]},
        telemetry={
            "basic_auth": {"username": "ops", "password_env": "PAGE"},
            "tls": {"certificate_file": files.certificate, "key_file": files.key},
        },
    )
    found = examine_secrets(given, {})
    assert [one.outcome for one in found] == ["failed"] * 3
    assert all(one.by_settings and one.remedy for one in found)
    assert [one.detail.partition(":")[0] for one in found] == [
        "kafka.security.password_file",
        "judge.endpoints (main).api_key_env",
        "telemetry.basic_auth.password_env",
    ]
    password.write_text("hunter2-hunter2")
    found = examine_secrets(given, {"KEY": "sk-0123456789", "PAGE": "page-secret"})
    assert {one.outcome for one in found} == {"ok"}
    assert list(by_subject(found)) == ["kafka.security", "judge.endpoints (main)", "telemetry"]
    assert not [word for word in ("hunter2", "sk-0", "page-secret") if word in str(found)]
    assert by_subject(examine_secrets(Settings(), {}))["judge.endpoints"].by_settings
    assert "judge.endpoints" not in by_subject(examine_secrets(Settings(), {}, judges=False))


def test_secrets_that_are_too_short_are_a_warning() -> None:
    given = settings(judge={"endpoints": [{**ENDPOINT, "api_key_env": "KEY"}]})
    found = by_subject(examine_secrets(given, {"KEY": "EMPTY"}))
    assert found["judge.endpoints (main)"].outcome == "ok"
    short = found["judge.endpoints.0.api_key_env"]
    assert (short.outcome, "EMPTY" in str(short)) == ("warning", False)
    assert short.remedy.startswith("use a longer one")
    assert {one.outcome for one in examine_secrets(given, {"KEY": "EMPTY"}, judges=False)} == {"ok"}


def test_packs(tmp_path: Path) -> None:
    untrue, user = tmp_path / "untrue.json", "## User\n{{ item.input }} {{ item.output_text }}\n"
    (tmp_path / "good.md").write_text(f"## System\nScore.\n\n{user}")
    (tmp_path / "odd.md").write_text(f"## System\nScore it: donâ€™t guess.\n\n{user}")
    (tmp_path / "bad.md").write_text("nothing of a pack")
    reply = {"score": 5, "justification": "So."}
    example = {"answer": "Paris.", "context": {"Page-1": "Paris."}, "reply": reply}
    message = {"role": "user", "content": "{answer} {context}"}
    untrue.write_text(json.dumps({"messages": [message], "examples": [example]}))
    metrics = {
        name: {"prompt_pack": tmp_path / f"{name}.md", "score_range": [1, 5]}
        for name in ("good", "odd", "bad", "none")
    }
    metrics |= {"coverage": {}, "relevance": {"prompt_pack": untrue}}
    found = examine_packs(settings(metrics=metrics))
    assert {one.subject: one.outcome for one in found} == {
        "coverage": "ok",
        "relevance": "warning",  # the example's answer cites no page, so its score is 1
        "good": "ok",
        "odd": "warning",
        "bad": "failed",
        "none": "failed",
    }
    assert [one.subject for one in found if one.by_settings] == ["bad", "none"]


OF_ALL, FREE = "per day of all, for all workers together", "none needed: these judges are free"
PRICED = {"usd_per_million_tokens": {"input": 1, "output": 2}}


@pytest.mark.parametrize(
    ("endpoint", "budget", "expected", "fine"),
    [
        ({}, None, {"price (main)": "warning", "limit": "warning"}, []),
        ({}, {"usd_per_day": 5}, {"prices": "failed"}, []),
        ({}, {"calls_per_day": 9}, {"price (main)": "warning", "limit": "ok"}, [f"9 calls {OF_ALL}"]),
        ({"usd_per_million_tokens": {"input": 0, "output": 0}}, None, {"limit": "ok"}, [FREE]),
        ({"model": "offline-rules-1"}, None, {"limit": "ok"}, [FREE]),
        (PRICED, {"usd_per_day": 5}, {"limit": "ok"}, [f"5 USD {OF_ALL}"]),
    ],
)
def test_budget(
    endpoint: dict[str, Any], budget: dict[str, int] | None, expected: dict[str, str], fine: list[str]
) -> None:
    judge = {"endpoints": [ENDPOINT | endpoint]} | ({"budget": budget} if budget else {})
    found = examine_budget(settings(judge=judge), {})
    assert {one.subject: one.outcome for one in found} == expected
    assert [one.detail for one in found if one.outcome == "ok"] == fine


def test_process(tmp_path: Path) -> None:
    """64 calls + 1 health check + 128 spare = 193 descriptors; the cache folder must be writable."""
    found = by_subject(examine_process(settings(), descriptors=192))
    assert found["faust"].outcome == "ok"
    assert found["file descriptors"].outcome == "warning"
    assert "193" in found["file descriptors"].remedy
    assert by_subject(examine_process(settings(), descriptors=193))["file descriptors"].outcome == "ok"
    cache = {"max_entries": 5, "file": tmp_path / "none" / "cache"}
    found = by_subject(examine_process(settings(judge={"endpoints": [ENDPOINT], "cache": cache})))
    assert found["cache"].outcome == "failed"


async def test_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "_LOOK_SECONDS", 0.05)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        taken.listen()
        (found,) = await examine_port(TelemetrySettings(port=port), {})
        assert (found.outcome, found.may_pass) == ("failed", True)
        assert "Address already in use" in found.detail or "address already in use" in found.detail
    (found,) = await examine_port(TelemetrySettings(port=port), {})
    assert (found.outcome, found.detail) == ("ok", "is free")
    found = (await examine_port(TelemetrySettings(host="192.0.2.1"), {}))[0]
    assert (found.outcome, found.may_pass) == ("failed", False)


async def test_an_exposed_or_closed_port_is_a_warning() -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - the tested address
    _, found = await examine_port(TelemetrySettings(host=everywhere, port=0), {})
    assert (found.outcome, found.remedy.partition(",")[0]) == ("warning", "set telemetry.basic_auth")
    guarded = TelemetrySettings.model_validate(
        {"host": everywhere, "port": 0, "basic_auth": {"username": "ops", "password_env": "PAGE"}}
    )
    assert len(await examine_port(guarded, {})) == 1
    _, found = await examine_port(TelemetrySettings(port=0), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert "probes and Prometheus cannot reach" in found.detail


def test_the_sum() -> None:
    fine = (ok("port", "", "x"), warning("port", "", "x", "y"), not_tried("port", "", "z"))
    lasting, passing = failed("port", "", "x", "y"), failed("port", "", "x", "y", may_pass=True)
    wrong = bad_settings("secrets", "", "a: b; c; d")
    assert (wrong.detail, wrong.remedy) == ("a: b; c", "d")
    alone = bad_settings("secrets", "", "alone")
    assert (alone.detail, alone.remedy) == ("alone", "")
    for findings, code, may_pass in (
        (fine, 0, False),
        ((*fine, passing), 1, True),
        ((*fine, passing, lasting), 1, False),
        ((passing, wrong), 2, False),
    ):
        diagnosis = Diagnosis(findings)
        assert (diagnosis.exit_code, diagnosis.may_pass) == (code, may_pass)
        assert diagnosis.as_json()["ok"] == (code == 0)
    assert Diagnosis(fine).counts() == {"ok": 1, "warning": 1, "failed": 0, "not tried": 1}


def test_equal_findings_share_a_line() -> None:
    topics = [ok("topics", f"t{number}", "fine") for number in range(5)]
    diagnosis = Diagnosis(
        (*topics, warning("topics", "t9", "small", "set t9 higher"), ok("clock", "", "right"))
    )
    assert diagnosis.lines() == [
        ("ok", "topics t0, t1, t2, t3 and 1 more: fine", ""),
        ("warning", "topics t9: small", "set t9 higher"),
        ("ok", "clock: right", ""),
    ]
    assert len(diagnosis.as_json()["findings"]) == 7
    found = [warning("topics", name, "small", f"alter {name}") for name in ("qa.x", "qa.y")]
    assert Diagnosis(tuple(found)).lines() == [
        ("warning", "topics qa.x, qa.y: small", "alter qa.x (likewise for the others)")
    ]
