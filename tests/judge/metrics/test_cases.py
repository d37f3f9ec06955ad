"""What becomes of an event and a reply: each line of `cases/*.jsonl` is one case of one metric.

A case has the metric, the texts of the event where they differ from those of `make_task`, the reply, and what
it gives: an outcome, a request (if there is no reply), or the text by which it is refused. `python -m
tests.judge.metrics.test_cases` writes what the cases give today; read the difference before you commit it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from judge.chat import ChatRequest
from judge.errors import EventError, JudgeConfigurationError
from judge.metric import Metric, Outcome
from judge.metrics.code import CodeMetric
from judge.metrics.packs.pack import parse_pack
from judge.metrics.prompting import parse_fenced
from judge.metrics.registry import build_metric
from schemas import CoverageVerdict, JudgeTask, RelevanceVerdict
from tests.judge.tasks import make_task

FOLDER = Path(__file__).parent / "cases"
VERDICTS: dict[str, type[BaseModel]] = {"coverage": CoverageVerdict, "relevance": RelevanceVerdict}
Json = dict[str, Any]


def cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.jsonl")):
        for number, line in enumerate(path.read_text("utf-8").rstrip("\n").split("\n"), 1):
            case = json.loads(line)
            yield pytest.param(case, id=f"{path.stem}-{number}: {case['case']}")


def built(metric: Json) -> Metric:
    if "check" in metric:
        return CodeMetric("x", **metric)
    pack = metric.get("pack")
    if pack is not None:
        metric = metric | {"pack": _pack(**pack)}
    return build_metric(**metric)


@cache
def _pack(text: str, dialect: Any) -> Any:
    return parse_pack(text.encode(), dialect=dialect, origin="pack")


def task_of(metric: Metric, texts: Json) -> JudgeTask:
    return JudgeTask.model_validate(make_task(metric.name).model_dump(exclude_none=True) | texts)


def given_by(case: Json) -> Json:
    """Return the request, outcome or refusal of a case, as JSON."""
    try:
        metric = built(case["metric"])
        task = task_of(metric, case.get("event", {}))
        found = metric.interpret(task, case["reply"]) if "reply" in case else metric.prepare(task)
    except (EventError, JudgeConfigurationError) as error:
        return {"refused": str(error)}
    written: Json = orjson.loads(
        orjson.dumps(_request(found) if isinstance(found, ChatRequest) else _outcome(found))
    )
    if written.get("verdict") and metric.name in VERDICTS and "value" not in written:
        VERDICTS[metric.name].model_validate(written["verdict"])
    return written


def _request(request: ChatRequest) -> Json:
    sections = parse_fenced(request.messages[-1].content)
    messages = [f"{turn.role}: {turn.content}" for turn in request.messages]
    schema = request.response_schema
    return {
        "request": sections or messages,
        "schema": None if schema is None else schema.name,
        "max_output_tokens": request.max_output_tokens,
    }


def _outcome(outcome: Outcome) -> Json:
    """Return the fields that are not the default, and spans of findings as pairs."""
    written = {one.name: getattr(outcome, one.name) for one in fields(outcome)}
    for name in ("corrections", "suspicions"):
        written[name] = [[one.kind, one.detail] for one in written[name]]
    written["verdict"] = None if written["verdict"] is None else dict(written["verdict"])
    return {name: value for name, value in written.items() if value not in (None, []) and value != "integer"}


@pytest.mark.parametrize("case", [*cases()])
def test_a_case_gives_what_its_line_says(case: Json) -> None:
    assert given_by(case) == case["gives"]


def write() -> None:
    for path in FOLDER.glob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text("utf-8").rstrip("\n").split("\n")]
        path.write_text(
            "".join(json.dumps(case | {"gives": given_by(case)}, ensure_ascii=False) + "\n" for case in lines)
        )


if __name__ == "__main__":
    write()
