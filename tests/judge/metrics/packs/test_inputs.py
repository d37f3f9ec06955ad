"""Further inputs of packs: conversation, tool calls, another answer, named fields and labels."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.evaluate.cache import cache_key
from judge.evaluate.guard import TextLimits, neutral_task
from judge.metric import Metric, reading_size
from judge.metrics.registry import build_metric
from schemas import result_id
from tests.judge.tasks import OCCURRED, guarded, task_for, yaml_pack

MESSAGES = [{"role": "system", "content": "Answer in French."}, {"role": "user", "content": "Where is it?"}]
CALLS = [{"name": "search", "arguments": '{"q": "tower"}', "result": "Paris"}]
EVENT: dict[str, Any] = {
    "answer": "À Paris.",
    "messages": MESSAGES,
    "tool_calls": CALLS,
    "other_answer": "In Paris.",
    "fields": {"policy": "Be brief.", "secret_plan": "No judge sees this."},
    "labels": {"app": "guide", "tenant": "t1"},
}
SHOWN = ("messages", "tool_calls", "other_answer", "fields.policy", "labels.app")


def metric_showing(*names: str) -> Metric:
    content = "\n".join(f"{name}: {{{name}}}" for name in ("answer", *names))
    text = yaml.safe_dump({"score_range": [1, 5], "messages": [{"role": "user", "content": content}]})
    return build_metric("own", pack=yaml_pack(text))


@pytest.mark.parametrize("name", SHOWN)
def test_a_task_holds_only_the_inputs_of_its_metric(name: str) -> None:
    task = task_for(metric_showing(name), **EVENT)
    carried = {
        kind: getattr(task, kind)
        for kind in ("messages", "tool_calls", "other_answer", "fields", "reference", "context")
        if getattr(task, kind) is not None
    }
    assert list(carried) == ["fields" if "." in name else name]
    if "." in name:
        shown = {"fields.policy": {"policy": "Be brief."}, "labels.app": {"labels.app": "guide"}}
        assert carried["fields"] == shown[name]
    assert "No judge sees this." not in task.model_dump_json()


@pytest.mark.parametrize("replay_id", [None, "r-1"])
def test_a_task_has_the_time_the_trace_and_the_id_of_its_event(replay_id: str | None) -> None:
    given: dict[str, Any] = {"occurred_at": None, "trace_id": "0" * 32, "context": {"Page-1": "x"}}
    task = task_for(metric_showing("context"), answer="a", replay_id=replay_id, **given)
    assert (task.question, task.answer, task.context) == ("", "a", {"Page-1": "x"})
    assert (task.occurred_at, task.trace_id) == (OCCURRED, "0" * 32)  # the record's time
    assert task.result_id == result_id(topic="qa.events", event_id="e-1", metric="own", replay_id=replay_id)


@pytest.mark.parametrize("when", ["made", "judged"])
def test_every_input_is_redacted(when: str) -> None:
    secret = "jane@example.org"
    event: dict[str, Any] = {
        "answer": secret,
        "messages": [{"role": "user", "content": f"I am {secret}"}],
        "tool_calls": [{"name": "mail", "arguments": secret, "result": secret}],
        "other_answer": secret,
        "fields": {"policy": secret},
        "labels": {"app": secret},
    }
    metric = metric_showing(*SHOWN)
    redacting = guarded(metric, "emails")
    task = task_for(redacting if when == "made" else metric, **event)
    if when == "made":
        assert secret not in task.model_copy(update={"labels": {}}).model_dump_json()
    request = redacting.prepare(task)
    assert isinstance(request, ChatRequest)
    assert secret not in request.messages[0].content
    assert request.messages[0].content.count("[email]") == 7


@pytest.mark.parametrize(
    ("name", "event", "told"),
    [
        ("question", {"question": "x" * 51}, r"question must be at most 50 .*judge\.max_question_chars"),
        ("messages", {"messages": [{"role": "user", "content": "x" * 101}]}, "context must be at most 100"),
        ("tool_calls", {"tool_calls": [{"name": "t", "result": "x" * 101}]}, "context must be at most 100"),
        ("fields.policy", {"fields": {"policy": "x" * 101}}, "context must be at most 100"),
        ("other_answer", {"other_answer": "x" * 51}, "answer must be at most 50"),
    ],
)
def test_every_input_is_bounded(name: str, event: dict[str, Any], told: str) -> None:
    metric = guarded(metric_showing(name), limits=TextLimits(question=50, answer=50, context=100))
    task = task_for(metric, **(EVENT | event))
    assert reading_size(task) > 50
    with pytest.raises(EventError, match=told):
        metric.prepare(task)


@pytest.mark.parametrize(
    "event",
    [
        {"messages": MESSAGES[1:]},
        {"tool_calls": []},
        {"other_answer": "In Lyon."},
        {"fields": {"policy": "Be polite."}},
        {"labels": {"app": "shop"}},
    ],
)
def test_a_verdict_is_remembered_by_all_that_was_shown(event: dict[str, Any]) -> None:
    metric = metric_showing(*SHOWN)
    keys = {
        cache_key(task_for(metric, **one), fingerprint="f", context_tokens=None)
        for one in (EVENT, EVENT | event, EVENT | {"labels": EVENT["labels"] | {"tenant": "t2"}})
    }
    assert len(keys) == 2  # a label that is not shown does not change the key


def test_a_neutral_event_has_every_input_that_a_metric_shows() -> None:
    metric = metric_showing(*SHOWN)
    assert isinstance(metric.prepare(neutral_task(metric, now=OCCURRED)), ChatRequest)
