from __future__ import annotations

import asyncio
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from pydantic import SecretStr

from streams.settings.outputs import BasicAuthSettings, TlsSettings
from streams.web.port import BasicAuth, server_tls
from tests.alerting.installation import Traffic, installation
from tests.integration.deadlines import until
from tests.streams.certificates import Authority
from tests.streams.worker.serving import served
from tests.toolbox import python_with, run, tool

pytestmark = [pytest.mark.tools, pytest.mark.timeout(240)]

_DRIVE = Path(__file__).parent / "drive.py"
_EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>'
PICTURES_VARIABLE = "JUDGESTREAM_PICTURES"
"""The variable with the folder for screenshots."""


def _hostile(number: int) -> bytes:
    return json.dumps(
        {
            "event_id": f"{_EVIL[:150]}{number}",
            "occurred_at": datetime.now(UTC).isoformat(),
            "question": _EVIL,
            "answer": f"{_EVIL} Evidence: [Page 9]",
            "context": {"Page-1": _EVIL},
            "trace_id": "f" * 32,
            "labels": {"app": _EVIL[:60], "model": "x" * 60},
        }
    ).encode()


async def _worth_looking_at(one: Traffic) -> None:
    async with ClientSession() as session:

        async def status() -> dict[str, Any]:
            async with session.get(f"{one.url}/status.json") as answer:
                shown: dict[str, Any] = await answer.json()
                return shown | {"whole": [line for line in shown["series"] if not line["labels"]]}

        async def learned() -> bool:
            whole = (await status())["whole"]
            return len(whole) == 2 and all(line["scored"] > 150 for line in whole)

        async def dropped() -> bool:
            whole = (await status())["whole"]
            return all(line["state"] == "dropped" and line["recent"] < 2.5 for line in whole)

        async def hostile_judged() -> bool:
            return "onerror" in json.dumps((await status())["verdicts"])

        await until(learned, "a baseline")
        one.worse = True
        await until(dropped, "a drop of both metrics")
        one.paused = True  # the page shows the latest verdicts alone
        for number in range(5):
            await one.send(_hostile(number))
        await until(hostile_judged, "a verdict on a hostile event")


async def test_the_page_works_and_executes_no_text(tmp_path: Path) -> None:
    pictures = Path(os.environ.get(PICTURES_VARIABLE, tmp_path))
    python, chromium = python_with("axe_playwright_python"), tool("chromium")
    async with installation(rate=15.0, store=tmp_path / "store.sqlite3") as one:
        await _worth_looking_at(one)
        said = await asyncio.to_thread(run, python, _DRIVE, one.url + "/", chromium, pictures)
    views = json.loads(said)
    for seen in views.values():
        assert "onerror" in seen["text"]
        assert seen["said"] == []
        assert {address.split("?")[0].removeprefix(one.url) for address in seen["asked"]} - {"data:,"} == {
            "/", "/assets/style.css", "/assets/dom.js", "/assets/charts.js", "/status.js", "/status.json",
            "/explore/api/incidents", "/explore/api/labels",
        }  # fmt: skip
        for words in ("ready, group judgestream-demo", "up to date", "cause: ",
                      "Means over time", "judged by offline-rules-1", "Scores", "lag of", "offline",
                      "dropped", "budget of today", "% spent, "):  # fmt: skip
            assert words in seen["text"]
        assert re.search("of all answers (fell|rose) from", seen["text"])
        assert seen["hacked"] is None
        assert seen["foreign_elements"] == 0
        assert seen["broken_words"] == []
        assert seen["faults"] == []
        assert seen["landmarks"] == 3
        assert seen["unscoped"] == 0
        assert seen["first_focus"] == "To the content"
        # One for each metric; a busy machine's pause is a gap, which parts a line.
        assert seen["lines"] == seen["bands"] >= 2
        # The worse answers have another prompt_version, and the hostile ones a model of their own.
        assert seen["changes"] >= 2
        # Scores 0 to 5 and 1 to 5.
        assert seen["bars"] == 11
    assert views["light"]["ground"] == "rgb(255, 255, 255)"
    assert views["dark"]["ground"] == "rgb(15, 19, 24)"
    assert "judge endpoint offline answered 401" in views["light"]["trouble"]
    assert "judgestream doctor" in views["light"]["trouble"]
    assert "the worker does not answer" in views["light"]["lost"]
    assert "out of date" in views["light"]["lost"]
    assert all((pictures / f"page-{name}.png").stat().st_size < 200_000 for name in views)


async def test_the_page_behind_a_password_and_tls(tmp_path: Path) -> None:
    password = "pässwörd:1"
    python, chromium = python_with("playwright"), tool("chromium")
    files = Authority(tmp_path).issue("server")
    auth = BasicAuth(
        BasicAuthSettings.model_validate({"username": "ops", "password": SecretStr(password)}), {}
    )
    tls = server_tls(TlsSettings(certificate_file=files.certificate, key_file=files.key))
    async with served(auth=auth, tls=tls) as url:
        said = await asyncio.to_thread(run, python, _DRIVE, url, chromium, tmp_path, "ops", password)
    seen = json.loads(said)
    assert [seen[path] for path in ("/status.js", "/assets/style.css", "/status.json")] == [200, 200, 200]
