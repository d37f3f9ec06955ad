"""The demo's screens as people see them, at four widths, without colour and in a pipe, beside committed ones.

After a wanted change: SCREENS=write python -m pytest tests/streams/demo/test_screens.py
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from streams.demo.accounting import Accounts, Balance
from streams.demo.board import Board
from streams.demo.displays import PlainDisplay
from streams.demo.summary import as_tables, summary
from streams.demo.view import Flow, LiveView
from tests.streams.demo.test_view import HEADING, alert
from tests.streams.results import scored

FOLDER = Path(__file__).parent / "screens"
WORDS = "relevance of all answers fell from 4.47 to 1.30 (95% interval 1.03-2.85, 11 judged answers)"
FLOW = Flow(seconds=30, read_a_second=20, judged_a_second=18, lag=4, sampled=300)


def board() -> Board:
    """300 answers of three models, good at first and bad from the 150th on.

    The drop and four parts of it were called.
    """
    made = Board(Accounts("qa.events"), ("coverage", "relevance"))
    for number in range(300):
        labels = {"app": "support", "model": f"m{number % 3}"}
        made.add_result(scored(number, 5 if number < 150 else 1, labels=labels), seconds=number / 10)
    for number in range(5):
        labels = {"app": f"app-{number}"} if number else {}
        made.accounts.add_alert(alert(f"a{number}", labels=labels, summary=WORDS))
    return made


def screen(width: int, *, colours: bool = False) -> str:
    """The live view on a terminal of a width."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, height=30, force_terminal=colours, color_system="standard" if colours else None
    )
    view = LiveView(board(), HEADING)
    view.flow = FLOW
    console.print(view, end="")
    return out.getvalue()


def stopped(width: int) -> str:
    """What is said after Ctrl-C."""
    balance = Balance(
        read=300, undecodable=0, unroutable=0, skipped=0, sampled=300, scored=300, unscored=0, failed=0,
        tasks=300, task_dead_letters=0, in_flight=0, lost=0,
    )  # fmt: skip
    incident = {
        "incident_id": "20ec9d86ed3d",
        "headline": "coverage and relevance fell: model=m1 is new",
        "alerts": 5,
    }
    values = summary(
        board(),
        balance,
        half_way=150,
        ranges=HEADING.ranges,
        judge=HEADING.judge,
        seconds=30.0,
        incidents=[incident],
    )
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(as_tables(values, complete=False))
    return out.getvalue()


def piped() -> str:
    """What a log gets."""
    lines: list[str] = []
    display = PlainDisplay(lines.append)
    shown = Board(Accounts("qa.events"), ("coverage", "relevance"))
    display.begin(shown, HEADING)
    full = board()
    display.begin(full, HEADING)
    display.update(FLOW)
    return "\n".join(lines) + "\n"


def same(name: str, text: str) -> None:
    """Compare with what is committed; clock times are the machine's own zone."""
    text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    file = FOLDER / name
    if os.environ.get("SCREENS") == "write":
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{name} is another; see the head of this module"


@pytest.fixture(autouse=True)
def _utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_live_view(width: int) -> None:
    """All that matters is there at each width, and nothing is wider."""
    text = screen(width)
    assert max(map(len, text.splitlines())) <= width
    same(f"live-{width}.txt", text)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_summary_after_an_interrupt(width: int) -> None:
    """It names the means and what fell."""
    same(f"stopped-{width}.txt", stopped(width))


def test_no_color_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bold and dim stay, no colour is set (SGR 30-37, 40-47, 90-97)."""
    monkeypatch.setenv("NO_COLOR", "1")
    text = screen(80, colours=True)
    assert "\x1b[" in text
    assert not any(f"\x1b[{code}m" in text for code in (31, 32, 33, "1;37;41"))
    same("live-80-no-color.txt", text)
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[31m" in screen(80, colours=True)


def test_a_pipe_gets_plain_lines() -> None:
    """No escape, one line an incident."""
    text = piped()
    assert "\x1b" not in text
    same("piped.txt", text)
