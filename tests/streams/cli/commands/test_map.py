"""`judgestream map`: records of a file before and after mapping and sampling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.streams.cli.conftest import Command
from tests.streams.intake.reading.otlp.building import request, span
from tests.streams.intake.reading.otlp.golden_files import GOLDEN, SAMPLES


@pytest.mark.parametrize("ending", [".pb", ".json"])
def test_a_file_of_traces_gives_its_events_one_a_line(ending: str, command: Command) -> None:
    name = "langfuse-sdk-5.0.4-openai"
    for more in (["--format", "otlp"], []):
        ended = command("map", SAMPLES / f"{name}{ending}", "--json", *more)
        assert json.loads(ended.out) == json.loads((GOLDEN / f"{name}.jsonl").read_text())


def test_traces_without_content_come_with_the_remedy(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "traces.json"
    file.write_bytes(request(span(1, "chat", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})))
    shown = command("map", file, "--json")
    assert (shown.code, shown.out) == (0, "")
    assert "1 without an event: no_content" in shown.err
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in shown.err


def test_json_is_shown_before_and_after(tmp_path: Path, command: Command) -> None:
    config = tmp_path / "settings.yaml"
    mapping = "{event_id: id, question: q, answer: a, reference: gold}"
    config.write_text(f"ingest: {{mapping: {mapping}}}\nsampling: {{default_rate: 0.25}}\n")
    file = tmp_path / "events.json"
    file.write_text(json.dumps([{"id": f"e-{n}", "q": "?", "a": "!", "gold": "!"} for n in range(12)]))
    lines = list(map(json.loads, command("map", file, "--config", config, "--json").out.splitlines()))
    assert len(lines) == 10
    assert lines[3]["record"] == {"id": "e-3", "q": "?", "a": "!", "gold": "!"}
    assert lines[3]["event"]["question"] == "?"
    assert (lines[3]["probability"], lines[3]["metrics"]) == (0.25, ["coverage"])
    assert {line["kept"] for line in lines} == {True, False}


def test_a_record_that_cannot_be_read_says_why(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"event_id": "e"}\n{"event_id": "e", "question": "?", "answer": "!"}\n')
    assert "no event         question: is required" in command("map", file).out
    file.write_text("nonsense\n")
    command("map", file).fails("none of 1 records could be read", code=1)
