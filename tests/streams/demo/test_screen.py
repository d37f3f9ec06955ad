"""The demo's screens: snapshots at four widths, without colour and in a pipe; size, trouble, hostile text.

To update the snapshots: SCREENS=write python -m pytest tests/streams/demo/test_screen.py
"""

from __future__ import annotations

import io
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from rich.console import Console
from rich.screen import Screen

from streams.demo.accounting import Accounts, Incidents
from streams.demo.screen import PlainDisplay, View, screen, sparkline, summary, summary_lines
from streams.settings.broker import TopicSettings
from streams.settings.outputs import StoreSettings
from tests.streams.results import alert, scored

FOLDER = Path(__file__).parent / "screens"
RANGES = {"coverage": (0.0, 5.0), "relevance": (1.0, 5.0)}
WORDS = "relevance of all answers fell from 4.47 to 1.30 (95% interval 1.03-2.85, 11 judged answers)"
HOSTILE = "\x1b[2J\x07[bold red]\u202eevil"


def series(results: int, labels: dict[str, str], scored_verdicts: int, recent: float) -> dict[str, Any]:
    interval = (recent, recent, recent + 0.25) if results else (None, None, None)
    numbers = dict(zip(("recent", "recent_low", "recent_high"), interval, strict=True))
    usual = {"metric": "relevance", "line": "relevance", "baseline": 5.0 if results > 100 else None}
    return usual | numbers | {"labels": labels, "scored": scored_verdicts}


def status(results: int, label: str) -> dict[str, Any]:
    """A worker's status after results that fell from 5 to 1 half-way."""
    means = [[5.0 if number < 7 else 1.0] if number != 4 else None for number in range(min(results, 15))]
    verdict = {"metric": "relevance", "status": "scored", "score": 1, "reason": "Because."}
    return {
        "lag_records": {"qa.events": 4},
        "history": {"lines": {"relevance": means}},
        "series": [
            series(results, {}, results, 1.0),
            series(results, {"app": label}, results, 3.0),
            *(series(results, {"model": f"m{number}"}, results // 3, 3.0 + number) for number in range(3)),
        ],
        "verdicts": [
            verdict | {"labels": {"app": label, "model": f"m{n % 3}"}} for n in range(min(results, 20))
        ],
    }


def view(results: int = 300, *, alerts: int = 5, label: str = "support", **fields: Any) -> View:
    """Return a view of results that fall half-way, and of the alerts of one incident."""
    accounts = Accounts(TopicSettings())
    for number in range(results):
        accounts.add(scored(number, 5 if number < results / 2 else 1))
    for number in range(alerts):
        labels = {"app": f"app-{number}"} if number else {}
        accounts.add(alert(f"a{number}", labels=labels, summary=WORDS))
    incidents = Incidents(accounts, StoreSettings(), "http://127.0.0.1:40001")
    usual: dict[str, Any] = {
        "broker": "broker 127.0.0.1:40000 (in memory, loopback only)",
        "judge": "offline-rules-1",
        "judge_note": "rules, no language model",
        "page": "page http://127.0.0.1:40001/  metrics http://127.0.0.1:40001/metrics",
        "seconds": 30,
        "status": status(results, label),
    }
    return View(accounts, incidents, RANGES, **usual | fields)


def drawn(shown: View, *, width: int = 80, height: int = 30, colours: bool = False) -> str:
    out = io.StringIO()
    system: Literal["standard"] | None = "standard" if colours else None
    console = Console(file=out, width=width, height=height, force_terminal=colours, color_system=system)
    console.print(Screen(screen(shown, width=width, height=height)), end="")
    return out.getvalue()


def piped(*views: View) -> str:
    lines: list[str] = []
    display = PlainDisplay(lines.append)
    for one in views:
        display(one)
    return "\n".join(lines) + "\n"


def same(name: str, text: str) -> None:
    text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    file = FOLDER / name
    if os.environ.get("SCREENS") == "write":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{name} differs; the module says how to update it"


@pytest.fixture(autouse=True)
def _utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_live_view(width: int) -> None:
    text = drawn(view(), width=width)
    assert max(map(len, text.splitlines())) <= width
    same(f"live-{width}.txt", text)


def test_the_summary() -> None:
    balance = Counter(dict.fromkeys(("read", "sampled", "scored", "tasks"), 300))
    same("summary.txt", "\n".join(summary_lines(summary(view(), balance, half_way=150), complete=True)))


def test_no_color_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR removes colours (SGR 30-37, 40-47, 90-97) and keeps bold and dim."""
    monkeypatch.setenv("NO_COLOR", "1")
    text = drawn(view(), colours=True)
    assert "\x1b[" in text
    assert not any(f"\x1b[{code}m" in text for code in (31, 32, 33, "1;37;41"))
    same("live-80-no-color.txt", text)
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[31m" in drawn(view(), colours=True)


def test_a_pipe_gets_plain_lines() -> None:
    """One line per incident, however often it is updated."""
    shown = view()
    text = piped(view(0, alerts=0, seconds=1, status={}), shown, shown)
    assert "\x1b" not in text
    same("piped.txt", text)


@pytest.mark.parametrize("results", [0, 3, 300])
@pytest.mark.parametrize("alerts", [0, 2, 9])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 45)])
def test_fits_its_terminal(results: int, alerts: int, width: int, height: int) -> None:
    lines = drawn(view(results, alerts=alerts, trouble="w" * 300), width=width, height=height).splitlines()
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width


def test_an_incident_that_is_over_says_so() -> None:
    shown = view(alerts=1)
    shown.accounts.add(alert("up", "recovered", seconds=50))
    assert " OVER " in drawn(shown)
    assert "ALERT recovered, incident a0" in piped(shown)


def test_a_judge_that_does_not_answer_is_named_instead_of_waiting() -> None:
    """Plain lines tell it once, and when it is over."""
    trouble = "judge endpoint openai answered 402. Check the account's balance"
    assert "waiting for the first verdict" in drawn(view(0, alerts=0))
    text = drawn(view(0, alerts=0, trouble=trouble))
    assert trouble in text
    assert "waiting" not in text
    lines = piped(view(0, trouble=trouble), view(0, trouble=trouble), view(0)).splitlines()
    assert [line for line in lines if "JUDGE" in line] == [f"JUDGE {trouble}", "JUDGE answers again"]


def test_hostile_text_is_shown_and_does_nothing() -> None:
    shown = view(20, alerts=0, label=HOSTILE)
    one = shown.status["verdicts"][0]
    one |= {"status": "failed", "score": None, "reason": f"content_refused: {HOSTILE}"}
    shown.accounts.add(alert("a", summary=HOSTILE, labels={"app": HOSTILE}))
    for text in (drawn(shown, width=120, height=40), piped(shown)):
        assert all(line.isprintable() for line in text.splitlines())
        assert r"\x1b[2J\x07[bold red]\u202eevil" in text
    assert "content_refused" in drawn(shown, width=120, height=40)


@pytest.mark.parametrize(
    ("means", "bars"),
    [
        ((1.0, 3.0, 5.0), "▁▅█"),  # fractions 0, 0.5, 1 of seven steps: 0, round(3.5) = 4, 7
        ((1.0, None, 5.0), "▁ █"),
        ((), ""),
        ((5.0, 5.0, 5.0, 1.0, 1.0), "█▁▁"),  # width 3: the newest three
    ],
)
def test_sparkline(means: tuple[float | None, ...], bars: str) -> None:
    assert sparkline(means, (1, 5), 3).plain == bars
