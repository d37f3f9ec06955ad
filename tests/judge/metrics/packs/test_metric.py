from __future__ import annotations

import json

import pytest

from judge.errors import InvalidVerdictError
from judge.metrics.packs.metric import MAX_VERDICT_BYTES, PackMetric
from judge.metrics.packs.pack import parse_pack
from tests.judge.built_tasks import task_for

PACK = parse_pack(
    b"""
response_schema: {type: object, properties: {score: {type: integer}, why: {type: array}}, required: [score]}
messages:
  - {role: system, content: Rate it.}
  - {role: user, content: "{question} / {answer} / {context}"}
""",
    dialect="yaml",
    origin="tone.yaml",
)
METRIC = PackMetric("tone", PACK, score_range=(1, 5))


def test_a_verdict_has_a_bounded_size() -> None:
    """A verdict above 65,536 bytes is refused."""
    with pytest.raises(InvalidVerdictError, match="at most 65536 bytes"):
        METRIC.interpret(task_for(METRIC), json.dumps({"score": 1, "more": "x" * MAX_VERDICT_BYTES}))
