from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from streams.store.views import report as report_module
from streams.store.views.incidents import known_incidents
from streams.store.views.report import IncidentReport, escaped, headline, markdown, report_on, values_of
from streams.store.writer import StoreWriter
from tests.streams.results import scored
from tests.streams.store.records import TOPICS, Record, StoreFile, batch_of, result_record
from tests.streams.store.views.serving import alert, explorer

_EVIL = "[x](javascript:alert(1)) <script> `"


def fill(path: Path, *, worse_from: int = 100, until: int = 200) -> None:
    """Store answers whose prompt_version v8 scores 1 instead of 5, and the two alerts about them."""
    writer = StoreWriter(path)
    missed = {
        "facts": [{"item": "The bin holds 420 ml.", "matched": False}, {"item": _EVIL, "matched": False}]
    }
    for number in range(until):
        bad = number >= worse_from
        result = scored(
            number, 1 if bad else 5, labels={"app": "xyz"[number % 3],
                "prompt_version": "v8" if bad else "v7"},
            justification=_EVIL,
        )  # fmt: skip
        corrections = [{"kind": "score_lowered", "detail": ""}] if bad else []
        writer.write(
            batch_of(result_record(result, number, evidence=missed if bad else None, corrections=corrections))
        )
    alerts = [
        alert("a", until, started=worse_from),
        alert("b", until + 5, started=worse_from, labels={"app": "x"}),
    ]
    records = [
        Record(TOPICS.alerts, 0, number, one.model_dump_json().encode()) for number, one in enumerate(alerts)
    ]
    writer.write(batch_of(*records))
    writer.close()


@pytest.fixture(name="report")
def _report(tmp_path: Path) -> IncidentReport:
    fill(tmp_path / "s")
    with StoreFile(tmp_path / "s").snapshot() as snapshot:
        [incident] = known_incidents(snapshot)
        return report_on(snapshot, incident, ranges={"relevance": (1, 5)}, product_labels=("prompt_version",))


def test_an_incident_names_its_cause_and_shows_answers(report: IncidentReport) -> None:
    assert (
        headline(report)
        == "relevance fell, 2 parts affected: at the same time as prompt_version=v8 replaced all others"
    )
    [one] = report.metrics
    assert one.judged == (100, 100)
    assert (one.finding.before, one.finding.after) == (5, 1)
    assert one.corrections == {"score_lowered": (0.0, 1.0)}
    assert ("fact", "The bin holds 420 ml.", 100, 0) in one.unsupported
    assert [row["score"] for row in one.worst] == [1] * 10
    assert [row["event_id"] for row in one.before] == [f"e{number}" for number in range(99, 89, -1)]
    orjson.dumps(values_of(report))


async def test_the_list_leads_with_the_card_of_each_incident(tmp_path: Path) -> None:
    """List and page say what fell, why, what else, and which commands come next."""
    fill(tmp_path / "s")
    async with explorer(tmp_path / "s", product_labels=("prompt_version",)) as (session, url):
        async with session.get(f"{url}/explore/api/incidents") as answer:
            [one] = (await answer.json())["incidents"]
        # Another worker took the second alert for the first one.
        async with session.get(f"{url}/explore/api/incident/b00000000000") as answer:
            found = await answer.json()
    assert one["card"] == [
        "summary of " + f"{'a':0<32}",
        "cause: at the same time as prompt_version=v8 replaced all others (100% of the fall of 4.00)",
        "also: relevance of app=x",
    ]
    assert found["card"] == one["card"]
    assert found["commands"]["review ten of these"].endswith(f"--incident {one['incident_id']} --size 10")
    assert found["commands"]["replay these"].endswith(f"--incident {one['incident_id']}")


def test_answers_of_other_evaluators_do_not_shorten_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit on compared answers counts those of the incident's evaluator alone."""
    monkeypatch.setattr(report_module, "COMPARED", 150)
    fill(tmp_path / "s")
    other = [scored(1_000 + number, 5, seconds=99.5, fingerprint="other") for number in range(300)]
    StoreFile(tmp_path / "s").write(*(result_record(one, 1_000 + number) for number, one in enumerate(other)))
    with StoreFile(tmp_path / "s").snapshot() as snapshot:
        report = report_on(snapshot, known_incidents(snapshot)[0], ranges={}, product_labels=())
    assert report.metrics[0].judged == (100, 100)


def test_markdown_is_text_whatever_answers_say(report: IncidentReport) -> None:
    told = markdown(report, link="https://port.example/")
    assert "# relevance fell, 2 parts affected: at the same time as prompt_version=v8 replaced" in told
    assert "](https://port.example/explore/verdict/" in told
    assert "\\](javascript" in told
    assert "\\<script>" in told
    rendered = MarkdownIt("commonmark").render(told)
    assert "<script" not in rendered
    assert {link.partition("/explore/")[0] for link in re.findall(r'href="([^"]*)', rendered)} == {
        "https://port.example"
    }
    assert "relevance of app=x" in told
    assert "text not kept" in told
    assert "`judgestream replay --config judgestream.yaml --incident" in told


@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), max_size=60))
def test_markdown_shows_escaped_text_as_it_is(said: str) -> None:
    (line,) = MarkdownIt("commonmark").enable("strikethrough").parseInline(f"- {escaped(said)}")
    assert "".join(part.content for part in line.children or ()) == f"- {said}"
    assert all(part.type in {"text", "text_special"} for part in line.children or ())
