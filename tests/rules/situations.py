"""The table of situations as promtool tests: what fires at the end, and that no other alert ever does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from typing import Any

import yaml

from generate.situations_page import TABLE

_ALERT_LABELS = "alertname, agent, endpoint, instance, metric, namespace, period, reason, topic"
_INSTANCE = re.compile(r'instance="([^"]+)"')
_GONE, _GAP = "stale", "_"

Values = list[str]


def table() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return loaded


def _plan(written: object, minutes: int) -> Values:
    """The value of each minute: `3`, `+2` (a minute) or `gap`, and from a minute on another: `+2, 60: +0`.

    `gone` is an absence that Prometheus noticed, `gap` one that it did not.
    """
    steps = [(0, "")]
    for part in str(written).split(","):
        at, found, then = part.strip().rpartition(": ")
        steps.append((int(at) if found else 0, then))
    values: Values = []
    last = 0.0
    for (start, step), (end, _) in zip(steps, [*steps[1:], (minutes, "")], strict=True):
        for minute in range(start, end):
            if step in {"gone", "gap"}:
                values.append(_GONE if step == "gone" and minute == start else _GAP)
                continue
            last = last + float(step[1:]) if step.startswith("+") else float(step)
            values.append(f"{last:g}" if abs(last) < 100_000 else f"{last:.3f}")
    return values


def _fate(name: str, values: Values, fate: str) -> Values:
    """What becomes of a worker's series: `60: gone`, `60-70: gap`, `down`, or `loop` (up 1 minute in 5)."""
    start, _, what = fate.partition(": ")
    at, _, until = start.partition("-")
    ours = values[:]
    for minute in range(int(at), int(until or len(values))):
        up = what == "loop" and (minute - int(at)) % 5 == 4
        if what in {"gone", "gap"}:
            ours[minute] = _GONE if what == "gone" and minute == int(at) else _GAP
        elif name == "up":
            ours[minute] = "1" if up else "0"
        elif up:
            ours[minute] = str(60 * minute) if name == "process_start_time_seconds" else values[1]
        else:
            ours[minute] = _GONE
    return ours


def input_series(row: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    loaded, minutes = table(), int(row.get("minutes", 240))
    written = {**(loaded["calm"] if row.get("base", "calm") == "calm" else {}), **row.get("series", {})}
    for series, plan in written.items():
        if plan is None:
            continue  # taken out of the calm base
        full = series if "job=" in series else series.replace("{", '{job="qa", ', 1)
        values = _plan(plan, minutes)
        found = _INSTANCE.search(series)
        for pattern, fate in row.get("workers", {}).items():
            if found and fnmatch(found[1], pattern):
                values = _fate(series.partition("{")[0], values, fate)
        yield {"series": full, "values": " ".join(values)}


def promtool_test(row: Mapping[str, Any]) -> dict[str, Any]:
    minutes = int(row.get("minutes", 240))
    fires = [{"alertname": name, **labels} for one in row.get("fires", []) for name, labels in one.items()]
    passing = list(row.get("passing", []))
    expected = [
        {"labels": "{" + ", ".join(f'{name}="{value}"' for name, value in one.items()) + "}", "value": 1}
        for one in fires
    ]
    names = "|".join(sorted({one["alertname"] for one in fires} | set(passing)))
    firing = 'ALERTS{alertstate="firing"}'
    ever = f'max_over_time(ALERTS{{alertstate="firing", alertname!~"{names}"}}[{minutes}m])'
    return {
        "name": row["what"],
        "interval": "1m",
        "input_series": list(input_series(row)),
        "promql_expr_test": [
            {
                "expr": f"group by ({_ALERT_LABELS}) ({firing})",
                "eval_time": f"{minutes - 1}m",
                "exp_samples": expected,
            },
            {"expr": f"group by (alertname) ({ever})", "eval_time": f"{minutes - 1}m", "exp_samples": []},
        ],
    }
