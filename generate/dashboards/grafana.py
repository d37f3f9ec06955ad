"""The used parts of Grafana's dashboard model (schema version 39, Grafana 11). Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

SCHEMA_VERSION: Final = 39
"""Schema of Grafana 11.0; newer versions migrate it."""
COLUMNS: Final = 24
"""Width of a dashboard, in grid units."""
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

PanelType = Literal["timeseries", "stat", "table", "state-timeline", "heatmap", "bargauge"]
Json = dict[str, Any]

_LEGEND: Final = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
_TABLE_LEGEND: Final = {
    "displayMode": "table",
    "placement": "right",
    "showLegend": True,
    "calcs": ["lastNotNull", "min", "max"],
}
_REDUCE: Final = {"calcs": ["lastNotNull"], "fields": "", "values": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query of a panel.

    Args:
        expr: PromQL, with Grafana's variables.
        legend: Legend of a series, with `{{label}}`.
        instant: Query only the end of the time range.
        table: Return table rows instead of series.
        heatmap: Return the buckets of a histogram.
    """

    expr: str
    legend: str = ""
    instant: bool = False
    table: bool = False
    heatmap: bool = False

    def render(self, ref_id: str) -> Json:
        """Return it in Grafana's JSON form."""
        return {
            "refId": ref_id,
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": self.expr,
            "legendFormat": self.legend or "__auto",
            "instant": self.instant,
            "range": not self.instant,
            "format": "heatmap" if self.heatmap else "table" if self.table else "time_series",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel.

    Args:
        title: What it shows.
        description: Its meaning, and how to judge high and low values; Markdown.
        type: Grafana's kind of panel.
        unit: Grafana's id of the unit.
        no_data: Text without data: why no query may return anything.
        empty: The same in a few words, for a stat panel; the long form is then added to the description.
        queries: In order; the first one is A.
        alerts: Alerts that this panel explains; each links to its runbook.
        decimals: Decimals; None: Grafana's choice.
        minimum: Lower end of the axis.
        maximum: Upper end of the axis.
        thresholds: Pairs of a value and the color from it upwards; below the first one: `base_color`.
        base_color: See `thresholds`.
        stack: Stacking of series: normal or to 100%.
        options: Added to the options of the panel's type.
        custom: Added to the custom field settings of the panel's type.
        overrides: Field overrides, in Grafana's form.
        transformations: In Grafana's form.
        mappings: Texts for values, in Grafana's form.
        repeat: Variable; the panel is repeated for each of its values.
    """

    title: str
    description: str
    type: PanelType = "timeseries"
    unit: str
    no_data: str
    queries: Sequence[Query]
    empty: str = ""
    alerts: Sequence[str] = ()
    decimals: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    thresholds: Sequence[tuple[float, str]] = ()
    base_color: str = "green"
    stack: Literal["none", "normal", "percent"] = "none"
    options: Mapping[str, Any] = field(default_factory=dict)
    custom: Mapping[str, Any] = field(default_factory=dict)
    overrides: Sequence[Json] = ()
    transformations: Sequence[Json] = ()
    mappings: Sequence[Json] = ()
    repeat: str = ""

    def render(self, panel_id: int, position: Json) -> Json:
        """Return it in Grafana's JSON form.

        Args:
            panel_id: Unique in the dashboard.
            position: Place and size on the grid.
        """
        panel: Json = {
            "id": panel_id,
            "type": self.type,
            "title": self.title,
            "description": self._text(),
            "datasource": DATASOURCE,
            "gridPos": position,
            "fieldConfig": {"defaults": self._defaults(), "overrides": list(self.overrides)},
            "options": self._options(),
            "targets": [query.render(chr(ord("A") + index)) for index, query in enumerate(self.queries)],
        }
        if self.transformations:
            panel["transformations"] = list(self.transformations)
        if self.alerts:
            panel["links"] = [runbook_link(alert) for alert in self.alerts]
        if self.repeat:
            panel |= {"repeat": self.repeat, "repeatDirection": "h", "maxPerRow": 4}
        return panel

    def _text(self) -> str:
        return f"{self.description}\n\n*{self.empty}*: {self.no_data}." if self.empty else self.description

    def _defaults(self) -> Json:
        steps: list[Json] = [{"color": self.base_color, "value": None}]
        steps += [{"color": color, "value": value} for value, color in self.thresholds]
        plain = self.type == "timeseries" or not self.thresholds
        defaults: Json = {
            "unit": self.unit,
            "noValue": self.empty or self.no_data,
            "color": {"mode": "palette-classic" if plain else "thresholds"},
            "thresholds": {"mode": "absolute", "steps": steps},
            "mappings": list(self.mappings),
            "custom": self._custom(),
        }
        bounds = (("decimals", self.decimals), ("min", self.minimum), ("max", self.maximum))
        return defaults | {name: value for name, value in bounds if value is not None}

    def _custom(self) -> Json:
        custom: Json = {}
        if self.type == "timeseries":
            stacked = self.stack != "none"
            custom = {
                "drawStyle": "line",
                "lineInterpolation": "linear",
                "lineWidth": 1 if stacked else 2,
                "fillOpacity": 40 if stacked else 0,
                "showPoints": "auto",
                # Gaps are not connected.
                "spanNulls": False,
                "stacking": {"mode": self.stack, "group": "A"},
                "thresholdsStyle": {"mode": "dashed" if self.thresholds else "off"},
            }
        elif self.type == "state-timeline":
            custom = {"fillOpacity": 70, "lineWidth": 0}
        return custom | dict(self.custom)

    def _options(self) -> Json:
        base: Mapping[PanelType, Json] = {
            "timeseries": {"legend": _LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
            "stat": {
                "reduceOptions": _REDUCE,
                "colorMode": "value",
                "graphMode": "area",
                "justifyMode": "auto",
                "orientation": "auto",
                "textMode": "auto",
                "wideLayout": True,
            },
            "table": {"showHeader": True, "cellHeight": "sm"},
            "state-timeline": {
                "legend": _LEGEND,
                "tooltip": {"mode": "single", "sort": "none"},
                "showValue": "auto",
                "mergeValues": True,
                "alignValue": "left",
                "rowHeight": 0.8,
            },
            "heatmap": {
                "calculate": False,
                "cellGap": 1,
                "color": {
                    "mode": "scheme",
                    "scheme": "Oranges",
                    "fill": "dark-orange",
                    "exponent": 0.5,
                    "steps": 64,
                    "reverse": False,
                },
                "exemplars": {"color": "rgba(255,0,255,0.7)"},
                "filterValues": {"le": 1e-9},
                "legend": {"show": True},
                "rowsFrame": {"layout": "auto"},
                "showValue": "never",
                "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": False},
                "yAxis": {"axisPlacement": "left", "reverse": False, "unit": self.unit},
            },
            "bargauge": {
                "reduceOptions": _REDUCE,
                "displayMode": "basic",
                "namePlacement": "auto",
                "orientation": "horizontal",
                "showUnfilled": True,
                "sizing": "auto",
                "minVizHeight": 16,
                "minVizWidth": 8,
                "maxVizHeight": 300,
                "valueMode": "color",
            },
        }
        return base[self.type] | dict(self.options)


TABLE_LEGEND: Final[Json] = {"legend": _TABLE_LEGEND}
"""Options for panels with a legend table, to compare numbers."""


def runbook_link(alert: str) -> Json:
    """Return a link to an alert's heading in docs/alerts.md, at the address in the variable `runbooks`."""
    return {
        "title": f"Runbook: {alert}",
        "url": f"${{runbooks}}#{alert.lower()}",
        "targetBlank": True,
        "type": "link",
        "icon": "doc",
        "tooltip": "What the alert means and what to do",
        "tags": [],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": False,
    }


@dataclass(frozen=True, slots=True)
class Line:
    """Panels side by side.

    Args:
        height: In grid units.
        panels: Each has an equal share of the width.
    """

    height: int
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a dashboard."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One dashboard.

    Args:
        uid: Must not change: bookmarks and links use it.
        title: Its name.
        description: The question that it answers.
        variables: In Grafana's form.
        annotations: In Grafana's form.
        links: In Grafana's form.
        sections: From top to bottom.
        span: Default time range, such as "6h".
    """

    uid: str
    title: str
    description: str
    variables: Sequence[Json]
    annotations: Sequence[Json]
    links: Sequence[Json]
    sections: Sequence[Section]
    span: str

    def panels(self) -> list[Panel]:
        """Return all panels, from top to bottom."""
        return [panel for section in self.sections for line in section.lines for panel in line.panels]

    def render(self) -> Json:
        """Return it in Grafana's JSON form."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["judgestream"],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,  # shared cross hair
            "timezone": "browser",
            "time": {"from": f"now-{self.span}", "to": "now"},
            "refresh": "30s",
            "templating": {"list": list(self.variables)},
            "annotations": {"list": list(self.annotations)},
            "links": list(self.links),
            "panels": self._laid_out(),
        }

    def _laid_out(self) -> list[Json]:
        out: list[Json] = []
        y = 0
        for section in self.sections:
            out.append(
                {
                    "id": len(out) + 1,
                    "type": "row",
                    "title": section.title,
                    "collapsed": False,
                    "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
                    "panels": [],
                }
            )
            y += 1
            for line in section.lines:
                width, spare = divmod(COLUMNS, len(line.panels))
                x = 0
                for index, panel in enumerate(line.panels):
                    w = width + (index < spare)
                    out.append(panel.render(len(out) + 1, {"h": line.height, "w": w, "x": x, "y": y}))
                    x += w
                y += line.height
        return out


def to_json(dashboard: Dashboard) -> str:
    """Return a dashboard as committed JSON."""
    return json.dumps(dashboard.render(), indent=2, ensure_ascii=False) + "\n"
