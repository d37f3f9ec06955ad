"""The JSON Schemas of all messages, generated from the models and committed beside them.

`python -m schemas.json_schema --write` writes them to `schemas/json/`, `--check` fails where they are not current.
`--release` copies them to `schemas/released/`, against which later changes are checked for compatibility.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from schemas.alert import Alert
from schemas.dead_letter import DeadLetter
from schemas.event import QAEvent
from schemas.result import RESULT
from schemas.task import JudgeTask
from schemas.verdict import CoverageVerdict, RelevanceVerdict

FOLDER = Path(__file__).parent / "json"
RELEASED = Path(__file__).parent / "released"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

MESSAGES: Mapping[str, TypeAdapter[Any]] = {
    "qa_event": TypeAdapter(QAEvent),
    "judge_task": TypeAdapter(JudgeTask),
    "result": RESULT,
    "dead_letter": TypeAdapter(DeadLetter),
    "alert": TypeAdapter(Alert),
    "coverage_verdict": TypeAdapter(CoverageVerdict),
    "relevance_verdict": TypeAdapter(RelevanceVerdict),
}
"""By the name that the schema's file and its folder of examples have."""


def json_schema(name: str) -> dict[str, Any]:
    """Generate the published JSON Schema (draft 2020-12) of a message.

    It says what a producer may send (QAEvent) or what a consumer may rely on (all others).

    Args:
        name: A key of `MESSAGES`.
    """
    schema = accepted_schema(name) if name == "qa_event" else MESSAGES[name].json_schema(mode="serialization")
    return {"$schema": DIALECT, "$id": f"urn:judgestream:{name}:1", **schema}


def accepted_schema(name: str) -> dict[str, Any]:
    """Generate the JSON Schema of what the model reads, which may be wider than what it writes."""
    return MESSAGES[name].json_schema(mode="validation")


def path(name: str, folder: Path = FOLDER) -> Path:
    """Where the committed schema of a message stands."""
    return folder / f"{name}.v1.schema.json"


def render(schema: Mapping[str, Any]) -> str:
    """Put a schema in the form in which it is committed."""
    return json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def stale(folder: Path = FOLDER) -> list[str]:
    """Name the messages whose committed schema differs from the models."""
    return [
        name
        for name in MESSAGES
        if not path(name, folder).is_file()
        or path(name, folder).read_text(encoding="utf-8") != render(json_schema(name))
    ]


def main(arguments: list[str]) -> int:
    """Write or check the committed schemas; 0 when they are current."""
    parser = argparse.ArgumentParser(prog="python -m schemas.json_schema", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the schemas")
    action.add_argument("--check", action="store_true", help="fail where a committed schema is not current")
    action.add_argument("--release", action="store_true", help="take the current schemas as released")
    parsed = parser.parse_args(arguments)
    if parsed.write or parsed.release:
        folder = RELEASED if parsed.release else FOLDER
        folder.mkdir(exist_ok=True)
        for name in MESSAGES:
            path(name, folder).write_text(render(json_schema(name)), encoding="utf-8")
        return 0
    outdated = stale()
    for name in outdated:
        sys.stderr.write(f"{path(name).name} differs from the models; run `make schemas` and commit it\n")
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
