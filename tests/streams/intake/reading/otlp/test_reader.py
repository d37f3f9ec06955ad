from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import DecodeError
from streams.intake.reader import Reading
from streams.intake.reading.otlp.reader import OtlpReader
from tests.streams.intake.reading.otlp.building import TRACE, log_record, log_request, request, span
from tests.streams.intake.reading.otlp.golden_files import SAMPLES
from tests.streams.intake.reading.otlp.test_families import (
    ANSWER,
    CALL,
    CASES,
    MODEL,
    PAGES,
    QUESTION,
    event_of,
    read,
)

LLM = {"openinference.span.kind": "LLM", "llm.model_name": "m-1"}


def said(text: str, **attributes: Any) -> dict[str, Any]:
    """Return the attributes of an OpenInference model call."""
    return LLM | {"llm.output_messages.0.message.content": text} | attributes


def test_the_outermost_step_with_an_output_answers() -> None:
    """The outermost step with an output gives the answer.

    An inner draft, a sibling that only retrieved, and an evaluation around another model call do not.
    """
    event = event_of(request(
        span(1, "POST /ask"),
        span(2, "ask", {
            "openinference.span.kind": "CHAIN",
            "input.value": QUESTION,
            "output.value": ANSWER,
        }, parent=1),
        span(3, "retrieve", {"openinference.span.kind": "CHAIN", "output.value": "[Page-1] ..."}, parent=1),
        span(4, "draft", said("a draft"), parent=2),
        span(5, "judge", {"openinference.span.kind": "EVALUATOR", "output.value": "good"}, parent=1),
        span(6, "judge's call", said("5"), parent=5),
    ))  # fmt: skip
    assert (event.question, event.answer, event.span_id) == (QUESTION, ANSWER, f"{2:016x}")
    assert event.labels["question_from"] == "input"


def test_the_last_sibling_call_with_text_answers() -> None:
    """Of sibling calls, the last one with text gives the answer, not one that only called a tool."""
    event = event_of(request(
        span(1, "POST /ask"),
        span(2, "plan", said("a plan"), parent=1),
        span(3, "act", LLM | {
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "t",
        }, parent=1),
        span(4, "answer", said(ANSWER, **{
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": QUESTION,
        }), parent=1),
    ))  # fmt: skip
    assert (event.question, event.answer) == (QUESTION, ANSWER)
    assert event.labels["question_from"] == "message"


def test_judgestream_attributes_override_other_sources() -> None:
    """`judgestream.*` attributes of any span override all other sources."""
    event = event_of(request(
        span(1, "POST /ask", {
            "judgestream.question": QUESTION,
            "judgestream.reference": "12 h",
            "judgestream.context": json.dumps(PAGES),
            "judgestream.label.tenant": "gold",
            "judgestream.conversation_id": "c-9",
        }),
        span(2, "call", said(ANSWER, **{"input.value": "something else"}), parent=1),
    ))  # fmt: skip
    assert (event.question, event.answer, event.reference, event.context) == (QUESTION, ANSWER, "12 h", PAGES)
    assert (event.conversation_id, event.labels["tenant"]) == ("c-9", "gold")
    assert (event.labels["question_from"], event.labels["context_from"]) == ("attribute", "attribute")


@pytest.mark.parametrize(("attributes", "expected"), [
    (
        {
            "openinference.span.kind": "RETRIEVER",
            "retrieval.documents.1.document.content": "b",
            "retrieval.documents.0.document.content": "a",
            "retrieval.documents.0.document.id": "doc-17",
        },
        {"Page-1": "a", "Page-2": "b"},
    ),
    (
        {
            "openinference.span.kind": "RETRIEVER",
            "retrieval.documents.0.document.content": "a",
            "retrieval.documents.0.document.id": "Page-7",
        },
        {"Page-7": "a"},
    ),
    (
        {
            "langfuse.observation.type": "retriever",
            "langfuse.observation.output": json.dumps(["a", "b", "a"]),
        },
        {"Page-1": "a", "Page-2": "b"},
    ),
    (
        {
            "langfuse.observation.type": "span",
            "langfuse.observation.output": json.dumps({"matches": [{"text": "a"}]}),
        },
        {"Page-1": "a"},
    ),
    (
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.documents": json.dumps([{"id": "x", "score": 0.5, "content": "a"}]),
        },
        {"Page-1": "a"},
    ),
    ({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps([{"id": "x"}])}, None),
])  # fmt: skip
def test_pages_are_what_retrieval_found(attributes: dict[str, Any], expected: dict[str, str] | None) -> None:
    """Pages are the retrieved documents, named by their ids if these are page names, else numbered.

    Documents without text give no pages.
    """
    event = event_of(
        request(
            span(1, "root"),
            span(2, "retrieve pages", attributes, parent=1),
            span(3, "call", said(ANSWER), parent=1),
        )
    )
    assert event.context == expected


def test_a_reranker_replaces_the_pages() -> None:
    """The documents of a reranker replace those of the retriever."""
    found = {f"retrieval.documents.{index}.document.content": text for index, text in enumerate("abc")}
    event = event_of(request(
        span(1, "root"),
        span(2, "retrieve", {"openinference.span.kind": "RETRIEVER"} | found, parent=1),
        span(3, "rerank", {
            "openinference.span.kind": "RERANKER",
            "reranker.output_documents.0.document.content": "c",
        }, parent=1),
        span(4, "call", said(ANSWER), parent=1),
    ))  # fmt: skip
    assert event.context == {"Page-1": "c"}


def test_tools_are_recorded_with_what_they_gave_back() -> None:
    """Tool calls are read from tool spans, or else from the messages of models."""
    by_span = event_of(CASES["otel: an agent with a tool"]).tool_calls
    by_message = event_of(CASES["pydantic-ai 2 and later: messages"]).tool_calls
    for calls in (by_span, by_message):
        assert calls is not None
        assert [(one.name, json.loads(one.arguments), one.result) for one in calls] == [
            ("search", CALL["arguments"], "12 hours")
        ]


def test_missing_content_is_reported_with_its_family() -> None:
    """Missing and redacted content give `no_content` with the family."""
    for attributes in ({}, {"input.value": "__REDACTED__", "output.value": "__REDACTED__"}):
        reading = read(request(span(1, "root"), span(2, "call", LLM | attributes, parent=1)))
        assert (reading.events, reading.why_none, reading.silent) == ((), "no_content", ("openinference",))


def test_an_empty_answer_is_a_recorded_one() -> None:
    """An answer emptied by a content filter gives `no_answer`, because the capture of content is on."""
    empty = [{"role": "assistant", "parts": [], "finish_reason": "content_filter"}]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(empty)}
    assert read(request(span(1, "call", attributes))) == Reading(
        why_none="no_answer", problem="no model call has an answer text"
    )


def test_a_model_that_only_calls_tools_gives_no_answer() -> None:
    """A model that only calls tools gives `no_answer`, not `no_content`."""
    call = json.dumps([{"role": "assistant", "parts": [CALL]}])
    assert read(request(span(1, "call", MODEL | {"gen_ai.output.messages": call}))).why_none == "no_answer"


@pytest.mark.parametrize(
    "value",
    [
        request(
            span(1, "chat", MODEL | {"gen_ai.output.messages": "x"}), resource={"service.name": "judgestream"}
        ),
        request(span(1, "chat", MODEL | {"gen_ai.output.messages": "x"}), scope="judgestream"),
        log_request(log_record("gen_ai.evaluation.result", {"judgestream.result_id": "r"})),
    ],
)
def test_traces_of_judgestream_are_not_judged(value: bytes) -> None:
    """Traces of judgestream itself are not judged, as each verdict would cause the next."""
    assert read(value).why_none == "ours"


def test_a_trace_without_its_root_says_so() -> None:
    """An event of a trace without its root is labelled incomplete."""
    event = event_of(request(span(2, "call", said(ANSWER), parent=1)))
    assert event.labels["trace_parts"] == "incomplete"


def test_a_span_that_comes_twice_counts_once() -> None:
    """A repeated span counts once; the one with more attributes is kept."""
    one = span(1, "call", said(ANSWER))
    assert (
        event_of(request(one, one)) == event_of(request(span(1, "call", LLM), one)) == event_of(request(one))
    )


def test_a_mapping_reads_the_normalised_trace() -> None:
    """A mapping overrides fields; fields that it does not find or name keep their values."""
    reader = OtlpReader(unit="trace", max_event_bytes=1_000_000, mapping={
        "question": "root.attributes.q",
        "reference": "retrievals[0].documents[0].text",
        "answer": "root.attributes.missing",
        "labels.route": "root.name",
    })  # fmt: skip
    value = request(
        span(1, "POST /ask", {"q": "own?"}),
        span(
            2,
            "r",
            {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "a"},
            parent=1,
        ),
        span(3, "call", said(ANSWER), parent=1),
    )
    (event,) = reader.read(reader.parts(value)[TRACE]).events
    assert (event.question, event.answer, event.reference) == ("own?", ANSWER, "a")
    assert (event.labels["route"], event.labels["model"]) == ("POST /ask", "m-1")


def test_people_and_conversations_are_no_labels() -> None:
    """Metadata becomes labels, except values that identify users, sessions or libraries."""
    people = {"user_id": "u-1", "session_id": "s-1", "ls_provider": "openai", "deep": {}}
    metadata = {"tenant": "gold", "beta": True, **people}
    event = event_of(request(span(1, "call", said(ANSWER, metadata=json.dumps(metadata)))))
    found = {name: event.labels.get(name) for name in metadata}
    assert found == dict.fromkeys(people) | {"tenant": "gold", "beta": "true"}


READER = OtlpReader(unit="trace", max_event_bytes=1_000_000)
SAMPLE = (SAMPLES / "traceloop-openai-0.62.4.pb").read_bytes()


@given(st.binary(max_size=300) | st.integers(0, len(SAMPLE) - 1).map(lambda cut: SAMPLE[:cut]))
def test_any_bytes_are_read_or_refused(value: bytes) -> None:
    """Any bytes, truncated or not, raise only a DecodeError."""
    for call in (READER.heads, READER.parts):
        with contextlib.suppress(DecodeError):
            call(value)


FORM_NAMES = (
    *("role", "content", "parts", "messages", "type", "text", "kwargs", "lc", "data", "args", "documents"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(FORM_NAMES) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON, JSON)
def test_any_content_is_read_or_left_out(heard: Any, gave: Any) -> None:
    """Content of any JSON is read without an exception."""
    attributes: dict[str, Any] = {
        "openinference.span.kind": "CHAIN",
        "gen_ai.request.model": "m",
        "input.value": json.dumps(heard),
        "output.value": json.dumps(gave),
    }
    model = MODEL | {
        "gen_ai.input.messages": json.dumps(heard),
        "gen_ai.output.messages": json.dumps(gave),
        "events": json.dumps(gave),
        "metadata": json.dumps(gave),
    }
    retriever = {"openinference.span.kind": "RETRIEVER", "output.value": json.dumps(gave)}
    value = request(
        span(1, "a", attributes), span(2, "b", model, parent=1), span(3, "c", retriever, parent=1)
    )
    read(value)


@pytest.mark.parametrize("wrapped", ["[", '{"messages":', '{"kwargs":{"lc":1,"a":', '{"outputs":'])
def test_content_that_is_nested_without_end_is_left_alone(wrapped: str) -> None:
    """Deeply nested content is read to a limited depth, without an exception."""
    closing = {"[": "]", '{"messages":': "}", '{"kwargs":{"lc":1,"a":': "}}", '{"outputs":': "}"}[wrapped]
    deep = wrapped * 400 + "1" + closing * 400
    read(request(span(1, "a", MODEL | {
        "gen_ai.input.messages": deep,
        "gen_ai.output.messages": deep,
        "output.value": deep,
    })))  # fmt: skip


def test_fields_of_json_may_be_null_and_ids_base64() -> None:
    """JSON fields may be null, and ids base64, as in Protobuf's JSON."""
    written = json.loads(request(span(1, "call", said(ANSWER))))
    (of_resource,) = written["resourceSpans"]
    (of_scope,) = of_resource["scopeSpans"]
    (one,) = of_scope["spans"]
    one |= {"parentSpanId": None, "traceState": None, "events": None, "status": None, "name": None}
    one |= {"traceId": base64.b64encode(bytes.fromhex(TRACE)).decode(), "spanId": "AAAAAAAAAAE="}
    of_scope["scope"] = of_resource["resource"] = written["resourceLogs"] = None
    event = event_of(json.dumps(written).encode())
    assert (event.answer, event.trace_id, event.span_id) == (ANSWER, TRACE, f"{1:016x}")


def test_json_is_read_with_numbers_of_any_form() -> None:
    """JSON may use integers or floats for numbers; names of the schema (resource_spans) are refused."""
    written = request(span(1, "call", said(ANSWER) | {"metadata": json.dumps({"serviceTier": "gold"})}))
    with pytest.raises(DecodeError, match="got resource_spans"):
        READER.heads(written.replace(b"resourceSpans", b"resource_spans"))
    (one,) = (changed := json.loads(written))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    at = int(one["endTimeUnixNano"])
    for number in (at, float(at)):
        one["endTimeUnixNano"] = number
        assert event_of(json.dumps(changed).encode()).occurred_at == event_of(written).occurred_at


@pytest.mark.parametrize("value", [b'{"event_id": "e1", "question": "Q"}', b'{"resourceMetrics": []}'])
def test_json_of_another_kind_is_refused(value: bytes) -> None:
    """JSON without resourceSpans and resourceLogs is refused, not read as an empty request."""
    with pytest.raises(DecodeError, match="has neither resourceSpans nor resourceLogs"):
        READER.heads(value)
    assert READER.heads(b"{}") == []


@pytest.mark.parametrize("read", [READER.heads, READER.parts])
def test_json_of_otlp_before_its_scopes_is_refused(read: Callable[[bytes], object]) -> None:
    """The field was renamed in 2022; in Protobuf it kept its number and is read."""
    value = request(span(1, "chat")).replace(b"scopeSpans", b"instrumentationLibrarySpans")
    with pytest.raises(DecodeError, match="has instrumentationLibrarySpans"):
        read(value)
