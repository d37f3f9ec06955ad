"""Incidents: their causes, their report as text, and one card instead of many alerts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from structlog.testing import capture_logs

from benchmarks.causes import DROPS, draw, find, found_in, judged, mix_alone
from schemas import Alert
from streams.cli.records import RecordLines
from streams.settings.broker import TopicSettings
from streams.store.views import report as report_module
from streams.store.views.causes import Cause, Fall, JudgedAnswer
from streams.store.views.incidents import Folding, Incident, group, known_incidents
from streams.store.views.report import MetricReport, Report, card, escaped, markdown, report_on, sentence
from streams.worker.agents import tell_incident
from tests.streams.records import make_record
from tests.streams.results import alert, scored
from tests.streams.store.records import StoreFile
from tests.streams.store.views.serving import fill_whole

_RUNS = 40


@pytest.mark.slow
@pytest.mark.parametrize("drop", DROPS)
def test_simulated_drops_have_the_right_cause(
    drop: Callable[[Random], tuple[list[JudgedAnswer], list[JudgedAnswer], set[object]]],
) -> None:
    """`python -m benchmarks.causes` runs 200 of each kind."""
    right = wrongly_within = 0
    for seed in range(_RUNS):
        before, after, expected = drop(Random(seed))
        found = found_in(find(before, after))
        right += found <= expected
        wrongly_within += drop is mix_alone and any(kind != "mix" for kind, _, _ in found)
    assert right >= 0.95 * _RUNS
    assert wrongly_within == 0


def test_traffic_that_is_replaced_is_a_change_of_the_mix() -> None:
    noise = Random(1)
    before, after = draw(noise, apps={"expertqa": (4.4, 1.0)}), draw(noise, apps={"nq": (2.4, 1.0)})
    assert found_in(find(before, after)) == {("mix", "app", "nq")}


def _app(name: str, score: int) -> list[JudgedAnswer]:
    return [JudgedAnswer({"app": name}, score, 1.0)] * 10


def test_contributions_by_hand() -> None:
    """Half of the answers fall from 5 to 3: contribution 0.5 * 2 = 1 point of a fall from 5 to 4."""
    finding = find((_app("x", 5) + _app("y", 5)) * 5, (_app("x", 5) + _app("y", 3)) * 5)
    assert (finding.before, finding.after, finding.fall) == (5, 4, 1)
    [cause] = finding.causes
    assert (cause.kind, cause.value, cause.contribution) == ("within", "y", 1.0)
    assert cause.low < 1 < cause.high
    assert finding.mix["app"] == pytest.approx(0)


def test_the_mix_by_hand() -> None:
    """4 of 5 answers score 5 and one 1, then the reverse: mean 4.2 to 1.8, all 2.4 points from shares."""
    easy, hard = _app("easy", 5), _app("hard", 1)
    finding = find(easy * 8 + hard * 2, easy * 2 + hard * 8)
    assert finding.fall == finding.mix["app"] == pytest.approx(2.4)
    assert found_in(finding) == {("mix", "app", "hard")}


_LABELS = st.dictionaries(st.sampled_from(["app", "model"]), st.sampled_from(["x", "y"]))
_ANSWER = st.builds(JudgedAnswer, _LABELS, st.integers(1, 5), st.sampled_from([0.1, 0.5, 1.0]))
_ANSWERS = st.lists(_ANSWER, max_size=25)


@settings(max_examples=60)
@given(_ANSWERS, _ANSWERS)
def test_any_answers_have_a_finding(before: list[JudgedAnswer], after: list[JudgedAnswer]) -> None:
    finding = find(before, after)
    assert len(finding.causes) <= 4
    assert finding.low <= finding.fall <= finding.high


def test_a_label_with_a_value_for_each_answer_takes_linear_time() -> None:
    """Such as an id: each of 6,000 values compared with all others takes minutes, in the worker's loop."""
    before = [JudgedAnswer({"id": f"a{number}"}, 4 + number % 2, 1.0) for number in range(3_000)]
    after = [JudgedAnswer({"id": f"b{number}"}, 1 + number % 2, 1.0) for number in range(3_000)]
    started = time.process_time()
    assert find(before, after).fall == 3
    assert time.process_time() - started < 5


def test_a_complete_roll_out_is_not_blamed_but_named() -> None:
    """What replaced all others fell "at the same time"; beside others it "is new"."""
    for versions, said in ((("v2",), "at the same time as prompt_version=v2"), (("v1", "v2"), "=v2 is new")):
        noise = Random(7)
        after = judged(noise, versions, lambda labels: 1.3 * (labels["prompt_version"] == "v2"))
        [cause] = find(judged(noise, ("v1",)), after).causes
        assert said in sentence(cause)


def test_a_label_value_may_look_like_a_crossing() -> None:
    finding = find((_app("b x c", 5) + _app("a", 5)) * 6, (_app("b x c", 1) + _app("a", 5)) * 6)
    assert found_in(finding) == {("within", "app", "b x c")}


def _report(store: StoreFile) -> tuple[Incident, Report]:
    with store.snapshot() as snapshot:
        [incident] = known_incidents(snapshot)
        return incident, report_on(snapshot, incident, ranges={}, product_labels=("prompt_version",))


def test_answers_of_other_evaluators_do_not_shorten_the_comparison(
    store: StoreFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_whole(store)
    monkeypatch.setattr(report_module, "COMPARED", 30)
    other = [scored(1_000 + number, 5, seconds=5_990.0, fingerprint="other") for number in range(60)]
    store.write(*other)
    assert _report(store)[1][0].judged == (19, 20)  # of event 3 another evaluator gave the score


def test_markdown_is_text_whatever_answers_say(store: StoreFile) -> None:
    fill_whole(store)
    told = markdown(*_report(store), link="https://port.example/")
    assert "# relevance fell, 2 parts affected: at the same time as prompt_version=v8 replaced" in told
    assert "](https://port.example/explore/verdict/" in told
    assert "\\](javascript" in told
    assert "\\<script>" in told
    rendered = MarkdownIt("commonmark").render(told)
    assert "<script" not in rendered
    links = re.findall(r'href="([^"]*)', rendered)
    assert {link.partition("/explore/")[0] for link in links} == {"https://port.example"}
    assert "relevance of app=docs" in told
    assert "text not kept" in told
    assert "`judgestream replay --config judgestream.yaml --incident" in told


@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), max_size=60))
def test_markdown_shows_escaped_text_as_it_is(said: str) -> None:
    (line,) = MarkdownIt("commonmark").enable("strikethrough").parseInline(f"- {escaped(said)}")
    assert "".join(part.content for part in line.children or ()) == f"- {said}"
    assert all(part.type in {"text", "text_special"} for part in line.children or ())


WORDS = "relevance of all answers fell from 4.47 to 1.30 (95% interval 1.03-2.85) since about 14:00 UTC"
ALERTS = [
    alert("part-first", labels={"app": "docs"}, seconds=1),
    alert("whole", summary=WORDS, seconds=2, link="http://explorer/explore/incident/whole"),
    *(alert(f"p{number}", labels={"app": f"app-{number}"}, seconds=3 + number) for number in range(36)),
]
RECOVERED = [
    alert(f"up-{one.alert_id}", "recovered", labels=dict(one.labels), seconds=100 + number)
    for number, one in enumerate(ALERTS)
]


def report() -> Report:
    """A report of a fall by 3.00, 2.40 of it by a new prompt."""
    cause = Cause(
        kind="new", where=(("prompt_version", "v8"),), contribution=2.4, error=0.2,
        before=None, after=1, share_before=0, share_after=0.8,
    )  # fmt: skip
    finding = Fall(before=4.47, after=1.47, fall=3, low=2, high=4, causes=(cause,), mix={})
    return [MetricReport(metric="relevance", finding=finding, judged=(9, 9))]


def test_the_card_leads_with_the_whole_traffic_the_cause_and_the_folded_parts() -> None:
    """38 alerts are four lines; 2.40 of 3.00 points are 80%, and 37 parts are folded after three."""
    assert card(group(ALERTS)[0], report(), "http://explorer") == [
        WORDS,
        "cause: prompt_version=v8 is new (80% of the fall of 3.00)",
        "also: relevance of app=docs, relevance of app=app-0, relevance of app=app-1 and 34 more",
        "http://explorer",
    ]


def test_the_log_has_one_warning_for_the_start_and_one_for_the_end() -> None:
    folding = Folding()
    with capture_logs() as lines:
        known = {tell_incident(folding, one) for one in (*ALERTS, *RECOVERED)}
    assert known == {group(ALERTS)[0].incident_id}
    warned = [line for line in lines if line["log_level"] == "warning"]
    assert [line["event"] for line in warned] == ["incident", "incident is over"]
    assert len({line["incident"] for line in lines}) == 1
    assert warned[1]["summary"] == "relevance fell, 38 parts affected"


def test_tail_leads_with_the_incident() -> None:
    write, midnight = RecordLines(TopicSettings()).line, datetime(2026, 1, 1, tzinfo=UTC).timestamp()

    def line(one: Alert) -> str:
        value = one.model_dump_json().encode()
        record = make_record(value, topic="qa.alerts", offset=1, timestamp=midnight)
        return write(record).removeprefix("00:00:00 0@1 ")

    lines = [line(one) for one in (*ALERTS[1:], *RECOVERED[1:])]
    assert lines[0] == f"INCIDENT whole: {WORDS}; http://explorer/explore/incident/whole"
    assert lines[1] == "part whole: relevance of app=app-0: 4.00 to 4.00"
    assert lines[-1] == "INCIDENT whole is over: relevance fell, 37 parts affected"
    assert sum(text.startswith("INCIDENT") for text in lines) == 2
    late = line(alert("late", "recovered", labels={"app": "x"}))
    assert late.startswith("recovered of an earlier incident")
