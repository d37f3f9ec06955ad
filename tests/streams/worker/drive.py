"""Opens the worker's page in headless Chromium and prints what it shows.

Runs in a Python with playwright. Arguments: the page's address, the browser's path, a folder for screenshots;
with a user and a password, too, it prints the status of what the page asks for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.browser import FLAGS, VIEWS, faults

BROKEN_WORDS = """() => [...document.querySelectorAll("tbody th, td.number, thead th")].filter((one) => {
  const range = document.createRange();
  range.selectNodeContents(one);
  const tops = [...range.getClientRects()].map((box) => box.top);
  return !/\\s/.test(one.textContent.trim()) && Math.max(...tops) - Math.min(...tops) > 12;
}).map((one) => one.textContent)"""

COUNTED = {
    "foreign_elements": "main img, main script, main iframe",
    "landmarks": "body > header, body > main, body > footer",
    "unscoped": "th:not([scope])",
    "lines": "#charts svg .mean",
    "bands": "#charts svg .band",
    "changes": "#charts svg .change",
    "bars": "#scores progress",
}


def look(browser: Any, address: str, folder: str, name: str) -> dict[str, Any]:
    width, height, scheme = VIEWS[name]
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector("#rows li:nth-child(5)")
    page.wait_for_selector("#charts svg .change", state="attached")
    page.keyboard.press("Tab")
    seen = {
        "said": said,
        "first_focus": page.evaluate("document.activeElement.textContent"),
        "text": page.inner_text("body"),
        "ground": page.evaluate("getComputedStyle(document.body).backgroundColor"),
        "faults": faults(page),
        "broken_words": page.evaluate(BROKEN_WORDS),
        "hacked": page.evaluate("window.hacked ?? null"),
    } | {name: page.locator(selector).count() for name, selector in COUNTED.items()}
    page.evaluate("document.activeElement.blur()")
    page.screenshot(path=f"{folder}/page-{name}.png")
    if name == "light":
        page.route("**/status.json", _refused)
        page.wait_for_selector("#trouble:not([hidden])")
        seen["trouble"] = page.inner_text("#trouble")
        page.unroute("**/status.json")
        page.route("**/status.json", lambda route: route.abort())
        page.wait_for_selector("#state:has-text('does not answer')")
        page.wait_for_selector("body[data-stale='true']", timeout=20000)
        seen["lost"] = page.inner_text("header")
        # A failed request is logged on the console.
        seen["said"] = [one for one in said if "net::ERR_FAILED" not in one]
    seen["asked"] = sorted(set(asked))
    page.close()
    return seen


def _refused(route: Any) -> None:
    status = route.fetch().json()
    status["judge"] = {"trouble": "judge endpoint offline answered 401", "deferred": None}
    route.fulfill(json=status)


def ask(browser: Any, address: str, user: str, password: str) -> dict[str, int]:
    credentials = {"username": user, "password": password}
    context = browser.new_context(ignore_https_errors=True, http_credentials=credentials)
    page, seen = context.new_page(), dict[str, int]()
    page.on("response", lambda answer: seen.setdefault(answer.url.removeprefix(address), answer.status))
    with page.expect_response("**/status.json") as polled:
        page.goto(address + "/")
    return seen | {"/status.json": polled.value.status}


def main(address: str, chromium: str, folder: str, *login: str) -> None:
    from playwright.sync_api import sync_playwright  # type: ignore[import-not-found] # a tool, not a dependency

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        if login:
            seen: dict[str, Any] = ask(browser, address, *login)
        else:
            seen = {name: look(browser, address, folder, name) for name in VIEWS}
        print(json.dumps(seen))  # noqa: T201 - the result
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
