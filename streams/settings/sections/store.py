"""Section `store`: the verdict store, a local copy of results and texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from schemas.base import LabelName
from streams.settings.base import FilePath, Section


def _link(template: str) -> str:
    if not template.startswith(("https://", "http://")):
        raise ValueError("must start with https:// or http://")
    return template


LinkTemplate = Annotated[str, AfterValidator(_link), Field(max_length=1_000)]
"""An address with placeholders in braces."""


class StoreSettings(Section):
    """The verdict store, written by a worker with `--agents store`."""

    path: FilePath = Field(
        default=Path("judgestream-store.sqlite3"),
        description="The store's file, on a local disk; only one worker may write it.",
    )
    texts: Literal["full", "excerpt", "none"] = Field(
        default="full",
        description=("Which texts of question, answer, reference and pages are kept (after redaction)."),
    )
    keep_days: int = Field(default=30, ge=1, le=3_650, description="How long verdicts are kept.")
    max_gigabytes: float = Field(
        default=10,
        gt=0,
        le=10_000,
        description="Maximum size; the oldest texts are deleted first, then verdicts.",
    )
    product_labels: tuple[LabelName, ...] = Field(
        default=("model", "prompt_version", "version", "release", "deployment"),
        max_length=32,
        description=(
            "Labels that identify the version of the answering product: a new value is reported as a "
            "change of the product, for other labels as a change of the mix."
        ),
    )
    explorer_url: LinkTemplate | None = Field(
        default=None,
        description="Address of the explorer, such as https://judge.example.com, for links in alerts.",
    )
    trace_url: LinkTemplate | None = Field(
        default=None, description="URL template of a trace; {trace_id} and {span_id} are filled in."
    )
    record_url: LinkTemplate | None = Field(
        default=None, description="URL template of a record; {topic}, {partition} and {offset} are filled in."
    )
