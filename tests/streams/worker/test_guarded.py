"""The page behind a password and TLS, in a real browser."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from streams.settings.outputs import BasicAuthSettings, TlsSettings
from streams.web.access import BasicAuth, server_tls
from tests.streams.certificates import Authority
from tests.streams.worker.serving import served
from tests.toolbox import python_with, run, tool

pytestmark = [pytest.mark.tools, pytest.mark.timeout(120)]

_LOOK = """
import json, sys
from playwright.sync_api import sync_playwright
address, chromium, user, password = sys.argv[1:]
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
    context = browser.new_context(ignore_https_errors=True, http_credentials={"username": user, "password": password})
    page, seen = context.new_page(), {}
    page.on("response", lambda answer: seen.setdefault(answer.url.removeprefix(address), answer.status))
    with page.expect_response("**/status.json") as polled:
        page.goto(address + "/")
    seen["/status.json"] = polled.value.status
    print(json.dumps(seen))
    browser.close()
"""  # noqa: E501


async def test_the_page_behind_a_password_and_tls(tmp_path: Path) -> None:
    password = "pässwörd:1"
    python, chromium = python_with("playwright"), tool("chromium")
    files = Authority(tmp_path).issue("server")
    auth = BasicAuth(
        BasicAuthSettings.model_validate({"username": "ops", "password": SecretStr(password)}), {}
    )
    tls = server_tls(TlsSettings(certificate_file=files.certificate, key_file=files.key))
    script = tmp_path / "look.py"
    script.write_text(_LOOK)
    async with served(auth=auth, tls=tls) as url:
        said = await asyncio.to_thread(run, python, script, url, chromium, "ops", password)
    seen = json.loads(said)
    assert [seen[path] for path in ("/status.js", "/assets/style.css", "/status.json")] == [200, 200, 200]
