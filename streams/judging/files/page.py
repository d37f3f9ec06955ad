"""Write a run's summary as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from judge.text.printable import printable
from streams.judging.files.comparison import Comparison
from streams.judging.files.summary import FileSummary, Summary

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1c1e21;background:#fff}
table{border-collapse:collapse;margin:1rem 0;width:100%}td,th{border-bottom:1px solid #d0d4da;padding:.35rem .6rem;text-align:left}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.bar{background:#3f51b5;height:.9rem;border-radius:2px}
.worse{color:#b3261e}small{color:#5b616a}
@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#16181c}td,th{border-color:#3a3f47}.bar{background:#8c9eff}
small{color:#a0a6af}.worse{color:#ff8a80}}
"""  # noqa: E501


def page(title: str, summary: FileSummary, comparisons: Sequence[Comparison] = ()) -> str:
    """Return the page.

    Args:
        title: Name of the input.
        summary: The summary.
        comparisons: Comparisons with an earlier run.
    """
    shown = escape(printable(title, 200))
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{shown}</title>',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        (
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
            "'unsafe-inline'\">"
        ),
        f"<style>{_STYLE}</style><h1>{shown}</h1>",
        f"<p>{summary.lines:,} lines, {summary.invalid.total():,} of them not events.</p>",
        *(f"<p{' class=worse' if one.is_worse else ''}>{escape(one.text())}</p>" for one in comparisons),
    ]
    for metric in summary.metrics:
        parts += _metric(metric)
    return "\n".join(parts) + "\n"


def _metric(summary: Summary) -> Iterable[str]:
    ends = summary.interval()
    yield f"<h2>{escape(summary.metric)}</h2>"
    if ends is not None and summary.scored.mean is not None:
        yield (
            f"<p><strong>{summary.scored.mean:.2f}</strong> <small>95% interval {ends[0]:.2f} to "
            f"{ends[1]:.2f}, {summary.scored.count:,} scored</small></p>"
        )
    yield f"<p><small>{escape(summary.spending.line())}</small></p>"
    if summary.distribution:
        most = max(summary.distribution.values())
        yield _table(
            ("score", "share", "answers"),
            [
                (
                    escape(printable(score, 60)),
                    f'<div class="bar" style="width:{100 * count / most:.0f}%"></div>',
                    f"{count:,}",
                )
                for (_, score), count in sorted(summary.distribution.items(), reverse=True)
            ],
        )
    reasons = [("unscored", *one) for one in summary.unscored.most_common()]
    reasons += [("failed", *one) for one in summary.failed.most_common()]
    if reasons:
        yield _table(
            ("without a score", "reason", "answers"),
            [(status, escape(reason), f"{count:,}") for status, reason, count in reasons],
        )
    yield from _labels(summary)
    if summary.worst_first():
        yield "<h3>Lowest scores</h3>"
        yield _table(
            ("event", "reason", "score"),
            [
                (escape(printable(bad.event_id, 100)), escape(bad.reason), f"{bad.score:g}")
                for bad in summary.worst_first()
            ],
        )


def _labels(summary: Summary) -> Iterable[str]:
    for name, values in summary.by_label.items():
        if len(values) < 2:
            continue
        yield f"<h3>By {escape(printable(name, 64))}</h3>"
        rows = []
        for value, sums in sorted(values.items(), key=lambda item: item[1].mean or 0.0):
            ends = summary.interval(sums) or summary.score_range
            rows.append(
                (
                    escape(printable(value, 100)),
                    f"{sums.mean or 0.0:.2f} <small>{ends[0]:.2f} to {ends[1]:.2f}</small>",
                    f"{sums.count:,}",
                )
            )
        yield _table(("value", "mean", "scored"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose last column holds numbers; cells must be HTML."""
    first = "".join(
        f"<th{' class=n' if number == len(head) - 1 else ''}>{cell}</th>" for number, cell in enumerate(head)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=n' if number == len(row) - 1 else ''}>{cell}</td>"
            for number, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{first}</tr>{body}</table>"
