"""Two ways to show the board: a live view on a terminal, and plain lines everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from judge.text.printable import printable, reason_of
from schemas import Failed, Scored
from streams.demo.board import Board
from streams.demo.view import Flow, Heading, LiveView
from streams.store.views.incidents import Incident, group, title

LINE_SECONDS = 2.0


class LiveDisplay:
    """Draws the view on the whole terminal, and restores the terminal at the end."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, screen=True, auto_refresh=False, transient=True)
        self._view: LiveView | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def begin(self, board: Board, heading: Heading) -> None:
        """Set the board and heading; called again when the heading changes."""
        self._view = LiveView(board, heading)

    def update(self, flow: Flow) -> None:
        """Draw a frame."""
        if self._view is not None:
            self._view.flow = flow
            self._live.update(self._view, refresh=True)


class PlainDisplay:
    """Writes a line every few seconds, and one when an incident starts or ends.

    Args:
        write: Writes one line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._board: Board | None = None
        self._heading: Heading | None = None
        self._next = LINE_SECONDS
        self._alerts = 0
        self._told: dict[str, str] = {}
        self._has_verdict = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing."""

    def begin(self, board: Board, heading: Heading) -> None:
        """Write the addresses of the parts."""
        if self._heading is None:
            self._write(f"{heading.broker}; judge {printable(heading.judge)} {heading.judge_note}")
        else:
            self._write(heading.page)
        self._board, self._heading = board, heading

    def _tell_incidents(self, incidents: Sequence[Incident]) -> None:
        """Write each incident's changes, instead of an alert for each of its series."""
        for one in incidents:
            state = "drop" if one.ended_at is None else "recovered"
            if self._told.get(one.incident_id) != state:
                self._told[one.incident_id] = state
                first = one.drops[0].summary if state == "drop" else title(one)
                self._write(f"ALERT {state}, incident {one.incident_id}: {printable(first, 400)}")

    def update(self, flow: Flow) -> None:
        """Write the changes since the last call."""
        board, heading = self._board, self._heading
        if board is None or heading is None:
            return
        if not self._has_verdict and board.verdicts:
            self._has_verdict = True
            first = board.verdicts[-1]
            score = first.shown if isinstance(first, Scored) else first.status
            self._write(
                f"first verdict after {board.first_verdict_seconds:.1f} s: {first.metric} {score}: "
                f"{reason_of(first, 120)}"
            )
        if len(board.alerts) > self._alerts:
            self._alerts = len(board.alerts)
            self._tell_incidents(group(board.alerts))
        if flow.seconds < self._next:
            return
        self._next = flow.seconds + LINE_SECONDS
        means = ", ".join(
            f"{name} {'-' if series.now.mean is None else f'{series.now.mean:.2f}'}"
            for name, series in board.series(flow.seconds).items()
        )
        failed = sum(isinstance(result, Failed) for result in board.verdicts)
        self._write(
            f"{flow.seconds:.0f} s: read {board.accounts.read} ({flow.read_a_second:.0f}/s), "
            f"sampled {flow.sampled}, judged {board.results} ({flow.judged_a_second:.0f}/s), lag {flow.lag}; "
            f"now {means}" + (f"; {failed} of the last {len(board.verdicts)} failed" if failed else "")
        )
