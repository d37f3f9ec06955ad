"""Questions, answers, pages and tool results of further content."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streams.intake.reading.otlp.pages import open_prompt
from streams.intake.reading.otlp.text import result_text
from tests.streams.intake.reading.otlp.building import log_record, log_request, request, span
from tests.streams.intake.reading.otlp.test_families import (
    ANSWER,
    MODEL,
    PAGES,
    QUESTION,
    SYSTEM,
    dumped,
    event_of,
    read,
)

ONE, TWO = PAGES.values()
MARKED = f"Pages:\n[Page-1] {ONE}\n[Page-2] {TWO}"
TAGGED = f"<documents><document index='1'>{ONE}</document>\n<document index='2'>{TWO}</document></documents>"
CALL = {"type": "tool_call", "id": "c-1", "name": "search_manual", "arguments": {"q": "battery"}}
ASKED = {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
TOLD = {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}


@pytest.mark.parametrize(
    "text",
    [
        f"{MARKED}\n\n{QUESTION}",
        f"{MARKED}\n{QUESTION}",
        f"{QUESTION}\n\n{MARKED}",
        f"{TAGGED}\n\n{QUESTION}",
        f"{QUESTION}\n{TAGGED}",
    ],
)
def test_a_question_without_a_mark_is_cut_from_marked_pages(text: str) -> None:
    """An unmarked question is the last paragraph after the pages, or the text before them."""
    prompt = open_prompt(text)
    assert (prompt.question, prompt.pages, prompt.is_cut) == (QUESTION, PAGES, True)


def test_the_fields_of_a_prompt_of_dspy_are_marks() -> None:
    """DSPy's field marks separate the inputs of a prompt from the names of its outputs."""
    fields = f"[[ ## context ## ]]\n{TWO}\n\n[[ ## question ## ]]\n{QUESTION}\n\nRespond with a JSON object"
    prompt = open_prompt(fields)
    assert (prompt.question, prompt.pages, prompt.is_cut) == (QUESTION, {"Page-1": TWO}, True)


@pytest.mark.parametrize("text", [MARKED, f"{MARKED}\n\nAnswer in French.", "Page 3: what does it say?"])
def test_a_message_with_marks_and_no_question_stays_whole(text: str) -> None:
    """A message without a question outside the pages is kept unchanged."""
    prompt = open_prompt(text)
    assert (prompt.question, prompt.is_cut) == (text, False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"type": "tool", "data": {"content": TWO, "tool_call_id": "c"}}, TWO),  # LangChain in OpenInference
        ({"content": TWO, "type": "tool", "tool_call_id": "c"}, TWO),
        ({"blocks": [{"text": TWO}], "tool_name": "search", "raw_output": TWO}, TWO),  # LlamaIndex
        ({"result": TWO}, TWO),  # Gemini
        ({"content": [{"type": "text", "text": ONE}, {"type": "text", "text": TWO}]}, f"{ONE}\n{TWO}"),  # MCP
        ({"type": "text", "value": TWO}, TWO),  # Vercel
        ([{"id": 7}], '[{"id":7}]'),
        ('{"hours": 12.0}', '{"hours": 12.0}'),  # unchanged
        ("12 hours", "12 hours"),
        (None, ""),
    ],
)
def test_the_result_of_a_tool_is_taken_out_of_its_envelope(value: Any, text: str) -> None:
    """The text of a tool result is read from each library's envelope; other structures are kept."""
    assert result_text(value) == text
    assert result_text(dumped(value) if isinstance(value, dict) else value) == text


@pytest.mark.parametrize(
    ("name", "result", "context"),
    [
        ("search_manual", f"[Page-1] {ONE}\n[Page-2] {TWO}", PAGES),
        ("search_manual", TWO, {"Page-1": TWO}),
        ("get_manual", f"[Page-1] {ONE}\n[Page-2] {TWO}", PAGES),
        ("get_manual", TWO, None),
        ("ask_researcher", TWO, None),
    ],
)
def test_what_a_search_tool_found_is_the_context(name: str, result: str, context: Any) -> None:
    """Without a retriever, the context is the result of a search tool or one with page marks.

    A tool without a span, or with a span without content (Agent Framework), is read from the messages.
    """
    call = {**CALL, "name": name}
    reply = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c-1", "response": result}]}
    heard = [ASKED, {"role": "assistant", "parts": [call]}, reply]
    model = span(
        1, "chat", MODEL | {"gen_ai.input.messages": dumped(heard), "gen_ai.output.messages": dumped([TOLD])}
    )
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    asked = {"gen_ai.tool.call.arguments": dumped(CALL["arguments"])}  # Pydantic AI until 0.2
    recorded = asked | {"gen_ai.tool.call.result": result}
    for spans in (
        [model],
        [model, span(2, "t", tool, parent=1)],
        [model, span(2, "t", tool | asked, parent=1)],
        [model, span(2, "t", tool | recorded, parent=1)],
    ):
        event = event_of(request(*spans))
        assert event.context == context
        assert [(one.name, one.result) for one in event.tool_calls or ()] == [(name, result)]


def test_words_beside_calls_of_tools_are_no_answer() -> None:
    """Text beside tool calls (Anthropic) is no answer; text after their results is."""
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "I'll look that up."}, CALL]}]
    messages = {"gen_ai.input.messages": dumped([ASKED]), "gen_ai.output.messages": dumped(said)}
    reading = read(request(span(1, "chat", MODEL | messages)), unit="span")
    assert (reading.events, reading.why_none) == ((), "no_answer")
    # The result of a tool run by the provider is in the same message.
    reply = {"type": "server_tool_call_response", "id": "c-1", "response": TWO}
    parts = [{**CALL, "type": "server_tool_call"}, reply, {"type": "text", "content": ANSWER}]
    said = [{"role": "assistant", "parts": parts}]
    event = event_of(request(span(1, "chat", MODEL | messages | {"gen_ai.output.messages": dumped(said)})))
    assert event.answer == ANSWER


@pytest.mark.parametrize(
    "shown",
    [
        f"StopEvent(result=AgentOutput(response='{ANSWER}'))",
        "<generator object stream at 0x7fc6c53d6110>",
        '"<anthropic.Stream object at 0x7fc6c53d6110>"',
        '{"generations": [[{"text": "", "message": {"lc": 1, "kwargs": {"content": ""}}}]]}',
        '{"output": null}',
    ],
)
def test_objects_and_empty_replies_are_no_answer(shown: str) -> None:
    """The repr of an object, or an empty reply, is no answer; the inner model's text is."""
    step = {
        "openinference.span.kind": "CHAIN",
        "input.value": '{"run_id": "r", "init_state": {}}',
        "output.value": shown,
    }
    heard = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": QUESTION}
    said = {"llm.output_messages.0.message.content": ANSWER}
    kind = {"openinference.span.kind": "LLM"}
    event = event_of(request(span(1, "run", step), span(2, "call", kind | heard | said, parent=1)))
    assert (event.question, event.answer, event.labels["question_from"]) == (QUESTION, ANSWER, "message")
    reading = read(request(span(1, "call", kind | heard | {"output.value": shown})))
    assert reading.why_none in {"no_answer", "no_content"}


def test_an_operation_outside_the_tables_is_no_model() -> None:
    """An agent's cycle (Strands) is no model call, so unit `span` reads the call within it."""
    said = ("gen_ai.choice", {"message": dumped([{"text": ANSWER}]), "finish_reason": "end_turn"})
    asked = ("gen_ai.user.message", {"content": dumped([{"text": QUESTION}])})
    cycle = {"gen_ai.operation.name": "execute_event_loop_cycle", "gen_ai.system": "strands-agents"}
    spans = (span(1, "cycle", cycle, events=[asked]), span(2, "chat", MODEL, parent=1, events=[asked, said]))
    assert [one.answer for one in read(request(*spans), unit="span").events] == [ANSWER]


def test_a_trace_without_a_model_is_an_event_where_its_root_was_asked() -> None:
    """A trace without a model call is an event if its root has a question (Traceloop on LlamaIndex).

    A step that splits documents has none.
    """
    kind = {"traceloop.span.kind": "workflow"}
    asked = {
        "traceloop.entity.input": dumped({"query": QUESTION}),
        "traceloop.entity.output": dumped({"answer": ANSWER}),
    }
    assert event_of(request(span(1, "query", kind | asked))).answer == ANSWER
    split = {"traceloop.entity.input": dumped({"nodes": [ONE]}), "traceloop.entity.output": dumped([ONE])}
    assert read(request(span(1, "split", kind | split))).why_none == "no_model"
    assert read(request(span(2, "query", kind | asked, parent=1))).why_none == "no_model"  # without its root


def test_the_first_step_with_an_input_asks_where_the_outermost_has_none() -> None:
    """The question is that of the first step with an input, if the outermost has none (CrewAI)."""
    event = event_of(request(
        span(1, "crewai.workflow", {"gen_ai.operation.name": "invoke_agent", "crewai.crew.result": ANSWER}),
        span(2, "task", {"traceloop.span.kind": "task", "crewai.task.description": QUESTION}, parent=1),
        scope="opentelemetry.instrumentation.crewai.instrumentation",
    ))  # fmt: skip
    assert (event.question, event.answer, event.labels["question_from"]) == (QUESTION, ANSWER, "input")
    assert event.messages is None


def test_the_body_of_a_log_record_may_be_a_message_as_json() -> None:
    """A log record's body may be a message as JSON (Semantic Kernel).

    A developer's message is the system instruction.
    """
    system = {"gen_ai.system": "openai"}
    event = event_of(
        log_request(
            log_record("gen_ai.developer.message", system, {"content": SYSTEM}),
            log_record("gen_ai.user.message", system, dumped({"role": "user", "content": QUESTION})),
            log_record(
                "gen_ai.choice",
                system,
                dumped({"message": {"role": "unknown", "content": ANSWER}, "index": 0}),
            ),
        )
    )
    assert [(one.role, one.content) for one in event.messages or ()] == [
        ("system", SYSTEM),
        ("user", QUESTION),
        ("assistant", ANSWER),
    ]


def test_a_picture_whose_type_was_cut_off_is_not_read_as_text() -> None:
    """A picture truncated by an attribute limit is not read as text."""
    text = dumped([{"role": "user", "parts": [{"content": QUESTION, "type": "text"}]}])[:-3]
    cut = f'{text}, {{"mime_type": "image/png", "modality": "image", "content": "iVBORw0KGgo'
    messages = {"gen_ai.input.messages": cut, "gen_ai.output.messages": dumped([TOLD])}
    event = event_of(request(span(1, "chat", MODEL | messages)))
    assert (event.question, event.labels["trace_parts"]) == (QUESTION, "cut")
    messages["gen_ai.input.messages"] = dumped([ASKED])
    assert "trace_parts" not in event_of(request(span(1, "chat", MODEL | messages))).labels


NOTES = "additional_kwargs={} response_metadata={}"
SHOWN = [
    f"content={QUESTION!r} {NOTES} id='1'",
    f"content='' {NOTES} tool_calls=[{{'name': 'search', 'args': {{}}, 'id': 'c-1'}}]",
    f"content={TWO!r} name='search' tool_call_id='c-1'",
    f"content={ANSWER!r} {NOTES} usage_metadata={{'input_tokens': 3}}",
]


def test_messages_and_documents_of_langchain_are_read_as_python_shows_them() -> None:
    """The Python repr of messages and documents is read, as OpenInference wrote them until 0.1.30."""
    graph = {
        "openinference.span.kind": "CHAIN",
        "input.value": dumped({"messages": SHOWN[:1]}),
        "output.value": dumped({"messages": SHOWN}),
    }
    step = {
        "openinference.span.kind": "CHAIN",
        "output.value": dumped({"documents": [f"page_content={ONE!r} metadata={{'page': 1}}"]}),
    }
    tool = {"openinference.span.kind": "TOOL", "tool.name": "count", "output.value": SHOWN[2]}
    kind = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": ANSWER}
    event = event_of(
        request(
            span(1, "LangGraph", graph),
            span(2, "retrieve", step, parent=1),
            span(3, "count", tool, parent=1),
            span(4, "call", kind, parent=1),
        )
    )
    assert (event.question, event.answer, event.context) == (QUESTION, ANSWER, {"Page-1": ONE})
    assert [one.result for one in event.tool_calls or ()] == [TWO]


def test_the_request_beside_the_messages_has_the_system_instruction() -> None:
    """OpenInference's request holds the system instruction of Anthropic that its messages lack.

    A tool result with the role `user` is read as the tool's.
    """
    call = {
        "openinference.span.kind": "LLM",
        "input.value": dumped({"model": "m", "system": SYSTEM, "messages": []}),
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": QUESTION,
        "llm.input_messages.1.message.role": "assistant",
        "llm.input_messages.1.message.tool_calls.0.tool_call.id": "c-1",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "count",
        "llm.input_messages.2.message.role": "user",
        "llm.input_messages.2.message.tool_call_id": "c-1",
        "llm.input_messages.2.message.content": dumped([{"type": "text", "text": TWO}]),
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    }
    event = event_of(request(span(1, "Messages", call)))
    assert event.question == QUESTION
    told = [(one.role, one.content) for one in event.messages or ()]
    assert told == [
        ("system", SYSTEM),
        ("user", QUESTION),
        ("assistant", ""),
        ("tool", TWO),
        ("assistant", ANSWER),
    ]


@pytest.mark.parametrize(
    "result", [[{"id": "Page-1", "text": ONE}, {"id": "Page-2", "text": TWO}], {"hours": 12}]
)
def test_a_structure_that_a_tool_gave_back_stays_one(result: Any) -> None:
    """A tool result stays JSON; its documents are pages, by their names."""
    call = {"id": "c-1", "function": {"name": "search", "arguments": "{}"}}
    records = [
        log_record("gen_ai.user.message", {}, {"content": QUESTION}),
        log_record("gen_ai.assistant.message", {}, {"tool_calls": [call]}),
        log_record("gen_ai.tool.message", {}, {"id": "c-1", "content": result}),
        log_record("gen_ai.choice", {}, {"message": {"content": ANSWER}, "index": 0}),
    ]
    event = event_of(log_request(*records))
    assert [json.loads(one.result) for one in event.tool_calls or ()] == [result]
    assert event.context == (PAGES if isinstance(result, list) else None)


@pytest.mark.parametrize(
    "requested", [{"llm.invocation_parameters": '{"n": 2}'}, {"gen_ai.request.choice.count": 2}]
)
def test_of_several_choices_the_first_is_the_answer(requested: dict[str, Any]) -> None:
    """OpenInference writes several choices as consecutive messages; the first is the answer."""
    said = {
        f"llm.output_messages.{at}.message.content": text for at, text in enumerate((ANSWER, "11 hours."))
    }
    event = event_of(request(span(1, "call", {"openinference.span.kind": "LLM"} | said | requested)))
    assert event.answer == ANSWER


@pytest.mark.parametrize(
    "replies",
    [
        [(0, ANSWER, "stop"), (1, "11 hours.", "stop")],  # choices
        [(0, ANSWER[:4], None), (1, ANSWER[4:8], None), (2, ANSWER[8:], "STOP")],  # a stream of Gemini
    ],
)
def test_events_of_replies_are_choices_or_the_chunks_of_a_stream(replies: list[tuple[int, str, str]]) -> None:
    """Chunks have no finish reason but for the last one, and are joined."""
    records = [log_record("gen_ai.user.message", {}, {"content": QUESTION})]
    for index, text, reason in replies:
        said = {"index": index, "content": {"parts": [{"text": text}], "role": "model"}}
        records.append(log_record("gen_ai.choice", {}, said | ({"finish_reason": reason} if reason else {})))
    event = event_of(log_request(*records))
    assert (event.question, event.answer) == (QUESTION, ANSWER)


def test_tool_calls_without_content_are_no_recorded_reply() -> None:
    """Botocore names the tools that were called where content is off; the answer has no content."""
    call = {"tool_calls": [{"type": "function", "id": "t0", "function": {"name": "search"}}]}
    chat = span(
        1,
        "chat",
        MODEL,
        events=[
            ("gen_ai.user.message", {}),
            ("gen_ai.assistant.message", call),
            ("gen_ai.tool.message", {"id": "t0"}),
            ("gen_ai.choice", {"index": 0, "finish_reason": "end_turn", "message": {"role": "assistant"}}),
        ],
    )
    assert read(request(chat)).why_none == "no_content"


def test_thoughts_are_no_messages_and_json_may_be_within_json() -> None:
    """Messages with the role `thinking` (Traceloop) are left out, and JSON within JSON is decoded."""
    call = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": QUESTION,
        "gen_ai.completion.0.role": "thinking",
    }
    said = {"gen_ai.completion.0.content": "Page 2.", "gen_ai.completion.1.content": ANSWER}
    event = event_of(request(span(1, "chat", MODEL | call | said)))
    assert [(one.role, one.content) for one in event.messages or ()] == [
        ("user", QUESTION),
        ("assistant", ANSWER),
    ]
    output = dumped(
        dumped({"message": {"role": "assistant", "blocks": [{"block_type": "text", "text": ANSWER}]}})
    )
    step = {"traceloop.span.kind": "workflow", "traceloop.entity.output": output}
    asked = {"traceloop.entity.input": dumped({"query": QUESTION})}
    assert event_of(request(span(1, "query", step | asked))).answer == ANSWER


def test_a_conversation_joined_to_a_text_may_hold_all_messages_as_python_shows_them() -> None:
    """A prompt joined to one text may hold the repr of all messages (OpenLIT).

    `text: ` marks a part of a message.
    """
    call = {"id": "c-1", "function": {"name": "search", "arguments": "{}"}, "type": "function"}
    whole = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c-1", "content": TWO},
    ]
    for prompt, roles in (
        (f"system: {SYSTEM}\nuser: text: {QUESTION}", ["system", "user", "assistant"]),
        (f"user: {QUESTION}\nuser: {whole}", ["system", "user", "assistant", "tool", "assistant"]),
    ):
        event = event_of(
            request(span(1, "chat", MODEL | {"gen_ai.prompt": prompt, "gen_ai.completion": ANSWER}))
        )
        assert (event.question, event.answer) == (QUESTION, ANSWER)
        assert [one.role for one in event.messages or ()] == roles


def test_an_output_that_is_the_whole_conversation_is_split_at_the_question() -> None:
    """An output may repeat the input's messages (Haystack); the answer is what follows the question."""
    heard = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    agent = {
        "haystack.agent.input": dumped({"messages": heard[1:]}),
        "haystack.agent.output": dumped({"messages": [*heard, {"role": "assistant", "content": ANSWER}]}),
    }
    event = event_of(request(span(1, "haystack.agent.run", agent)))
    assert [(one.role, one.content) for one in event.messages or ()] == [
        ("system", SYSTEM),
        ("user", QUESTION),
        ("assistant", ANSWER),
    ]


@pytest.mark.parametrize("path", [None, True, {}, {"a": 1}, [], 7])
def test_a_serialised_message_may_lack_the_path_of_its_class(path: Any) -> None:
    """Its role is then that of the attribute."""
    said = dumped({"lc": 1, "id": path, "kwargs": {"content": ANSWER}})
    call = {"openinference.span.kind": "LLM", "input.value": QUESTION, "output.value": said}
    assert event_of(request(span(1, "call", call))).answer == ANSWER


def test_the_messages_are_those_of_the_call_that_gave_the_answer() -> None:
    """A later call within the same step writes the title of the chat."""

    def call(number: int, asked: str, said: str) -> dict[str, Any]:
        heard = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": asked}
        kind = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": said}
        return span(number, "call", kind | heard, parent=1)

    step = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
    event = event_of(
        request(
            span(1, "ask", step),
            call(2, f"{MARKED}\n\n{QUESTION}", ANSWER),
            call(3, "Write a title.", "Lamp"),
        )
    )
    assert event.context == PAGES
    assert [one.content for one in event.messages or ()] == [f"{MARKED}\n\n{QUESTION}", ANSWER]
