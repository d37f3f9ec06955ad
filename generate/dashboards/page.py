"""Generate docs/dashboards.md from the panels. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from generate.dashboards.common import RUNBOOKS
from generate.dashboards.grafana import Dashboard, Panel

_INTRODUCTION: Final = f"""\
# Dashboards

<!-- Made by `python -m generate --write`; changes here are lost. -->

Three dashboards for Grafana 11 and newer, in `helm/files/dashboards/`. `docker compose up` and the Helm chart include
them; elsewhere [import them](grafana.md). Start with *Quality*; it links to the other two.

| dashboard | question |
|---|---|
{{rows}}

## Reading them

- **Panel help.** This page has one sentence per panel. The description in Grafana adds thresholds and says why the panel
  may be empty.
- **Weighted.** An answer sampled with probability 0.1 counts ten times in every mean. Counts of results are unweighted.
- **Intervals.** Dashed lines are the ends of a 95% interval. Two means whose intervals overlap may be equal.
- **Evaluators.** A fingerprint identifies prompt, schema, scoring rules, model and parameters; legends show its first
  eight characters. A new evaluator starts a new line, marked in purple. Scores of two evaluators are never combined.
- **Gaps.** Without scores there is no line: neither 0 nor the last value.
- **Labels.** `telemetry.labels` names the event labels in metrics. On results and scores `model` is the answering model;
  on judge calls, tokens, cost and `judgestream_evaluator_info` it is the judge.
- **Red marks** are firing alerts. Their runbook links start with the hidden variable `runbooks`; set it to the address
  of your copy of `docs/alerts.md` (default: `{RUNBOOKS}`).

## Without Grafana

Every worker shows the key panels at `/` of its port, for its own last hour.

![The worker's page during a drop: coverage and relevance fall, and their series are marked as dropped](images/page-light.png)

| dark | on a phone |
|---|---|
| ![The same page on a dark ground](images/page-dark.png) | ![The same page 360 pixels wide](images/page-narrow.png) |
"""  # noqa: E501
_SENTENCE_END: Final = re.compile(r"(?<=[a-z`)*\]])\.(?= [A-Z*`])")


def page(dashboards: Iterable[Dashboard]) -> str:
    """Return the page."""
    listed = list(dashboards)
    rows = "\n".join(f"| [{_name(one)}](#{_name(one).lower()}) | {one.description} |" for one in listed)
    parts = [_INTRODUCTION.format(rows=rows)]
    for one in listed:
        parts.append(f"## {_name(one)}\n")
        choices = ", ".join(f"*{variable['label']}*" for variable in one.variables if variable["hide"] == 0)
        parts.append(f"{one.description} Filters: {choices}.\n")
        for section in one.sections:
            parts.append(f"### {section.title}\n\n| panel | shows | alerts |\n|---|---|---|")
            parts += [_row(panel) for line in section.lines for panel in line.panels]
            parts.append("")
    return "\n".join(parts).rstrip("\n") + "\n"


def _name(dashboard: Dashboard) -> str:
    return dashboard.title.rpartition(" / ")[2]


def _row(panel: Panel) -> str:
    title = re.sub(r"\$(\w+)", r"(\1)", panel.title)
    shows = _SENTENCE_END.split(panel.description, maxsplit=1)[0].rstrip(".")
    alerts = ", ".join(
        f"[{name.removeprefix('Judgestream')}](alerts.md#{name.lower()})" for name in panel.alerts
    )
    return f"| {title} | {shows} | {alerts} |"
