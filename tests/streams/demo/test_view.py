"""The live view: its content, its size, and its escaping of untrusted text."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from streams.demo.accounting import Accounts
from streams.demo.board import Board, Series
from streams.demo.view import Flow, Heading, LiveView, sparkline, standing_alerts
from streams.monitoring.statistics.estimators import WeightedSums
from tests.streams.results import alert, failed, scored

HOSTILE = "\x1b[2J\x07[bold red]\u202eevil"
HEADING = Heading(
    broker="broker 127.0.0.1:40000 (in memory, loopback only)",
    judge="offline-rules-1",
    judge_note="(rules, no language model)",
    page="page http://127.0.0.1:40001/  metrics http://127.0.0.1:40001/metrics",
    ranges={"coverage": (0, 5), "relevance": (1, 5)},
)


def board_with(results: int, *, label: str = "docs") -> Board:
    board = Board(Accounts("qa.events"), ("coverage", "relevance"))
    for number in range(results):
        labels = {"app": label, "model": f"m{number % 3}"}
        result = scored(number, 5 if number < results / 2 else 1, labels=labels)
        board.add_result(result, seconds=number / 10)
    return board


def frame(board: Board, *, width: int = 80, height: int = 24) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=False, color_system=None)
    view = LiveView(board, HEADING)
    view.flow = Flow(seconds=30, read_a_second=20, judged_a_second=18, lag=4, sampled=300)
    console.print(view, end="")
    return out.getvalue().splitlines()


@pytest.mark.parametrize("results", [0, 3, 300])
@pytest.mark.parametrize("alerts", [0, 2, 9])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 45)])
def test_fits_its_terminal(results: int, alerts: int, width: int, height: int) -> None:
    """The view fits width and height of the terminal, with any number of results and alerts."""
    board = board_with(results)
    for number in range(alerts):
        board.accounts.add_alert(alert(f"a{number}", labels={"app": f"app-{number}"} if number else {}))
    lines = frame(board, width=width, height=height)
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width


def test_shows_the_drop() -> None:
    """The view shows the current mean 1.00, the first mean 5.00, the alert and the judge's name."""
    board = board_with(300)
    board.accounts.add_alert(alert("a"))
    text = "\n".join(frame(board))
    metric_line = next(line for line in frame(board) if line.startswith("relevance"))
    assert metric_line.split()[1] == "1.00"
    assert "5.00" in metric_line
    assert "DROP" in text
    assert "summary of a" in text
    assert "offline-rules-1 (rules, no language model)" in text
    assert "http://127.0.0.1:40001/metrics" in text


def test_hostile_text_is_shown_and_does_nothing() -> None:
    """Control characters and markup in labels, reasons and summaries are escaped."""
    board = board_with(20, label=HOSTILE)
    board.add_result(scored(100, 1, justification=HOSTILE), seconds=3)
    board.add_result(failed(101), seconds=3)
    board.accounts.add_alert(alert("a", summary=HOSTILE, labels={"app": HOSTILE}))
    lines = frame(board, width=120, height=40)
    assert all(line.isprintable() for line in lines)
    text = "\n".join(lines)
    assert r"\x1b[2J\x07[bold red]\u202eevil" in text
    assert "content_refused" in text


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
    """Each mean is one bar, the newest at the right; a missing mean is a gap."""
    series = Series(now=WeightedSums(), baseline=None, spark=means)
    assert sparkline(series, 1, 5, 3).plain == bars


def test_alerts_of_all_traffic_precede_those_of_parts() -> None:
    """Alerts of all traffic precede those of parts; each part shows its latest alert, newest first."""
    part = alert("part", labels={"app": "a"}, seconds=5)
    whole, again = alert("whole", seconds=1), alert("whole again", seconds=2)
    standing = standing_alerts([part, whole, again, alert("other part", labels={"app": "b"}, seconds=9)])
    assert [one.alert_id for one in standing] == ["whole again", "other part", "part"]


def test_a_recovery_replaces_its_drop_and_goes_when_it_is_old() -> None:
    """A recovery replaces its drop and disappears after 60 s."""
    drop, recovered = alert("drop", seconds=0), alert("up", "recovered", seconds=50)
    assert [one.alert_id for one in standing_alerts([drop, recovered])] == ["up"]
    later = alert("later", seconds=111, labels={"app": "a"})
    assert [one.alert_id for one in standing_alerts([drop, recovered, later])] == ["later"]
