"""The review page in a real browser: by keys alone, and what was said comes out beside the verdicts."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.streams.cli.test_main import call
from tests.streams.store.views.explorer.test_api import fill
from tests.streams.store.views.review.test_review import of_kinds, review
from tests.toolbox import python_with, run, tool

pytestmark = [pytest.mark.tools, pytest.mark.timeout(120)]

_DRIVE = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from tests.streams.store.views.explorer.drive import FLAGS, axe
import axe_playwright_python
from playwright.sync_api import sync_playwright
address, chromium, folder = sys.argv[1:4]
script = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark", reduced_motion="reduce")
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address + "/review")
    page.wait_for_selector("body[data-busy='false']")
    page.select_option("select[name=metric]", "relevance")
    page.fill("input[name=size]", "5")
    page.click("text=Start")
    page.wait_for_selector("#say:not([hidden])")
    hidden = page.locator("#answer .badge").count()
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("e")
    shown = page.locator("#answer .badge").count()
    found = axe(page, script)
    page.screenshot(path=f"{folder}/review.png")
    page.keyboard.press("n")
    page.keyboard.type("wrong page")
    page.keyboard.press("Escape")
    for key, progress in (("2", "2 of 5, 1 given"), ("9", "2 of 5, 1 given"), ("s", "3 of 5, 1 given"), ("x", "4 of 5, 2 given"), ("b", "3 of 5, 2 given")):
        page.keyboard.press(key)
        page.wait_for_function("(text) => document.querySelector('#progress').textContent.startsWith(text)", arg=progress)
    for metric, act in (("refusal", "3"), ("toxicity", "1"), ("near", "0.25")):
        page.evaluate("document.activeElement.blur()")
        page.select_option("select[name=metric]", metric)
        page.click("text=Start")
        page.wait_for_function("(text) => document.querySelector('#answer h2')?.textContent.startsWith(text)", arg=metric)
        page.wait_for_function("(text) => document.querySelector('#progress').textContent.startsWith(text)", arg="1 of 1, 0 given")
        page.screenshot(path=f"{folder}/{metric}.png")
        page.evaluate("document.activeElement.blur()")
        found += axe(page, script)
        if metric == "near":
            page.fill("#number", act)
            page.press("#number", "Enter")
        else:
            page.keyboard.press(act)
        page.wait_for_function("(text) => document.querySelector('#progress').textContent === text", arg="1 labels given")
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    print(json.dumps({"said": said, "axe": found, "hidden": hidden, "shown": shown, "overflow": overflow}))
    browser.close()
"""  # noqa: E501


async def test_labels_are_given_by_keys_and_come_out_beside_their_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A score with a note, a skip, and "cannot say"; the judge's score is hidden until it is asked for.

    A label and true or false have a key each, a number its field.
    """
    fill(tmp_path / "s")
    of_kinds(tmp_path / "s")
    script = tmp_path / "drive.py"
    script.write_text(_DRIVE)
    python, chromium = python_with("axe_playwright_python"), tool("chromium")
    async with review(tmp_path / "s") as (_, url, published):
        answer = await asyncio.to_thread(run, python, script, url, chromium, tmp_path, str(Path.cwd()))
    assert json.loads(answer) == {"said": [], "axe": [], "hidden": 0, "shown": 1, "overflow": 0}
    assert [(label.score, label.note) for label in published[:2]] == [(2, "wrong page"), (None, "")]
    assert [label.value for label in published[2:]] == ["refused", True, 0.25], "a label, a boolean, a number"
    for name in [name for name in os.environ if name.startswith("JUDGESTREAM_TOOLS_")]:
        monkeypatch.delenv(name)  # the command would take them for settings
    capsys.readouterr()
    assert await asyncio.to_thread(call, "export", "--store", str(tmp_path / "s")) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["result_id"]: row["human_score"] for row in rows if row["human_labels"]} == {
        one.result_id: one.value if isinstance(one.value, float) else one.score for one in published
    }
