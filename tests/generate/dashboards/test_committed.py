from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from generate.dashboards.files import FOLDER, all_dashboards
from streams.telemetry.catalogue import CATALOGUE, LABELS, PROCESS
from streams.telemetry.labels import label_names
from tests.generate.dashboards.roundtrip import differences
from tests.generate.dashboards.traffic import JOB, MINUTES, PLAIN_JOB, input_series
from tests.rules.rule_files import FILES, rules
from tests.toolbox import node_modules, python_with, run, tool

_DOCUMENTS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))
}
_BUILT_IN = {"__interval", "__rate_interval", "__range"}
_TIMES = dict.fromkeys(_BUILT_IN, "4m")
_WINDOWS = ("5m", "1h", "1d")
# Series of Prometheus itself.
_OF_PROMETHEUS = {"up": {"job", "instance"}, "ALERTS": {"alertname", "alertstate", "job", "metric", "slice"}}
_TARGET = {"job", "instance", "namespace", "cluster"}
_EVENT = set(label_names(["app", "model", "prompt_version", "tenant", "language"]).values())
_SPECS = {spec.name: spec for spec in (*CATALOGUE, *PROCESS)}
# Metrics without a dashboard, rule or alert, each with its reason.
_UNUSED: dict[str, str] = {
    "judgestream_deprecated_settings": "the log and `config check` name them, before an upgrade",
    "judgestream_monitor_anchors_calls": "`judgestream anchors status` tells them",
    "judgestream_monitor_state_problems": "the log says which series learned again, and why",
}

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAME = re.compile(r"[a-zA-Z_][\w:]*judgestream[\w:]*|judgestream_\w+|\b\w+(?=\{)")
_SELECTOR = re.compile(r"([\w:]+)\{([^}]*)\}")

each_dashboard = pytest.mark.parametrize("document", _DOCUMENTS.values(), ids=_DOCUMENTS)


# A rough parser of expressions, sufficient for those of this project.
def names(expr: str) -> set[str]:
    return set(_NAME.findall(_STRING.sub('""', expr)))


def selectors(expr: str) -> Iterator[tuple[str, set[str]]]:
    for name, matchers in _SELECTOR.findall(_STRING.sub('""', expr)):
        yield name, set(re.findall(r"(\w+)\s*[=!]", matchers))


def plain(text: str, values: Mapping[str, str]) -> str:
    for name in sorted(values, key=len, reverse=True):
        text = re.sub(rf"\$\{{{re.escape(name)}\}}|\${re.escape(name)}\b", values[name], text)
    return text


def _panels(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in document["panels"] if panel["type"] != "row"]


def _queries(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for panel in _panels(document):
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    yield from ((mark["name"], mark["expr"]) for mark in document["annotations"]["list"])


def _ready(document: dict[str, Any]) -> Iterator[str]:
    values = {one["name"]: "v" for one in document["templating"]["list"]}
    variables = [one for one in document["templating"]["list"] if one["type"] == "query"]
    asked = [expr for _, expr in _queries(document)] + [one["query"]["query"] for one in variables]
    for expr in asked:
        for window in _WINDOWS:
            yield plain(expr, {**_TIMES, **values, "window": window})


def _base(name: str) -> str:
    return name if name in _SPECS else re.sub(r"_(bucket|count|sum)$", "", name)


def test_uids_stay_as_bookmarks_know_them() -> None:
    uids = {document["uid"] for document in _DOCUMENTS.values()}
    assert uids == {"judgestream-quality", "judgestream-pipeline", "judgestream-judge"}


@each_dashboard
def test_every_panel_explains_itself_and_asks_the_chosen_data_source(document: dict[str, Any]) -> None:
    for panel in _panels(document):
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["title"]
        assert len(panel["description"]) >= 50, panel["title"]
        assert defaults["unit"], panel["title"]
        assert defaults["noValue"] not in {"", "0", "No data"}, panel["title"]
        assert panel["targets"], panel["title"]
        # A stat panel shows one line, which Grafana shrinks to fit.
        assert panel["type"] != "stat" or len(defaults["noValue"]) <= 20, panel["title"]
        for holder in (panel, *panel["targets"]):
            assert holder["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert [target["refId"] for target in panel["targets"]] == list("ABCDEFGH"[: len(panel["targets"])])


@each_dashboard
def test_panels_fill_the_grid_without_overlap(document: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


@each_dashboard
def test_only_variables_that_exist_are_used_and_all_are(document: dict[str, Any]) -> None:
    declared = {one["name"] for one in document["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z_]\w*)", json.dumps(document)))
    used -= {name for name in used if name.startswith("__")} & (_BUILT_IN | {"__all", "__auto"})
    assert used == declared
    assert {one.get("repeat") for one in document["panels"]} - {None} <= declared


@each_dashboard
def test_expressions_use_existing_series_and_their_labels(document: dict[str, Any]) -> None:
    recorded = {rule["record"] for rule in rules(FILES / "rules.yaml")}
    for expr in _ready(document):
        found = {_base(name) for name in names(expr)} - {"label_values"}
        assert found, expr
        assert found <= _SPECS.keys() | recorded | _OF_PROMETHEUS.keys(), expr
        for name, labels in selectors(expr):
            known = _OF_PROMETHEUS.get(name, labels)
            if (spec := _SPECS.get(_base(name))) is not None:
                known = {*spec.labels, *_TARGET, *(_EVENT if LABELS in spec.labels else ())} - {LABELS}
            assert labels <= known, expr


@each_dashboard
def test_scores_of_two_evaluators_never_share_a_line(document: dict[str, Any]) -> None:
    """Sums of scores come from the recording rules and keep the evaluator in every sum and legend."""
    for panel in _panels(document):
        for target in panel["targets"]:
            expr = plain(target["expr"], {"window": "1h"})
            about = {name for name in names(expr) if "judgestream_score" in name}
            assert not any(name.startswith("judgestream_score_") for name in about), expr
            if about:
                grouped = re.findall(r"\bsum by \(([^)]*)\)", expr)
                assert all("fingerprint" in labels for labels in grouped), expr
                assert target["format"] == "table" or "{{evaluator}}" in target["legendFormat"]


@each_dashboard
def test_links_lead_somewhere(document: dict[str, Any]) -> None:
    uids = {other["uid"] for other in _DOCUMENTS.values()} - {document["uid"]}
    urls = [link["url"] for link in document["links"]]
    assert {url for url in urls if url.startswith("/d/")} == {f"/d/{uid}" for uid in uids}
    anchors = {f"${{runbooks}}#{rule['alert'].lower()}" for rule in rules(FILES / "alerts.yaml")}
    linked = {link["url"] for panel in _panels(document) for link in panel.get("links", ())}
    assert linked
    assert linked <= anchors


def test_every_alert_has_a_panel() -> None:
    shown = {alert for one in all_dashboards().values() for panel in one.panels() for alert in panel.alerts}
    assert shown == {rule["alert"] for rule in rules(FILES / "alerts.yaml")}


def test_every_metric_of_the_catalogue_is_used() -> None:
    exprs = [expr for document in _DOCUMENTS.values() for expr in _ready(document)]
    exprs += [rule["expr"] for file in ("rules.yaml", "alerts.yaml") for rule in rules(FILES / file)]
    used = {_base(name) for expr in exprs for name in names(expr)}
    assert _SPECS.keys() - used == _UNUSED.keys()


# The variables for "All" and for one value.
_ALL = {
    **dict.fromkeys(("job", "instance", "metric", "app", "model", "endpoint"), ".*"),
    "__interval": "1m",
    "__rate_interval": "4m",
}
_CHOSEN = {
    **_ALL,
    "job": JOB,
    "instance": "(worker-0:8080|worker-1:8080)",
    "metric": "relevance",
    "app": "support",
    "model": "small-2",
    "endpoint": "primary",
}
_NO_LABELS = {**_ALL, "job": PLAIN_JOB}
# Panels without data if the settings name no event labels, which each says, or if no evaluator changes.
_NEED_MORE = {
    "Mean by app", "Mean by model", "Mean by prompt_version", "Worst labels, last hour", "Evaluator changes"
}  # fmt: skip


def _plain_expressions() -> set[str]:
    return {
        plain(expr, {**values, "window": window})
        for title, expr in (query for document in _DOCUMENTS.values() for query in _queries(document))
        for values in (_ALL, _CHOSEN, _NO_LABELS)
        if values is not _NO_LABELS or title not in _NEED_MORE
        for window in _WINDOWS
    }


@pytest.mark.tools
@pytest.mark.timeout(600)
def test_every_expression_returns_data(tmp_path: Path) -> None:
    recorded = [rule["record"] for rule in rules(FILES / "rules.yaml")]
    # Only the presence of data counts; other tests check the numbers of the rules.
    samples = [{"labels": "{}", "value": 1}]
    tests = [
        {"expr": f"count({expr}) > bool 0", "eval_time": f"{MINUTES - 1}m", "exp_samples": samples}
        for expr in (*_plain_expressions(), *recorded)
    ]
    document = {
        "rule_files": [str(FILES / "rules.yaml"), str(FILES / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": input_series(), "promql_expr_test": tests}],
    }
    file = tmp_path / "tests.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML, and faster to write
    assert "SUCCESS" in run(tool("promtool"), "test", "rules", file)


_TYPES = Path(__file__).parent / "types"
_FOLDERS = {"state-timeline": "statetimeline"}
# Grafana's enums are string enums; their values are accepted too.
_LITERALS = (
    "type Plain<T> = T extends string ? `${T}` : T extends number ? number : T extends (infer U)[] ? "
    "Plain<U>[]"
    " : T extends object ? {[K in keyof T]: Plain<T[K]>} : T;"
)
# Fields of annotations in Grafana's exports that its schema lacks; the round trip keeps them.
_UNKNOWN_TO_TYPES = {"expr", "step", "titleFormat", "textFormat", "tagKeys", "useValueForTime"}


def test_the_comparison_reports_lost_fields() -> None:
    given = {"a": [1, {"b": 2, "c": 3}]}
    assert list(differences(given, {"a": [1, {"b": 5}], "new": 1})) == [
        ".a[1].b: 2 becomes 5",
        ".a[1].c is lost",
    ]


@pytest.mark.tools
@pytest.mark.parametrize("name", _DOCUMENTS)
def test_grafanas_model_knows_every_field(name: str) -> None:
    python = python_with("grafana_foundation_sdk")
    run(python, Path(__file__).parent / "roundtrip.py", FOLDER / f"{name}.json")


@pytest.mark.tools
@pytest.mark.parametrize("version", ["grafana-schema-oldest", "grafana-schema-newest"])
@each_dashboard
def test_grafanas_types_take_every_value(document: dict[str, Any], version: str, tmp_path: Path) -> None:
    """The types of Grafana 11.0 and 13 accept the dashboard and each panel's options and fields."""
    modules = node_modules(_TYPES / "package.json")
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "tsconfig.json").write_text(json.dumps(_settings(version)), encoding="utf-8")
    (tmp_path / "check.ts").write_text(_program(document, modules / version), encoding="utf-8")
    run("node", modules / "typescript" / "bin" / "tsc", "-p", tmp_path, cwd=tmp_path)


def _settings(version: str) -> dict[str, object]:
    form = {"target": "es2022", "module": "es2022", "moduleResolution": "bundler"}
    checks = {"strict": True, "noEmit": True, "skipLibCheck": True, "types": []}
    paths = {"@grafana/schema": [f"./node_modules/{version}"]}  # its files import each other by package name
    return {"compilerOptions": {**form, **checks, "paths": paths}, "files": ["check.ts"]}


def _program(document: dict[str, Any], schema: Path) -> str:
    lines = [_import(schema, "dashboard/x", "Dashboard", "Dashboard"), _LITERALS]
    for index, panel in enumerate(document["panels"]):
        if panel["type"] == "row":
            continue
        folder = f"composable/{_FOLDERS.get(panel['type'], panel['type'])}/panelcfg/x"
        lines.append(_import(schema, folder, "Options", f"Options{index}"))
        lines.append(
            f"export const options{index}: Plain<Partial<Options{index}>> = {json.dumps(panel['options'])};"
        )
        custom = panel["fieldConfig"]["defaults"]["custom"]
        if custom:
            lines.append(_import(schema, folder, "FieldConfig", f"FieldConfig{index}"))
            lines.append(
                f"export const custom{index}: Plain<Partial<FieldConfig{index}>> = {json.dumps(custom)};"
            )
    marks = [
        {key: value for key, value in mark.items() if key not in _UNKNOWN_TO_TYPES}
        for mark in document["annotations"]["list"]
    ]
    known = {**document, "annotations": {"list": marks}}
    lines.append(f"export const dashboard: Plain<Partial<Dashboard>> = {json.dumps(known)};")
    return "\n".join(lines) + "\n"


def _import(schema: Path, folder: str, name: str, alias: str) -> str:
    # The layout of the package differs between the versions.
    found = sorted(schema.glob(f"dist/*/raw/{folder}/*types.gen.d.ts"))
    assert found, f"{schema.name} has no types in {folder}"
    place = found[-1].relative_to(schema.parent.parent).as_posix().removesuffix(".d.ts")
    return f"import type {{{name} as {alias}}} from './{place}';"
