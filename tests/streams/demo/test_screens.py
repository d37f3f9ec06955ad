"""Snapshots of the demo's screens at four widths, without colour and in a pipe.

To update them: SCREENS=write python -m pytest tests/streams/demo/test_screens.py
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
from tests.streams.demo.test_view import HEADING
from tests.streams.results import alert, scored

FOLDER = Path(__file__).parent / "screens"
WORDS = "relevance of all answers fell from 4.47 to 1.30 (95% interval 1.03-2.85, 11 judged answers)"
FLOW = Flow(seconds=30, read_a_second=20, judged_a_second=18, lag=4, sampled=300)


def board() -> Board:
    """Return 300 results of three models that fall from 5 to 1 at the 150th, with five alerts."""
    made = Board(Accounts("qa.events"), ("coverage", "relevance"))
    for number in range(300):
        labels = {"app": "support", "model": f"m{number % 3}"}
        made.add_result(scored(number, 5 if number < 150 else 1, labels=labels), seconds=number / 10)
    for number in range(5):
        labels = {"app": f"app-{number}"} if number else {}
        made.accounts.add_alert(alert(f"a{number}", labels=labels, summary=WORDS))
    return made


def screen(width: int, *, colours: bool = False) -> str:
    """Render the live view on a terminal of a width."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, height=30, force_terminal=colours, color_system="standard" if colours else None
    )
    view = LiveView(board(), HEADING)
    view.flow = FLOW
    console.print(view, end="")
    return out.getvalue()


def stopped(width: int) -> str:
    """Render the summary after Ctrl-C."""
    balance = Balance(
        read=300, undecodable=0, unroutable=0, skipped=0, sampled=300, scored=300, unscored=0, failed=0,
        tasks=300, task_dead_letters=0, in_flight=0, lost=0,
    )  # fmt: skip
    headline = "coverage and relevance fell: model=m1 is new"
    incident = {"incident_id": "20ec9d86ed3d", "headline": headline, "alerts": 5}
    values = summary(
        board(), balance, half_way=150, ranges=HEADING.ranges, judge=HEADING.judge, seconds=30.0,
        incidents=[incident],
    )  # fmt: skip
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(as_tables(values, complete=False))
    return out.getvalue()


def piped() -> str:
    """Render the output to a pipe."""
    lines: list[str] = []
    display = PlainDisplay(lines.append)
    shown = Board(Accounts("qa.events"), ("coverage", "relevance"))
    display.begin(shown, HEADING)
    full = board()
    display.begin(full, HEADING)
    display.update(FLOW)
    return "\n".join(lines) + "\n"


def same(name: str, text: str) -> None:
    """Compare with the committed snapshot."""
    text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    file = FOLDER / name
    if os.environ.get("SCREENS") == "write":
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), (
        f"{name} differs from the snapshot; the module's docstring tells how to update it"
    )


@pytest.fixture(autouse=True)
def _utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_live_view(width: int) -> None:
    """The live view equals its snapshot and fits each width."""
    text = screen(width)
    assert max(map(len, text.splitlines())) <= width
    same(f"live-{width}.txt", text)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_summary_after_an_interrupt(width: int) -> None:
    """The summary after an interrupt equals its snapshot at each width."""
    same(f"stopped-{width}.txt", stopped(width))


def test_no_color_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR removes colours (SGR 30-37, 40-47, 90-97) and keeps bold and dim."""
    monkeypatch.setenv("NO_COLOR", "1")
    text = screen(80, colours=True)
    assert "\x1b[" in text
    assert not any(f"\x1b[{code}m" in text for code in (31, 32, 33, "1;37;41"))
    same("live-80-no-color.txt", text)
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[31m" in screen(80, colours=True)


def test_a_pipe_gets_plain_lines() -> None:
    """Output to a pipe has no escape sequence and one line per incident."""
    text = piped()
    assert "\x1b" not in text
    same("piped.txt", text)
