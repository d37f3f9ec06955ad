"""Uses the explorer in headless Chromium and prints what is to be seen.

Runs in the Python with playwright and axe.

Arguments: the explorer's address, the browser's path, a folder for pictures, the id of a verdict with hostile
    texts, the id of an alert.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
VIEWS = {"light": (1280, 900, "light"), "dark": (1280, 900, "dark"), "phone": (390, 844, "light")}
_DONE = "body[data-busy='false']"


def axe(page: Any, script: str) -> list[str]:
    """Name what axe-core finds: WCAG 2 A and AA, and its best practices."""
    # In a world of its own, so that the page's policy need not be loosened for it.
    session = page.context.new_cdp_session(page)
    frame = session.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
    world = session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "axe"})[
        "executionContextId"
    ]
    for code in (script, "axe.run(document).then((found) => JSON.stringify(found.violations))"):
        answer = session.send(
            "Runtime.evaluate",
            {"expression": code, "contextId": world, "awaitPromise": True, "returnByValue": True},
        )
    found = json.loads(answer["result"]["value"])
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found]


class Visit:
    """One view of the explorer."""

    def __init__(self, browser: Any, name: str, address: str, folder: str, script: str) -> None:
        width, height, scheme = VIEWS[name]
        self.page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.name, self.address, self.folder, self.script = name, address, folder, script
        self.seen: dict[str, Any] = {"said": [], "asked": [], "axe": {}, "overflow": {}}
        self.page.on("console", lambda message: self.seen["said"].append(message.text))
        self.page.on("pageerror", lambda error: self.seen["said"].append(str(error)))
        self.page.on("dialog", lambda dialog: self.seen["said"].append(dialog.message))
        self.page.on("request", lambda request: self.seen["asked"].append(request.url))

    def look(self, what: str) -> None:
        """Take a picture, let axe look, and see whether the page is wider than the screen."""
        self.page.screenshot(path=f"{self.folder}/{what}-{self.name}.png")
        self.seen["axe"][what] = axe(self.page, self.script)
        width = "document.documentElement.scrollWidth - window.innerWidth"
        self.seen["overflow"][what] = self.page.evaluate(width)

    def open(self, path: str) -> None:
        """Go to a page and wait until it is filled."""
        self.page.goto(self.address + path)
        self.page.wait_for_selector(_DONE)

    def count(self) -> str:
        """What the list says it holds."""
        self.page.wait_for_selector(_DONE)
        return str(self.page.inner_text("#count"))


def by_keys(visit: Visit) -> None:
    """The search, the next answer, its page, the one after it, and back."""
    page, seen = visit.page, visit.seen
    visit.open("/explore")
    seen["all"] = visit.count()
    visit.look("list")
    page.keyboard.press("/")
    page.keyboard.type("cupboard")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=cupboard*")
    seen["found"] = visit.count()
    page.go_back()
    page.wait_for_function("!location.search")
    seen["back"] = visit.count()
    seen["emptied"] = page.input_value("#q")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    seen["focused"] = page.evaluate(
        "[...document.querySelectorAll('#rows a.row')].indexOf(document.activeElement)"
    )
    page.keyboard.press("Enter")
    page.wait_for_url("**/explore/verdict/*")
    page.wait_for_selector(_DONE)
    first = page.url
    page.keyboard.press("j")
    page.wait_for_function("(one) => location.href !== one", arg=first)
    page.wait_for_selector(_DONE)
    page.keyboard.press("u")
    page.wait_for_url("**/explore")
    page.wait_for_selector(_DONE)


def by_pointer(visit: Visit) -> None:
    """A filter that can be passed on as a link; the worst answer's evidence, one click from the list."""
    page, seen = visit.page, visit.seen
    page.select_option("select[name=label]", "app=support")
    page.wait_for_url("**label=app*")
    seen["labelled"] = visit.count()
    page.reload()
    seen["shared"] = visit.count()
    page.click("#chips button")
    page.wait_for_function("!location.search")
    page.wait_for_selector(_DONE)
    page.click("#rows a.row >> nth=0")
    page.wait_for_url("**/explore/verdict/*")
    page.wait_for_selector("mark")
    visit.look("verdict")
    seen["marks"] = page.evaluate(
        "[...document.querySelectorAll('mark')].map((one) => one.className + ':' + one.innerText)"
    )
    page.click("li.item button >> nth=0")
    seen["lit"] = page.evaluate("document.querySelectorAll('mark.lit').length")
    page.click("a[href*='/explore?label']")
    page.wait_for_url("**/explore?label*")


def from_an_alert(visit: Visit, alert: str) -> None:
    """Two clicks: an alert's link, of either form, and the worst answer on its incident's page."""
    page, seen = visit.page, visit.seen
    visit.open("/explore/incidents")
    visit.look("incidents")
    seen["listed"] = page.get_attribute("#rows a.row", "href")
    seen["led"] = []
    for link in (f"{alert}", "latest?metric=relevance"):
        page.goto("about:blank")
        page.set_content(f"<a href='{visit.address}/explore/incident/{link}'>an alert</a>")
        page.click("a")
        page.wait_for_selector(_DONE)
        seen["led"].append(page.url.removeprefix(visit.address))
    visit.look("incident")
    seen["incident"] = page.inner_text("main")
    page.click("a.row >> nth=0")
    page.wait_for_url("**/explore/verdict/*")
    page.wait_for_selector("mark.bad")
    page.keyboard.press("u")
    page.wait_for_url("**/explore/incident/*")


def hostile_texts(visit: Visit, hostile: str) -> None:
    """A verdict whose texts are markup, reordered, and a megabyte of answer with 2,000 pages."""
    page, seen = visit.page, visit.seen
    visit.open(f"/explore/verdict/{hostile}")
    visit.look("hostile")
    seen["texts"] = page.inner_text("#texts")[:4000]
    seen["pages"] = page.evaluate("document.querySelectorAll('details.page').length")
    page.click("text=further pages")
    seen["all_pages"] = page.evaluate("document.querySelectorAll('details.page').length")
    seen["hacked"] = page.evaluate("window.hacked ?? null")
    seen["foreign"] = page.evaluate("document.querySelectorAll('main img, main script, main iframe').length")
    visit.open("/explore?event=nobody")
    seen["nothing"] = page.inner_text("#rows")


def walk(visit: Visit, hostile: str, alert: str) -> dict[str, Any]:
    """Use list and verdict as a person would."""
    by_keys(visit)
    by_pointer(visit)
    from_an_alert(visit, alert)
    if visit.name != "dark":
        hostile_texts(visit, hostile)
    visit.page.close()
    return visit.seen


def main(address: str, chromium: str, folder: str, hostile: str, alert: str) -> None:
    """Look at all views."""
    import axe_playwright_python  # type: ignore[import-not-found] # as below
    from playwright.sync_api import sync_playwright  # type: ignore[import-not-found] # a tool, not one of our packages

    script = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        visits = {name: walk(Visit(browser, name, address, folder, script), hostile, alert) for name in VIEWS}
        browser.close()
    print(json.dumps(visits))  # noqa: T201 - its answer


if __name__ == "__main__":
    main(*sys.argv[1:])
