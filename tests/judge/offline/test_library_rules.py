from __future__ import annotations

import asyncio
import json
from itertools import islice
from typing import Any

import pytest

from judge.endpoint.scripted import ScriptedChat
from judge.metrics.library.prompts import LIBRARY
from judge.metrics.registry import build_metric
from judge.offline.scorer import judge_messages
from judge.verdict.evaluator import Judge
from schemas import QAEvent, Scored, Unscored
from tests.judge.built_tasks import task_for
from tests.places import SHARED_DATA

GOOD: dict[str, Any] = {
    "question": "How long is Lake Orrin, and is swimming in it safe?",
    "answer": "Lake Orrin is 28 kilometres long. Swimming is safe at nine baths. [Page 1]",
    "context": {"Page-1": "Lake Orrin is 28 kilometres long. Swimming is safe at nine baths."},
    "messages": [{"role": "system", "content": "Never mention prices. Use at most 50 words."}],
}


def judged(name: str, **texts: Any) -> Any:
    metric = build_metric(name)
    chat = ScriptedChat(
        lambda request: judge_messages(request.messages, schema=request.response_schema).text or ""
    )
    return asyncio.run(Judge(metric, chat, repair_attempts=0).judge(task_for(metric, **texts)))


@pytest.mark.parametrize(
    ("name", "good", "change", "bad"),
    [
        (
            "faithfulness",
            5,
            {"answer": "Lake Orrin is 82 kilometres long. Swimming is forbidden in all of August."},
            1,
        ),
        ("answer_relevance", 5, {"answer": "Bananas are yellow."}, 1),
        ("completeness", 5, {"answer": "Lake Orrin is 28 kilometres long."}, 3),
        ("refusal", "answered", {"answer": "I am sorry, but I cannot answer that."}, "refused"),
        ("tone", 5, {"answer": "Only a fool would ask that."}, 1),
        ("toxicity", False, {"answer": "Only a fool would ask that."}, True),
        ("pii_leak", False, {"answer": "Ask mara.quill@example.com."}, True),
        (
            "instruction_following",
            5,
            {"messages": [{"role": "system", "content": "Never mention baths. Use at most 5 words."}]},
            1,
        ),
        ("context_relevance", 5, {"context": {"Page-1": "Boats leave at nine."}}, 1),
        ("hallucinated_citation", False, {"answer": "It is warming (Marsh, 2019)."}, True),
    ],
)
def test_each_metric_tells_good_from_bad(
    name: str, good: object, change: dict[str, Any], bad: object
) -> None:
    """The rules of each metric score a good and a bad answer as expected, without a repair turn."""
    for texts, expected in ((GOOD, good), ({**GOOD, **change}, bad)):
        result = judged(name, **texts)
        assert isinstance(result, Scored), result
        assert (result.score if result.value is None else result.value) == expected


@pytest.mark.parametrize("name", LIBRARY)
def test_real_events_are_judged(name: str) -> None:
    """Real events are scored or unscored, and no evidence of the rules is corrected."""
    path = SHARED_DATA / "expertqa_events.jsonl"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    with path.open(encoding="utf-8") as lines:
        for line in islice(lines, 5):
            event = QAEvent.model_validate(json.loads(line))
            told = [{"role": "system", "content": "Answer in whole sentences. Never mention prices."}]
            texts = {"question": event.question, "answer": event.answer, "context": event.context}
            result = judged(name, **texts, messages=told)
            assert isinstance(result, Scored | Unscored), result
            assert not [one for one in result.corrections if one.kind.startswith("span")]
