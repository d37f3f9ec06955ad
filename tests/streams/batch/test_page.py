"""The HTML report in a real browser, opened as a file."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from schemas import Failed, Scored, Unscored
from streams.batch.comparison import HumanLabel, agreements, compare
from streams.batch.page import PageRow, page
from streams.batch.results import Texts
from streams.batch.tally import MetricTally, Tally
from streams.judging.metrics import build_metrics
from streams.settings.tree import Settings
from tests.streams.results import failed, scored, unscored
from tests.streams.worker.test_page import PICTURES_VARIABLE
from tests.toolbox import python_with, run, tool

_EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>\u202egnorw\x00'
_DRIVE = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from tests.browser import FLAGS, faults
from playwright.sync_api import sync_playwright
address, chromium, folder = sys.argv[1:4]
found = {}
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
    for width in (390, 1440):
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            said, asked = [], []
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("request", lambda request: asked.append(request.url))
            page.goto(address)
            seen = {"asked": asked, "said": said, "axe": faults(page)}
            rows = "[...document.querySelectorAll('#rows tbody tr:not([hidden])')]"
            ids = f"{rows}.map(row => row.dataset.event)"
            seen["all"] = page.inner_text("#count")
            page.select_option("select[name=sort]", "score up")
            seen["lowest"] = page.evaluate(ids)[:2]
            page.select_option("select[name=sort]", "change up")
            seen["fell"] = page.evaluate(ids)[0]
            page.select_option("select[name=sort]", "place up")
            page.fill("input[name=find]", "model=b cupboard")
            seen["found"] = page.inner_text("#count")
            page.fill("input[name=find]", "")
            page.select_option("select[name=only]", "failed")
            seen["failed"] = page.evaluate(ids)
            page.select_option("select[name=only]", "")
            page.click("#rows tbody tr:nth-child(2) td[data-name=Reason] summary")
            seen["evidence"] = page.inner_text("#rows tbody tr:nth-child(2) td[data-name=Reason] ul")
            if width == 1440:
                page.click("#rows thead button:text-is('Score')")
                seen["order"] = page.get_attribute("#rows thead th[data-key=score]", "aria-sort")
            seen["axe"] += faults(page)
            seen["hacked"] = page.evaluate("window.hacked ?? null")
            seen["overflow"] = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            page.screenshot(path=f"{folder}/report-{width}-{scheme}.png")
            found[f"{width} {scheme}"] = seen
    browser.close()
print(json.dumps(found))
"""


def _report() -> str:
    """Return the report of 40 answers by two judges, with hostile texts and people's labels."""
    claim = {"pages": [2], "relevant": True, "justification": "It says so."}
    evidence = {
        "claims": [
            claim | {"claim_span": "The key is in the cupboard.", "supported": True},
            claim | {"claim_span": "It opens the garage.", "supported": False},
        ]
    }
    results = [
        scored(number, 2 + number % 4, labels={"model": "b" if number % 2 else "a"}).model_copy(
            update={"evidence": evidence}
        )
        for number in range(38)
    ]
    evil = scored(90, 1, labels={"<b>": _EVIL[:60]}, justification=_EVIL)
    now: list[Scored | Unscored | Failed] = [
        *results,
        evil.model_copy(update={"event_id": _EVIL}),
        failed(91),
        unscored(92),
    ]
    before = [one.model_copy(update={"score": 5}) for one in results]
    tally = Tally([MetricTally("relevance", (1, 5))], lines=len(now))
    for result in now:
        tally.add(result)
    metrics = build_metrics(Settings.model_validate({"metrics": {"relevance": {}}}))
    labels = [HumanLabel(n, "", one.event_id, "", one.score - n % 2, "") for n, one in enumerate(results)]
    agreed = agreements(labels, now, metrics, Path("people.csv"))
    people = agreed[0].people
    usual = Texts("Where is the key?", "The key is in the cupboard. " * 40, "Cupboard.")
    rows = [
        PageRow(
            one,
            Texts(_EVIL, _EVIL, "r") if one.event_id == _EVIL else usual,
            next((old for old in before if old.event_id == one.event_id), None),
            people.get(one.event_id, ()),
        )
        for one in now
    ]
    return page("answers.jsonl", tally, rows, [compare("relevance", before, now)], agreed)


def test_the_page_without_rows_has_no_script() -> None:
    assert "<script" not in page("f", Tally([MetricTally("relevance", (1, 5))]))


def test_texts_of_the_file_are_never_markup() -> None:
    """Hostile texts stand in the page as data, of which the script makes text nodes."""
    html = _report()
    assert "<img" not in html
    assert html.count("<script") == html.count("</script>") == 2
    assert set(re.findall(r"https?://[^\"]+", html)) == {"http://www.w3.org/2000/svg"}
    assert "\u202e" not in html
    assert r"\u202egnorw\u0000" in html
    (data,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', html)
    assert _EVIL in {row["answer"] for row in json.loads(data)}


@pytest.mark.tools
@pytest.mark.timeout(240)
async def test_the_report_filters_sorts_and_folds_in_a_browser(tmp_path: Path) -> None:
    """From file://, without the network: filter, sort, evidence, both judges; axe finds nothing.

    At 390 and 1440 pixels, light and dark. Hostile texts run nothing.
    """
    pictures = Path(os.environ.get(PICTURES_VARIABLE, tmp_path))
    report, script = tmp_path / "report.html", tmp_path / "drive.py"
    await asyncio.to_thread(report.write_text, _report())
    await asyncio.to_thread(script.write_text, _DRIVE)
    python, chromium = python_with("axe_playwright_python"), tool("chromium")
    said = await asyncio.to_thread(run, python, script, report.as_uri(), chromium, pictures, str(Path.cwd()))
    for name, seen in json.loads(said).items():
        assert seen["axe"] == [], name
        assert seen["said"] == [], name
        assert seen["asked"] == [report.as_uri()], name
        assert seen["overflow"] <= 0, name
        assert (seen["hacked"], seen["all"]) == (None, "41 of 41 rows")
        assert seen["lowest"][0].startswith("<img")  # score 1, then the scores of 2
        assert (seen["lowest"][1], seen["fell"]) == ("e0", "e0")
        assert seen["found"] == "19 of 41 rows"
        assert seen["failed"] == ["e91"]
        assert "✗ claim: It opens the garage." in seen["evidence"]
        assert seen.get("order") == ("ascending" if name.startswith("1440") else None)
