"""Generate the JSON Schemas of all messages from the models, in `schemas/json/`.

`python -m generate --release` copies them to `schemas/released/`, with which later changes must be
compatible.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from generate.places import ROOT
from schemas.alert import Alert
from schemas.anchor import Anchor
from schemas.dead_letter import DeadLetter
from schemas.event import QAEvent
from schemas.findings import CoverageVerdict, RelevanceVerdict
from schemas.label import Label
from schemas.result import RESULT
from schemas.task import JudgeTask

FOLDER: Final = ROOT / "schemas" / "json"
RELEASED: Final = ROOT / "schemas" / "released"
EXAMPLES: Final = ROOT / "schemas" / "examples"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

MESSAGES: Mapping[str, TypeAdapter[Any]] = {
    "qa_event": TypeAdapter(QAEvent),
    "judge_task": TypeAdapter(JudgeTask),
    "result": RESULT,
    "dead_letter": TypeAdapter(DeadLetter),
    "alert": TypeAdapter(Alert),
    "label": TypeAdapter(Label),
    "anchor": TypeAdapter(Anchor),
    "coverage_verdict": TypeAdapter(CoverageVerdict),
    "relevance_verdict": TypeAdapter(RelevanceVerdict),
}
"""Messages by the name of their schema file and examples folder."""


def json_schema(name: str) -> dict[str, Any]:
    """Return the published JSON Schema (draft 2020-12) of a message.

    It describes what a producer may send (QAEvent) or what a consumer receives (all others).

    Args:
        name: A key of `MESSAGES`.
    """
    schema = accepted_schema(name) if name == "qa_event" else MESSAGES[name].json_schema(mode="serialization")
    return {"$schema": DIALECT, "$id": f"urn:judgestream:{name}:1", **schema}


def accepted_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of what the model accepts, which may be wider than what it writes."""
    return MESSAGES[name].json_schema(mode="validation")


def path(name: str, folder: Path = FOLDER) -> Path:
    """Return the path of a message's committed schema."""
    return folder / f"{name}.v1.schema.json"


def render(schema: Mapping[str, Any]) -> str:
    """Return a schema as committed JSON."""
    return json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def files() -> Mapping[Path, str]:
    """Return the schemas by path."""
    return {path(name): render(json_schema(name)) for name in MESSAGES}


def release() -> None:
    """Copy the current schemas to the released ones."""
    for name in MESSAGES:
        path(name, RELEASED).write_text(render(json_schema(name)), encoding="utf-8")
