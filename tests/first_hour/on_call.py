"""What follows a first verdict: a drop, its alert and incident, a person's label, and an export."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from streams.demo.events import load_questions, make_record
from tests.first_hour.terminal import Terminal

GOOD, WORSE = 350, 250
CONFIG = "--config settings.yaml"
_MEAN_FELL = re.compile(r"(coverage|relevance) of all answers( fell from|: [2-5]\.\d+ to [0-4]\.)")
Until = Callable[[Callable[[], bool], Callable[[], str]], None]


def from_alert_to_export(terminal: Terminal, folder: Path, port: int, until: Until) -> None:
    """Go on where README ends: its worker, broker and judge are running in `folder`."""

    def typed(command: str) -> str:
        code, said = terminal.type(f"judgestream {command}")
        assert code == 0, f"{command}: {said}"
        return said

    def until_it_says(command: str, *words: str) -> str:
        said = [""]

        def holds() -> bool:
            said[0] = terminal.type(f"judgestream {command}")[1]
            return all(word in said[0] for word in words)

        until(holds, lambda: said[0])
        return said[0]

    _write_traffic(folder / "traffic.jsonl")
    terminal.type_beside(f"JUDGESTREAM_TELEMETRY__PORT=0 judgestream worker {CONFIG} --agents store")
    alerts = terminal.type_beside(f"judgestream tail --topic qa.alerts --from-beginning {CONFIG}")
    typed(f"produce traffic.jsonl {CONFIG}")
    # A mean that fell or a share of bad answers that rose: whichever alarm comes first leads the incident.
    # The mean's fall is then a part of it.
    until(lambda: bool(re.search(r" INCIDENT .* (fell|rose) from ", alerts.read_text())), alerts.read_text)
    until(lambda: bool(_MEAN_FELL.search(alerts.read_text())), alerts.read_text)
    until_it_says(f"incident latest {CONFIG}", "prompt_version=v8", "Worst answers since", "  Q: ", "  A: ")
    assert typed(f"incident latest {CONFIG}").startswith("#")

    review = terminal.type_beside(f"judgestream review {CONFIG} --port {port} --who ada")
    until(lambda: f":{port}" in review.read_text(), review.read_text)
    labelled = _label_one(port)
    until_it_says(f"labels agreement {CONFIG}", "1 label")

    rows = list(csv.DictReader(io.StringIO(typed(f"export {CONFIG} --since 1d --format csv"))))
    assert len(rows) >= GOOD + WORSE
    assert [row["human_who"] for row in rows if row["result_id"] == labelled] == ["ada"]


def _write_traffic(path: Path) -> None:
    """Write what an application would send: answers that get worse with a new prompt version."""
    questions, now = load_questions(), datetime.now(UTC)
    records = (make_record(questions, n, worse=n >= GOOD, occurred_at=now) for n in range(GOOD + WORSE))
    path.write_bytes(b"\n".join(record.value for record in records) + b"\n")


def _label_one(port: int) -> str:
    """Say "4" to the first answer of the queue, as the page does; returns its result id."""
    queue = _answer(port, "GET", "/review/api/queue?kind=random&size=1", None, {})
    chosen = str(queue["tasks"][0]["result_id"])
    headers = {"Content-Type": "application/json", "X-Review-Token": queue["token"]}
    sent = json.dumps({"result_id": chosen, "score": 4})
    assert _answer(port, "POST", "/review/api/label", sent, headers)["label_id"]
    return chosen


def _answer(port: int, method: str, path: str, body: str | None, headers: dict[str, str]) -> Any:
    connection = HTTPConnection("127.0.0.1", port)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        return json.load(connection.getresponse())
