"""Generate docs/alert-situations.md from the table that the rules are tested with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from generate.places import DOCS, ROOT
from generate.tables import table

TABLE: Final = ROOT / "generate" / "situations.yaml"
_ALERTS: Final = ROOT / "helm" / "files" / "alerts.yaml"
_INTRODUCTION: Final = """\
# What fires when

<!-- Made by `python -m generate --write` from generate/situations.yaml; changes here are lost. -->

A row is a situation in an installation with intake, judges, monitor and store in workers of their own. The
alerts named fire, and **no other does at any time**, which a test of each row with Prometheus' engine holds.
Those of *passing* may fire for a while. The other alerts ([Alerts](alerts.md)) are about the answers.
"""


def page() -> str:
    """Return the page."""
    situations = yaml.safe_load(TABLE.read_text(encoding="utf-8"))["situations"]
    groups = yaml.safe_load(_ALERTS.read_text(encoding="utf-8"))["groups"]
    severities = {rule["alert"]: rule["labels"]["severity"] for group in groups for rule in group["rules"]}
    parts = [_INTRODUCTION]
    for title in dict.fromkeys(one["group"] for one in situations):
        rows = [_row(one, severities) for one in situations if one["group"] == title]
        parts += [f"## {title}\n", table(("what happens", "critical", "warning", "passing"), rows)]
    return "\n".join(parts)


def _row(situation: Mapping[str, Any], severities: Mapping[str, str]) -> tuple[str, ...]:
    fires = [name for one in situation.get("fires", ()) for name in one]
    cells = [
        _links(dict.fromkeys(name for name in fires if severities[name] == severity))
        for severity in ("critical", "warning")
    ]
    return situation["what"], *cells, _links(dict.fromkeys(situation.get("passing", ())))


def _links(names: Mapping[str, None]) -> str:
    short = ((name.removeprefix("Judgestream"), name.lower()) for name in names)
    return ", ".join(f"[{shown}](alerts.md#{anchor})" for shown, anchor in short) or "none"


def files() -> Mapping[Path, str]:
    """Return the page by its path."""
    return {DOCS / "alert-situations.md": page()}
