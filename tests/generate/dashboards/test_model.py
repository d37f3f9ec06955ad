"""The dashboards against Grafana's own model and types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generate.dashboards.files import FOLDER
from tests.generate.dashboards.roundtrip import differences
from tests.toolbox import node_modules, python_with, run

_TYPES = Path(__file__).parent / "types"
_FOLDERS = {"state-timeline": "statetimeline"}
# Grafana's enums are string enums; their values are accepted too.
_LITERALS = (
    "type Plain<T> = T extends string ? `${T}` : T extends number ? number : T extends (infer U)[] ? "
    "Plain<U>[]"
    " : T extends object ? {[K in keyof T]: Plain<T[K]>} : T;"
)
# Fields of Grafana's exports that its schema lacks; the round trip keeps them.
_UNKNOWN_TO_TYPES = {
    "annotations": {"expr", "step", "titleFormat", "textFormat", "tagKeys", "useValueForTime"}
}

each_dashboard = pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)


def test_the_comparison_reports_lost_fields() -> None:
    """A lost field and a changed value are reported with their path; an added field is not."""
    given = {"a": [1, {"b": 2, "c": 3}]}
    assert list(differences(given, {"a": [1, {"b": 5}], "new": 1})) == [
        ".a[1].b: 2 becomes 5",
        ".a[1].c is lost",
    ]


@pytest.mark.tools
@each_dashboard
def test_grafanas_model_knows_every_field(path: Path) -> None:
    """A round trip through the foundation SDK keeps every field."""
    python = python_with("grafana_foundation_sdk")
    run(python, Path(__file__).parent / "roundtrip.py", path)


@pytest.mark.tools
@pytest.mark.parametrize("version", ["grafana-schema-oldest", "grafana-schema-newest"])
@each_dashboard
def test_grafanas_types_take_every_value(path: Path, version: str, tmp_path: Path) -> None:
    """The types of Grafana 11.0 and 13 accept the dashboard and each panel's options and fields."""
    modules = node_modules(_TYPES / "package.json")
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "tsconfig.json").write_text(json.dumps(_settings(version)), encoding="utf-8")
    text = _program(json.loads(path.read_text(encoding="utf-8")), modules / version)
    (tmp_path / "check.ts").write_text(text, encoding="utf-8")
    run("node", modules / "typescript" / "bin" / "tsc", "-p", tmp_path, cwd=tmp_path)


def _settings(version: str) -> dict[str, object]:
    return {
        "compilerOptions": {
            "strict": True,
            "noEmit": True,
            "target": "es2022",
            "module": "es2022",
            "moduleResolution": "bundler",
            "skipLibCheck": True,
            "types": [],
            # Its files import each other by package name.
            "paths": {"@grafana/schema": [f"./node_modules/{version}"]},
        },
        "files": ["check.ts"],
    }


def _program(document: dict[str, object], schema: Path) -> str:
    """A program that assigns the parts of a dashboard to variables of Grafana's types."""
    lines = [_import(schema, "dashboard/x", "Dashboard", "Dashboard"), _LITERALS]
    panels = document["panels"]
    assert isinstance(panels, list)
    for index, panel in enumerate(panels):
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
    annotations = document["annotations"]
    assert isinstance(annotations, dict)
    marks = [
        {key: value for key, value in mark.items() if key not in _UNKNOWN_TO_TYPES["annotations"]}
        for mark in annotations["list"]
    ]
    known = {**document, "annotations": {"list": marks}}
    lines.append(f"export const dashboard: Plain<Partial<Dashboard>> = {json.dumps(known)};")
    return "\n".join(lines) + "\n"


def _import(schema: Path, folder: str, name: str, alias: str) -> str:
    # The layout of the package differs between the versions.
    found = sorted(schema.glob(f"dist/*/raw/{folder}/*types.gen.d.ts"))
    assert found, f"{schema.name} has no types in {folder}"
    return f"import type {{{name} as {alias}}} from './{_without_ending(found[-1], schema.parent.parent)}';"


def _without_ending(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix().removesuffix(".d.ts")
