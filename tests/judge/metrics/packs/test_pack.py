from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ResponseSchema
from judge.errors import EventError, InvalidVerdictError, PromptPackError
from judge.metric import Inputs
from judge.metrics.packs.metric import MAX_VERDICT_BYTES, PackMetric
from judge.metrics.packs.pack import MAX_PACK_BYTES, PromptPack, load_pack, parse_pack
from judge.metrics.registry import build_metric
from tests.judge.tasks import task_for, yaml_pack
from tests.places import blocks


def markdown(text: str) -> PromptPack:
    return parse_pack(text.encode(), dialect="markdown", origin="pack.md")


def test_the_same_prompts_have_the_same_hash_in_both_dialects() -> None:
    one = markdown("# System\nS\n# User\nA: {{ item.output_text }}")
    other = yaml_pack('[{role: system, content: S}, {role: user, content: "A: {answer}"}]')
    assert one.hash == other.hash
    assert len(one.hash) == 12
    assert one.hash != markdown("# System\nS\n# User\nA: {{ item.output_text }}!").hash


@given(st.text(), st.text())
def test_texts_are_put_in_at_once(question: str, answer: str) -> None:
    hostile = Inputs(
        "{answer} {{ item.output_text }}" + question, answer + "{question}{reference}", "{context}", {}
    )
    text = yaml_pack('[{role: user, content: "{question}|{answer}|{reference}|"}]').render(hostile)[0].content
    assert text.startswith("{answer} {{ item.output_text }}")
    assert text.endswith("{question}{reference}|{context}|")


REFUSED = json.loads((Path(__file__).parents[1] / "cases" / "refused_packs.json").read_text("utf-8"))


@pytest.mark.parametrize("case", REFUSED)
def test_a_pack_that_cannot_work_is_refused_with_the_file_and_the_defect(case: dict[str, Any]) -> None:
    with pytest.raises(PromptPackError, match=rf"^prompt pack the\.pack: .*{case['told']}"):
        parse_pack(case["text"].encode(), dialect=case["dialect"], origin="the.pack")


def test_a_response_schema_is_taken_in_both_forms() -> None:
    strict = (
        "{type: object, properties: {score: {type: integer}}, required: [score], additionalProperties: false}"
    )
    for name, schema in (("verdict", strict), ("tone", f"{{name: tone, schema: {strict}}}")):
        pack = markdown(f"---\nresponse_schema: {schema}\n---\n{{{{ item.output_text }}}}")
        assert pack.options.response_schema == ResponseSchema(name, yaml.safe_load(strict))
        assert pack.warnings == ()
    loose = markdown("---\nresponse_schema: {properties: {score: {}}}\n---\n{{ item.output_text }}")
    assert "strict mode" in loose.warnings[0]


def test_packs_are_loaded_by_the_ending_of_their_name(tmp_path: Path) -> None:
    for name, text in (("a.md", "{{ item.output_text }}"), ("a.YML", '[{role: user, content: "{answer}"}]')):
        path = tmp_path / name
        path.write_text(text, "utf-8")
        assert load_pack(path).uses == {"answer"}


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.md"
    large.write_bytes(b"x" * (MAX_PACK_BYTES + 1))
    for path, told in (
        (tmp_path / "none.md", "No such file"), (tmp_path, "cannot be read"), (large, "at most 1048576 bytes")
    ):  # fmt: skip
        with pytest.raises(PromptPackError, match=told):
            load_pack(path)


def _manual(dialect: str, example: str | None = None) -> PromptPack:
    mark = f"<!-- example: {example or dialect} -->\n"
    (text,) = blocks("docs/prompt-packs.md", dialect, after=mark)
    return parse_pack(text.encode(), dialect=dialect, origin="manual")  # type: ignore[arg-type] # one of the two


def _pack(examples: Any, *, user: str = "Q: {question} A: {answer}", **options: Any) -> PromptPack:
    messages = [{"role": "system", "content": "Judge."}, {"role": "user", "content": user}]
    return yaml_pack(yaml.safe_dump({"messages": messages, "examples": examples, **options}))


def test_a_verdict_has_a_bounded_size() -> None:
    metric = PackMetric("tone", _pack(None), score_range=(1, 5))
    with pytest.raises(InvalidVerdictError, match="at most 65536 bytes"):
        metric.interpret(task_for(metric), json.dumps({"score": 1, "more": "x" * MAX_VERDICT_BYTES}))


def test_a_schema_that_refers_to_itself_without_end_is_an_error_of_the_event() -> None:
    pack = _pack(None, response_schema={"properties": {"score": {"$ref": "#/properties/score"}}})
    with pytest.raises(EventError, match=r"response_schema cannot be applied: .*; correct its"):
        pack.checked({"score": 1})


def test_warnings_about_unknown_keys_keep_their_order() -> None:
    pack = yaml_pack("{zeta: 1, alpha: 2, mid: 3, beta: 4, messages: [{role: user, content: '{answer}'}]}")
    assert [warning.split()[0] for warning in pack.warnings] == ["'zeta'", "'alpha'", "'mid'", "'beta'"]


def test_position_bias_prefers_no_answer() -> None:
    """Half of 400 events, within 5 standard errors of 10."""
    pack = _pack(None, user="{answer} {other_answer}", result="pairwise")
    metric, values = build_metric("better", pack=pack), []
    for number in range(400):
        task = task_for(metric, event_id=f"e-{number}", other_answer="o")
        values.append(getattr(metric.interpret(task, '{"score": "first"}'), "value", None))
    assert abs(values.count("answer") - 200) <= 50
    assert values.count("answer") + values.count("other") == 400


@pytest.mark.parametrize(("dialect", "turns"), [("markdown", 6), ("yaml", 4)])
def test_the_examples_of_the_manual_are_packs(dialect: str, turns: int) -> None:
    assert _manual("markdown", "pairs").uses == {"question", "answer", "other_answer"}
    pack = _manual(dialect)
    assert pack.warnings == ()
    assert pack.score_range is not None
    assert pack.options.response_schema is not None
    messages = pack.render(Inputs("why?", "because", "reason", {"Page-1": "one", "Page-2": "two"}))
    assert len(messages) == turns  # system, two for each example, event
    assert '{"' in messages[0].content
    assert all(json.loads(message.content)["score"] for message in messages if message.role == "assistant")


def test_examples_change_the_hash_and_only_they() -> None:
    one, other = (_pack([{"question": "q", "answer": "a", "reply": {"score": score}}]) for score in (1, 2))
    assert len({one.hash, other.hash, _pack([]).hash}) == 3
    assert _pack([]).hash == _pack(None).hash
