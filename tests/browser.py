"""What tests in headless Chromium measure on each page. Runs in a Python with playwright and axe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
VIEWS = {
    "light": (1440, 900, "light"),
    "dark": (1440, 900, "dark"),
    "phone": (390, 844, "light"),
    "phone-dark": (390, 844, "dark"),
}
"""Width, height and colour scheme."""
# Targets below 24 pixels (WCAG 2.2, 2.5.8); none has the exceptions of a sentence.
_SMALL = """() => [...document.querySelectorAll("a, button, input, select, summary, textarea")]
  .filter((one) => one.offsetParent).map((one) => [one.outerHTML.slice(0, 90), one.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.width < 24 || box.height < 24)).map(([text]) => text)"""
_AXE = (
    "axe.run(document, {rules: {'target-size': {enabled: true}}})"
    ".then((found) => JSON.stringify(found.violations))"
)


def faults(page: Any) -> list[str]:
    """Return what axe-core finds (WCAG 2.2 AA, best practices), small targets and sideways scrolling."""
    import axe_playwright_python  # type: ignore[import-not-found] # a tool, not a dependency

    script = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    # In an isolated world, so that the page's content security policy stays in force.
    session = page.context.new_cdp_session(page)
    frame = session.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
    made = session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "axe"})
    for code in (script, _AXE):
        answer = session.send(
            "Runtime.evaluate",
            {
                "expression": code,
                "contextId": made["executionContextId"],
                "awaitPromise": True,
                "returnByValue": True,
            },
        )
    found = [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in json.loads(answer["result"]["value"])]
    found += [f"small: {one}" for one in page.evaluate(_SMALL)]
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return [*found, f"overflow: {wide}"] if wide > 0 else found
