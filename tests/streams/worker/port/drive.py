"""Opens the worker's page in headless Chromium and prints what it shows.

Runs in a Python with playwright. Arguments: the page's address, the browser's path, a folder for screenshots.
"""

from __future__ import annotations

import json
import sys
from typing import Any

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
VIEWS = {
    "wide-light": (1040, 1000, "light"),
    "wide-dark": (1040, 1000, "dark"),
    "narrow-light": (360, 900, "light"),
}

# The lowest contrast of any text with its background (WCAG 2); all colours are opaque.
CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (color !== "rgba(0, 0, 0, 0)") return color;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("h1,h2,h3,p,a,th,td,dt,dd,li,span,b")].filter((one) => one.innerText);
  return Math.min(...texts.map((one) => {
    const [a, b] = [light(getComputedStyle(one).color), light(ground(one))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }));
}"""  # noqa: E501
BROKEN_WORDS = """() => [...document.querySelectorAll("tbody th, td.number, thead th")].filter((one) => {
  const range = document.createRange();
  range.selectNodeContents(one);
  return one.textContent && !/\\s/.test(one.textContent.trim()) && range.getClientRects().length > 1;
}).map((one) => one.textContent)"""


def look(browser: Any, address: str, folder: str, name: str) -> dict[str, Any]:
    """Load the page with one window size and colour scheme."""
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
    answer = page.goto(address)
    page.wait_for_selector("#verdicts tr:nth-child(5)")
    page.wait_for_selector("#charts svg .mean")
    page.keyboard.press("Tab")
    seen = {
        "said": said,
        "headers": dict(answer.headers),
        "first_focus": page.evaluate("document.activeElement.textContent"),
        "text": page.inner_text("body"),
        "ground": page.evaluate("getComputedStyle(document.body).backgroundColor"),
        "contrast": page.evaluate(CONTRAST),
        "broken_words": page.evaluate(BROKEN_WORDS),
        "overflow": page.evaluate("document.documentElement.scrollWidth - window.innerWidth"),
        "hacked": page.evaluate("window.hacked ?? null"),
        "foreign_elements": page.evaluate(
            "document.querySelectorAll('main img, main script, main iframe').length"
        ),
        "landmarks": page.evaluate(
            "['header','main','footer'].filter((one) => document.querySelector(one)).length"
        ),
        "unscoped": page.evaluate("document.querySelectorAll('th:not([scope])').length"),
        "lines": page.evaluate("document.querySelectorAll('#charts svg .mean').length"),
        "bands": page.evaluate("document.querySelectorAll('#charts svg .band').length"),
        "bars": page.evaluate("document.querySelectorAll('#scores progress').length"),
    }
    page.evaluate("document.activeElement.blur()")
    page.screenshot(path=f"{folder}/page-{name}.png")
    if name == "wide-light":
        page.route("**/status.json", lambda route: route.abort())
        page.wait_for_selector("#state:has-text('does not answer')")
        page.wait_for_selector("body[data-stale='true']", timeout=20000)
        seen["lost"] = page.inner_text("header")
        # A failed request is logged on the console.
        seen["said"] = [one for one in said if "net::ERR_FAILED" not in one]
    seen["asked"] = sorted(set(asked))
    page.close()
    return seen


def main(address: str, chromium: str, folder: str) -> None:
    """Load the page with each window size and colour scheme."""
    from playwright.sync_api import sync_playwright  # type: ignore[import-not-found] # a tool, not a dependency

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        print(json.dumps({name: look(browser, address, folder, name) for name in VIEWS}))  # noqa: T201 - the result
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
