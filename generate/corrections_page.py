"""Generate the reference of corrections and suspicions from `schemas.findings`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

from generate.places import DOCS
from generate.tables import table
from schemas.findings import MEANINGS, SUSPICION_KINDS, ContradictionKind

_INTRODUCTION: Final = """\
# Corrections and suspicions

<!-- Made by `python -m generate --write` from schemas/findings.py; changes here are lost. -->

Code checks what a judge claims. A proven error is a **correction**: the [result](verdicts.md) lists it in
`corrections`, and what it supports does not count. A possible error is a **suspicion**: the result lists it
in `suspicions`, and the score is unchanged; [robustness](robustness.md) has the figures. Prometheus counts
both by kind
(`judgestream_verdict_corrections_total`, `judgestream_verdict_suspicions_total`).
"""

_PARTS: Final = (
    ("Corrections", "Computed in every mode."),
    ("Contradictions", "Corrections, too: the answer and its source contradict each other."),
    ("Suspicions", "No change of the score."),
)


def page() -> str:
    """Return the page."""
    contradictions = get_args(ContradictionKind)
    kinds = (
        sorted(set(MEANINGS) - set(contradictions) - set(SUSPICION_KINDS)),
        contradictions,
        SUSPICION_KINDS,
    )
    parts = [_INTRODUCTION]
    for (title, sentence), names in zip(_PARTS, kinds, strict=True):
        rows = [(f"`{name}`", MEANINGS[name]) for name in names]
        parts.append(f"## {title}\n\n{sentence}\n\n{table(('kind', 'meaning'), rows)}")
    return "\n".join(parts)


def files() -> Mapping[Path, str]:
    """Return the page by its path."""
    return {DOCS / "corrections.md": page()}
