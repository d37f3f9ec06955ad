"""Common parts of the dashboards: variables, links, annotations, PromQL. Pure."""

from __future__ import annotations

from typing import Any, Final

from generate.dashboards.grafana import DATASOURCE, Json

QUALITY_UID: Final = "judgestream-quality"
PIPELINE_UID: Final = "judgestream-pipeline"
JUDGE_UID: Final = "judgestream-judge"

TITLES: Final = {
    QUALITY_UID: "judgestream / Quality",
    PIPELINE_UID: "judgestream / Pipeline",
    JUDGE_UID: "judgestream / Judge",
}

RUNBOOKS: Final = "https://judgestream.github.io/judgestream/latest/alerts.html"
"""Default of the variable `runbooks`, and of the alerts' links."""

WORKER: Final = 'job=~"$job", instance=~"$instance"'
"""Picks the workers."""
METRIC: Final = f'{WORKER}, metric=~"$metric"'
"""Selects the judged metrics."""
EVENTS: Final = 'job=~"$job", metric=~"$metric", app=~"$app", model=~"$model"'
"""Selects by event labels. A label that the settings do not name matches "All"."""
ENDPOINT: Final = f'{WORKER}, endpoint=~"$endpoint"'
"""Selects the judge's endpoints."""

WINDOW: Final = "$__rate_interval"

ALERTS: Final = 'ALERTS{alertname=~"Judgestream.+", job=~"$job"'
"""Prometheus' series of alerts; the brace is left open for more matchers."""


def datasource() -> Json:
    """Return the variable for the Prometheus data source."""
    return {
        "name": "datasource",
        "label": "Data source",
        "description": "The Prometheus that scrapes the workers.",
        "type": "datasource",
        "query": "prometheus",
        "regex": "",
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "refresh": 1,
        "skipUrlSync": False,
        "options": [],
        "current": {"selected": True, "text": "default", "value": "default"},
    }


def label_variable(name: str, label: str, query: str, description: str) -> Json:
    """Return a variable with the values of a label, "All" first.

    "All" is `.*`, which also matches series without the label.

    Args:
        name: Name of the variable.
        label: Its caption.
        query: `label_values(...)`.
        description: Shown as a tooltip.
    """
    return {
        "name": name,
        "label": label,
        "description": description,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": f"variable-{name}"},
        "regex": "",
        "hide": 0,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "refresh": 2,  # refreshed with the time range, because labels change
        "sort": 1,
        "skipUrlSync": False,
        "options": [],
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def choice(name: str, label: str, values: tuple[str, ...], default: str, description: str) -> Json:
    """Return a variable with fixed values, one of them selected."""
    return {
        "name": name,
        "label": label,
        "description": description,
        "type": "custom",
        "query": ",".join(values),
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "skipUrlSync": False,
        "options": [{"selected": value == default, "text": value, "value": value} for value in values],
        "current": {"selected": True, "text": default, "value": default},
    }


def runbooks() -> Json:
    """Return the variable with the address of docs/alerts.md."""
    return {
        "name": "runbooks",
        "label": "Runbooks",
        "description": "Address of docs/alerts.md; set it to your copy.",
        "type": "textbox",
        "query": RUNBOOKS,
        "hide": 2,  # hidden; may be set in the dashboard's URL
        "skipUrlSync": False,
        "options": [{"selected": True, "text": RUNBOOKS, "value": RUNBOOKS}],
        "current": {"selected": True, "text": RUNBOOKS, "value": RUNBOOKS},
    }


def workers() -> list[Json]:
    """Return the variables `job` and `instance`."""
    return [
        label_variable(
            "job",
            "Job",
            "label_values(judgestream_worker_info, job)",
            "Scrape job of the workers, one per installation.",
        ),
        label_variable(
            "instance",
            "Worker",
            'label_values(judgestream_worker_info{job=~"$job"}, instance)',
            "One worker or all.",
        ),
    ]


def metrics() -> Json:
    """Return the variable `metric`."""
    return label_variable(
        "metric",
        "Metric",
        'label_values(judgestream_results_total{job=~"$job"}, metric)',
        "The metrics: coverage, relevance, and those of prompt packs.",
    )


def event_labels() -> list[Json]:
    """Return the variables `app` and `model`, without effect if telemetry.labels lacks them."""
    family = 'judgestream_results_total{job=~"$job", metric=~"$metric"}'
    return [
        label_variable(
            "app", "App", f"label_values({family}, app)", "Event label app; needs it in telemetry.labels."
        ),
        label_variable(
            "model",
            "Model",
            f"label_values({family}, model)",
            "Event label model: the answering model, not the judge; needs it in telemetry.labels.",
        ),
    ]


def endpoints() -> Json:
    """Return the variable `endpoint`."""
    return label_variable(
        "endpoint",
        "Endpoint",
        'label_values(judgestream_judge_call_seconds_count{job=~"$job"}, endpoint)',
        "Name of a judge endpoint, as in judge.endpoints.",
    )


def links(own: str) -> list[Json]:
    """Return links to the other dashboards, with time range and variables, and to the runbooks."""
    common: dict[str, Any] = {"tags": [], "asDropdown": False, "type": "link"}
    others = [
        common
        | {
            "title": title.rpartition(" / ")[2],
            "url": f"/d/{uid}",
            "icon": "dashboard",
            "tooltip": f"Open {title} at the same time",
            "targetBlank": False,
            "includeVars": True,
            "keepTime": True,
        }
        for uid, title in TITLES.items()
        if uid != own
    ]
    runbook = common | {
        "title": "Runbooks",
        "url": "${runbooks}",
        "icon": "doc",
        "tooltip": "What each alert means and what to do",
        "targetBlank": True,
        "includeVars": False,
        "keepTime": False,
    }
    return [*others, runbook]


def annotation(name: str, color: str, expr: str, title: str, tags: str) -> Json:
    """Return an annotation on all graphs, shown while an expression has a value.

    Args:
        name: Caption of its switch.
        color: Color of the marks.
        expr: PromQL.
        title: Title of a mark, with `{{label}}`.
        tags: Labels shown with it, separated by commas.
    """
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "expr": expr,
        "step": "60s",
        "titleFormat": title,
        "textFormat": "",
        "tagKeys": tags,
        "useValueForTime": False,
    }


def rate(name: str, by: str, selector: str) -> str:
    """Return events per second, summed by labels."""
    return f"sum by ({by}) (rate({name}{{{selector}}}[{WINDOW}]))"


def marks() -> list[Json]:
    """Return annotations for new evaluators and alerts."""
    seen = 'max_over_time(judgestream_evaluator_info{job=~"$job"}[1d] offset 2m)'
    return [
        annotation(
            "Evaluator changes",
            "purple",
            'group by (metric, fingerprint, model) (judgestream_evaluator_info{job=~"$job"}) '
            f"unless on (metric, fingerprint) group by (metric, fingerprint) ({seen})",
            "{{metric}}: a new evaluator judges",
            "fingerprint,model",
        ),
        annotation(
            "Alerts",
            "red",
            f'group by (alertname, metric, slice) ({ALERTS}, alertstate="firing"}})',
            "{{alertname}}",
            "metric,slice",
        ),
    ]
