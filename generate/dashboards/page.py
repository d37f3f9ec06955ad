"""docs/dashboards.md: what each panel says, from the panels themselves. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from generate.dashboards.common import RUNBOOKS
from generate.dashboards.grafana import Dashboard, Panel

_INTRODUCTION: Final = f"""\
# Dashboards

<!-- Made by `python -m generate --write`; changes here are lost. -->

Three dashboards for Grafana 11 and newer, in `helm/files/dashboards/`. Start with *Quality*; it links to the
other two, with the same time range and choices.

| dashboard | its question |
|---|---|
{{rows}}

## Without Grafana

Every worker shows the key panels on a page of its own, at `/` of its port: drops, means over time with their
intervals, the worst labels, scores, rates, the judge, the last verdicts. It holds this worker's last hour and
nothing of the others.

![The worker's page during a drop: coverage and relevance fall, and their series are marked as dropped](images/page-light.png)

| dark | on a phone |
|---|---|
| ![The same page on a dark ground](images/page-dark.png) | ![The same page 360 pixels wide](images/page-narrow.png) |

`make test-tools` takes these pictures again where `JUDGESTREAM_PICTURES` names a folder.

## Getting them

- `docker compose up` and the Helm chart bring them along.
- Elsewhere ([the first time](grafana.md)): import the JSON files, and load `helm/files/rules.yaml` and `helm/files/alerts.yaml` into the
  Prometheus that scrapes the workers. Without the recording rules *Quality* stays empty: they keep the scores
  of each evaluator apart.
- All workers of one installation share a scrape `job`; two installations do not.
- Set `timeInterval` of the data source to your scrape interval: the shortest window of a rate follows from
  it.
- Links to runbooks begin with the hidden variable `runbooks`. Its default, `{RUNBOOKS}`, is a stand-in: give
  it the address where you read `docs/alerts.md`, in the dashboard's settings or in the JSON.

## Reading them

- **Weighted.** An answer sampled with probability 0.1 counts ten times in every mean. Counts of results are
  as they are.
- **Intervals.** Dashed lines are the ends of a 95% interval. Two means whose intervals overlap may be the
  same.
- **Evaluators.** A fingerprint names prompt, schema, scoring rules, model and parameters together; legends
  show its first eight characters. A new evaluator begins a new line, and a purple mark says when. Numbers of
  two are never added up or compared.
- **A gap is quiet.** Where nothing was scored there is no line: neither 0 nor the last value. An empty panel
  says why.
- **Labels.** `app`, `model`, `prompt_version` and others are there if `telemetry.labels` names them. On
  results and scores `model` is that event label: what wrote the answer. On judge calls, tokens, cost and
  `judgestream_evaluator_info` it is the judge's.
- **Red marks** on the graphs are firing alerts.
"""  # noqa: E501


def page(dashboards: Iterable[Dashboard]) -> str:
    """Write the whole page."""
    listed = list(dashboards)
    rows = "\n".join(f"| [{_name(one)}](#{_name(one).lower()}) | {one.description} |" for one in listed)
    parts = [_INTRODUCTION.format(rows=rows)]
    for one in listed:
        parts.append(f"## {_name(one)}\n\n{one.description}\n")
        choices = ", ".join(
            f"*{variable['label']}* ({_sentence(variable['description'])})"
            for variable in one.variables
            if variable["hide"] == 0
        )
        parts.append(f"To choose: {choices}.\n")
        for section in one.sections:
            parts.append(f"### {section.title}\n")
            parts += [_entry(panel) for line in section.lines for panel in line.panels]
    return "\n".join(parts)


def _name(dashboard: Dashboard) -> str:
    return dashboard.title.rpartition(" / ")[2]


def _sentence(text: str) -> str:
    return text[0].lower() + text[1:].rstrip(".")


def _entry(panel: Panel) -> str:
    title = re.sub(r"\$(\w+)", r"(\1)", panel.title)
    alerts = ", ".join(f"[{name}](alerts.md#{name.lower()})" for name in panel.alerts)
    return (
        f"**{title}.** {panel.description}\n"
        f"Empty: {_sentence(panel.no_data)}.{f' Alerts: {alerts}.' if alerts else ''}\n"
    )
