"""The golden renders: the chart rendered with each test values file, committed for review.

`python -m tests.helm.renders` rewrites them (it needs helm; see tests/toolbox.py).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from tests.helm.chart import CHART, CI_VALUES, load, name_of, rendered

GOLDEN: Final = Path(__file__).parent / "golden"


class _Dumper(yaml.SafeDumper):
    """Dumps multi-line texts as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def golden(values: Path) -> Path:
    return GOLDEN / f"{name_of(values)}.yaml"


def text_of(values: Path) -> str:
    """Render a values file for comparison: sorted, without versions, checksums, rules and dashboards."""
    documents = sorted(rendered(values), key=lambda one: (one["kind"], one["metadata"]["name"]))
    dumped = yaml.dump_all(
        map(_without_files, documents), Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=160
    )
    chart = load(CHART / "Chart.yaml")
    dumped = dumped.replace(f"judgestream-{chart['version']}", "judgestream-CHART-VERSION")
    version = re.escape(chart["appVersion"])
    dumped = re.sub(rf"(?m)(version: |judgestream:){version}$", r"\1APP-VERSION", dumped)
    return re.sub(r"(checksum/config: )[0-9a-f]{64}", r"\1CHECKSUM", dumped)


def _without_files(document: dict[str, Any]) -> dict[str, Any]:
    if document["kind"] == "PrometheusRule":
        return {**document, "spec": {"groups": [group["name"] for group in document["spec"]["groups"]]}}
    if document["kind"] == "ConfigMap" and "-dashboard-" in document["metadata"]["name"]:
        return {**document, "data": dict.fromkeys(document["data"], "...")}
    return document


def main() -> None:
    wanted = {golden(values): text_of(values) for values in CI_VALUES}
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    for path in set(GOLDEN.glob("*.yaml")) - set(wanted):
        path.unlink()


if __name__ == "__main__":
    main()
    sys.stderr.write(f"written: {GOLDEN}\n")
