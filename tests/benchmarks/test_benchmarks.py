from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import agreement
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.agreement import area_under_curve, word_recall
from benchmarks.tokens import PAGES, document, measured
from tests.places import ROOT

NUMBERS = st.lists(st.integers(0, 5).map(float), max_size=8)


@given(NUMBERS, NUMBERS)
def test_the_rank_statistic_counts_pairs(positive: list[float], negative: list[float]) -> None:
    pairs = [(one, other) for one in positive for other in negative]
    counted = sum((one > other) + (one == other) / 2 for one, other in pairs)
    assert area_under_curve(positive, negative) == (pytest.approx(counted / len(pairs)) if pairs else None)


def test_word_recall() -> None:
    """Recall counts different words without case: 2 of 3."""
    assert word_recall("Zinc, zinc is blue", "Blue ZINC") == pytest.approx(2 / 3)
    assert word_recall("...", "Blue") == 0.0


def write(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")


def test_small_files_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Improper questions and other labels are excluded; every line has the common form."""
    monkeypatch.setenv("JUDGESTREAM_DATA", str(tmp_path))
    events, labelled = [], []
    for key, answer, correct, improper in (
        ("a", "Zinc", True, False),
        ("b", "Iron", False, False),
        ("c", "Iron", True, True),
        ("d", "Iron", None, False),
    ):
        events.append({"event_id": key, "question": "q", "answer": answer, "reference": "Gold/Zinc"})
        labelled.append({"event_id": key, "human_correct": correct, "improper_question": improper})
    write(tmp_path / "nq_events.jsonl", events)
    write(tmp_path / "nq_labels.jsonl", labelled)
    answer = "Zinc is blue. [Page 1]\nIron is green. [Page 1]\nGold is partly red. [Page 1]"
    pages = {"Page-1": "Zinc is blue. Gold is red."}
    of_pages = {"event_id": "x", "question": "metals", "answer": answer, "context": pages}
    write(tmp_path / "expertqa_events.jsonl", [of_pages])
    labels = {
        "Zinc is blue.": "Complete",
        "Iron is green.": "Incomplete",
        "Gold is partly red.": "Partial",
        "Tin is old.": "Missing",
    }
    claims = [{"claim": claim, "pages": [1], "support": support} for claim, support in labels.items()]
    write(tmp_path / "expertqa_labels.jsonl", [{"event_id": "x", "claims": claims}])
    lines = list(agreement.run())
    # One positive above one negative each: 1.0. The claim on tin is not in the answer, that on gold partial.
    assert [line["value"] for line in lines] == [1.0] * 6
    assert [line["baseline"] for line in lines] == [1.0] * 6
    assert "1 correct of 2" in str(lines[0]["note"])
    assert "1 complete of 2; 1 labels without" in str(lines[2]["note"])
    form = ["benchmark", "value", "unit", "baseline", "ratio", "aim", "met"]
    assert all(list(line)[:7] == form for line in lines)


def test_data_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUDGESTREAM_DATA", str(tmp_path))
    assert main(["agreement", "tokens"]) == 0
    captured = capsys.readouterr()
    assert [json.loads(line)["value"] for line in captured.out.splitlines()] == [None, None, None]
    for name in ("nq_events.jsonl", "expertqa_labels.jsonl", "expertqa_events.jsonl"):
        assert name in captured.err


def test_an_unknown_benchmark_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["speed-of-light"]) == 2
    assert ", ".join(BENCHMARKS) in capsys.readouterr().err


def event(number: int, pages: int) -> dict[str, Any]:
    passages = {page: f"Passage {page} of text {number} says so." for page in range(1, pages + 1)}
    context = {f"Page-{page}": text for page, text in passages.items()}
    answer = "\n".join(f"{text} Evidence: [Page {page}]" for page, text in passages.items())
    return {"event_id": f"e-{number}", "question": "What is said?", "answer": answer, "context": context}


def test_a_document_has_the_events_pages_and_others() -> None:
    """A document has 20 pages: the event's own, unchanged or as the start of longer pages, and others."""
    own = event(1, 3)["context"]
    others = [f"other {number}" for number in range(5)]
    plain = document(own, others, start=7, words_a_page=0)
    assert len(plain) == PAGES
    assert {name: plain[name] for name in own} == own
    # Start 7 modulo 5 is 2: other 2 comes first.
    assert [plain[f"Page-{number}"] for number in (4, 5, 6, 7)] == [f"other {one}" for one in (2, 3, 4, 0)]
    long = document(own, others, start=0, words_a_page=30)
    assert all(len(text.split()) >= 30 for text in long.values())
    assert all(long[name].startswith(text) for name, text in own.items())


def test_events_that_cite_three_pages_are_measured() -> None:
    found = measured([event(1, 3), event(2, 5), event(3, 3), event(4, 0)], words_a_page=0)
    assert len(found) == 2
    for one in found:
        assert one.texts < one.all_texts < one.all_pages
        assert one.instructions + one.texts < one.sent < one.all_pages
        assert one.same_verdict


# Background processes of a script ignore SIGINT; restore the handler of a terminal.
_AT_A_TERMINAL = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
_WITH_A_SERVER = """
from benchmarks.broker import running
server = "import socket, time; server = socket.create_server(('127.0.0.1', 0));"
server += "print(*server.getsockname(), sep=':', flush=True); time.sleep(600)"
with running([sys.executable, "-c", server]) as address:
    print(address.strip(), flush=True)
    time.sleep(600)
"""
_WITH_A_BROKER = """
from benchmarks.broker import running_broker
with running_broker() as broker:
    assert broker.name == "Apache Kafka"  # which runs in its own session
    print(broker.bootstrap_servers, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "program", [_WITH_A_SERVER, pytest.param(_WITH_A_BROKER, marks=pytest.mark.kafka)], ids=["any", "Kafka"]
)
def test_a_signal_ends_the_servers(program: str, number: signal.Signals) -> None:
    command = [sys.executable, "-c", _AT_A_TERMINAL + program]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().strip().partition(":")
            socket.create_connection((host, int(port)), 5).close()
            process.send_signal(number)
            assert process.wait(30) != 0
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, int(port)), 5)
        finally:
            process.kill()
