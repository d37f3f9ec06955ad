"""`judgestream compare`: a release gate over the verdict store."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from typer import Exit, Option, echo

from streams.cli.running import json_text
from streams.cli.session import JSON, STORE, STORE_CONFIG, session

EXIT_CODES: Final = {"no worse": 0, "worse": 1, "not yet": 3}
LONGEST_SECONDS: Final = 120
"""A gate may run longer than a page's query."""


def compare(
    metric: str = Option(..., "--metric", "-m", metavar="NAME", help="The metric."),
    label: str = Option(..., metavar="NAME=OLD,NEW", help="The label, its value in use and the new one."),
    margin: float = Option(0.1, help="Points of the metric's scale that NEW may be lower."),
    alpha: float = Option(0.05, help="Probability of a wrong answer, over all looks together."),
    by: str | None = Option(None, metavar="LABEL", help="Also stratify by this label, such as the app."),
    cluster: str | None = Option(
        None, metavar="LABEL", help="Answers with one value of it, such as the user, count once."
    ),
    since: str | None = Option(None, help="Start time, fixed over all looks: 2026-03-14 or RFC 3339."),
    evaluator: str | None = Option(None, metavar="FINGERPRINT", help="Only scores of this evaluator."),
    config: Path | None = STORE_CONFIG,
    store: Path | None = STORE,
    as_json: bool = JSON,
) -> None:
    """Say whether answers with a new label value score worse than with the old one, at every look.

    Look as often as you like: the error is bounded over all looks. Exit code 0: not worse by the margin;
    1: worse by at least the margin, or an error; 3: not yet known. A share of unscored and failed answers
    that rises by the margin (as a part of the scale) is worse, too. Reads the verdict store
    (judgestream worker --agents store).
    """
    from streams.store.database import StoreReader
    from streams.store.gate import look
    from streams.store.views.explorer import rising_metrics, score_ranges

    settings = session(config, store=store).settings
    query = {
        "metric": metric, "label": label, "margin": str(margin), "alpha": str(alpha), "by": by or "",
        "cluster": cluster or "", "since": since or "", "evaluator": evaluator or "",
    }  # fmt: skip
    ranges, rising, now = score_ranges(settings), rising_metrics(settings), datetime.now(UTC)
    with StoreReader(settings.store.path, longest_seconds=LONGEST_SECONDS).snapshot() as snapshot:
        found = look(snapshot, query, ranges=ranges, rising=rising, now=now)
    echo(json_text(asdict(found)) if as_json else found.text())
    raise Exit(EXIT_CODES[found.answer])
