"""The whole way with a small real model, which is slow and often wrong: no event is lost, and every result is
valid.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from benchmarks.report import data_file
from generate.message_schemas import json_schema
from schemas import RESULT, CoverageVerdict, Failed, RelevanceVerdict, Scored, Unscored
from tests.integration.deadlines import until
from tests.integration.stage import Stage, decided, total
from tests.llm.server import CONTEXT_TOKENS, MODEL, llama_server
from tests.threaded_broker import broker_in_thread

pytestmark = [pytest.mark.llm, pytest.mark.timeout(3600)]

COVERAGE_EVENTS, RELEVANCE_EVENTS = 20, 10
MAX_OUTPUT_TOKENS = 256
_DEADLINE_SECONDS = 3000.0

Result = Scored | Unscored | Failed


def _events() -> list[bytes]:
    """Twenty answers with a reference and ten with pages, from the shared data."""
    names = ("nq_events.jsonl", "expertqa_events.jsonl")
    paths = [data_file(name) for name in names]
    if None in paths:
        pytest.skip(f"{' or '.join(names)} is not there (JUDGESTREAM_DATA names the folder)")
    read = [[json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in paths if path]
    short = (event for event in read[0] if len(event["answer"]) < 400)
    cited = (
        event for event in read[1] if event.get("context") and sum(map(len, event["context"].values())) < 8000
    )
    events = [*islice(short, COVERAGE_EVENTS)]
    events += [{**event, "reference": None} for event in islice(cited, RELEVANCE_EVENTS)]
    return [json.dumps(event).encode() for event in events]


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with llama_server(tmp_path) as url:
        yield url


async def test_thirty_events_end_with_the_identity_exact(url: str, tmp_path: Path) -> None:
    """Read = sampled = results, and each result and verdict is valid; failures are counted and printed."""
    events = _events()
    with broker_in_thread() as bootstrap_servers:
        stage = Stage(bootstrap_servers, tmp_path)
        needs = {"coverage": "reference", "relevance": "context"}
        endpoint: dict[str, Any] = {"name": "small", "base_url": url, "model": MODEL}
        endpoint |= {"context_tokens": CONTEXT_TOKENS, "parameters": {"temperature": 0}}
        limits = {"max_in_flight": 2, "timeout_seconds": 300, "max_output_tokens": MAX_OUTPUT_TOKENS}
        stage.changes = {
            "metrics": {name: {"when": {"has": [field]}} for name, field in needs.items()},
            "judge": {"endpoints": [endpoint], **limits},
        }
        began = time.monotonic()
        async with stage.worker(None) as (_, registry):
            await stage.produce(events)
            await until(
                lambda: total(registry, "judgestream_results_total") >= len(events),
                "all events judged",
                deadline_seconds=_DEADLINE_SECONDS,
            )
            counts = decided(registry)
        seconds = time.monotonic() - began
        results, letters = await stage.results(), await stage.dead_letters()
        tasks = [*await stage.tasks("coverage"), *await stage.tasks("relevance")]
    _report(results, seconds)
    assert counts == Counter({("sampled", ""): len(events)})
    assert letters == []
    assert sorted(result.result_id for result in results) == sorted(task.result_id for task in tasks)
    assert len(results) == len(events)
    for result in results:
        jsonschema.validate(json.loads(RESULT.dump_json(result, by_alias=True)), json_schema("result"))
        if isinstance(result, Scored):
            verdict = CoverageVerdict if result.metric == "coverage" else RelevanceVerdict
            verdict.model_validate(result.verdict)


def _report(results: list[Result], seconds: float) -> None:
    told: dict[str, Any] = {"events": len(results), "seconds": round(seconds)}
    for metric in ("coverage", "relevance"):
        own = [result for result in results if result.metric == metric]
        told[metric] = {
            "status": Counter(result.status for result in own),
            "scores": Counter(result.score for result in own if isinstance(result, Scored)),
            "unscored": Counter(result.reason for result in own if isinstance(result, Unscored)),
            "failed": Counter(result.error_type for result in own if isinstance(result, Failed)),
            "details": Counter(
                result.detail[:90] for result in own if isinstance(result, Failed)
            ).most_common(5),
            "corrections": Counter(
                one.kind for result in own if not isinstance(result, Failed) for one in result.corrections
            ),
            "tries": Counter(result.judge.tries for result in own if result.judge is not None),
            "input_tokens": sum(result.usage.input_tokens for result in own),
            "output_tokens": sum(result.usage.output_tokens for result in own),
        }
    print(json.dumps(told, indent=2))  # noqa: T201 - the report is what the target is run for
