"""What becomes of a text, of a reply or of its headers, and of an event judged by a metric.

Each line of `cases.jsonl` is a case of one function. One of `metrics/cases` has the metric, the texts of the
event where they differ from those of `make_task`, the reply, and what it gives: an outcome, a request (if
there is no reply), or the text by which it is refused. `python -m tests.judge.test_cases` writes what the
cases give today; read the difference before you commit it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, fields
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from pydantic import BaseModel

from judge.chat import ChatMessage, ChatRequest
from judge.endpoints.payloads import NoCompletionError, read_completion
from judge.endpoints.refusals import duration_seconds, error_for_status, rate_limits, retry_after_seconds
from judge.errors import EventError, InvalidVerdictError, JudgeConfigurationError
from judge.evaluate.evaluator import Evaluator
from judge.metric import Inputs, Metric, Outcome, ScoredOutcome, size_of
from judge.metrics.base import Scale, outcome_on, read_scale
from judge.metrics.code import CodeMetric
from judge.metrics.coverage import COVERAGE_SCHEMA
from judge.metrics.doubts import cannot_be_compared, claims_nothing
from judge.metrics.packs.metric import example_warnings
from judge.metrics.packs.pack import parse_pack
from judge.metrics.prompting import fence, parse_fenced
from judge.metrics.registry import build_metric
from judge.metrics.relevance import RELEVANCE_SCHEMA
from judge.metrics.replies import extract_verdict
from judge.metrics.scoring import exact_text, half_up, relevance_cap
from judge.offline.rules import coverage_evidence, judge_messages, relevance_evidence
from judge.text.citations import page_number, read_citations, read_sources
from judge.text.normal import TextIndex, is_blank, neutralize, quoted
from judge.text.passages import contradiction_between, passage, stem
from judge.text.printable import printable, reason_of
from judge.text.quotations import Quotable
from judge.text.redaction import Redactor
from judge.text.tags import USUAL, Citing, normal_name
from judge.text.words import content_words, sentences, words
from schemas import CoverageVerdict, JudgeTask, QAEvent, RelevanceVerdict, Scored
from tests.judge.scripted import ScriptedChat
from tests.judge.tasks import make_task, task_for
from tests.streams.results import scored

FOLDER: Final = Path(__file__).parent
FILES: Final = (FOLDER / "cases.jsonl", *sorted((FOLDER / "metrics" / "cases").glob("*.jsonl")))
VERDICTS: Final[dict[str, type[BaseModel]]] = {"coverage": CoverageVerdict, "relevance": RelevanceVerdict}
PAGE: Final = (FOLDER / "page.txt").read_text("utf-8")
Json = dict[str, Any]
NAMED: Final = Citing(names=(("doc-3", 3), ("handbook.pdf", 4), ("faq-returns", 5)))


def cited(answer: str, citing: Citing = USUAL) -> list[Any]:
    read = read_citations(answer, citing)
    claims = [[claim.text, list(claim.pages)] for claim in read.claims]
    return [claims, [one.text for one in read.untagged], [*read.unread], read.text.split()]


def quoted_from(text: str, quotation: str) -> list[str] | None:
    text = PAGE if text == "page.txt" else text
    found = Quotable(text).find(quotation)
    if found is None:
        return None
    assert found.kind == "joined" or text[found.start : found.end] == found.words
    return [found.kind, found.words]


def found_without_tags(text: str, quotation: str) -> str | None:
    found = Quotable(text, read=read_citations(text).text).find(quotation)
    return None if found is None else found.words


def differs(words: str, its_sentences: str, stated: str, stated_sentences: str) -> str | None:
    """Return how a source contradicts what is stated, each with the sentences around it."""
    source, claim = map(passage, (words, its_sentences)), map(passage, (stated, stated_sentences))
    found = contradiction_between((*source,), (*claim,))  # type: ignore[arg-type]  # pairs
    return None if found is None else found.kind


def pack_file(raw: str, dialect: Any = "markdown") -> list[Any]:
    """Return the last message of a pack, whose bytes are the characters of `raw`, and its warnings."""
    pack = parse_pack(raw.encode("latin-1"), dialect=dialect, origin="p")
    return [pack.render(Inputs("", ""))[-1].content, [*pack.warnings]]


def selected(name: str, texts: Json) -> Json:
    event = QAEvent.model_validate({"event_id": "e", "question": "q", "reference": "r", **texts})
    inputs = asdict(build_metric(name).select(event))
    return {field: text for field, text in inputs.items() if text is not None}


def found_in(text: str, span: str) -> str | None:
    place = next(TextIndex(text).find_all(span), None)
    return None if place is None else text[slice(*place)]


def reason(evidence: Any, verdict: dict[str, Any], limit: int | None = None) -> str:
    values = scored(1, 3).model_dump() | {"verdict": {"score": 3, **verdict}, "evidence": evidence}
    return reason_of(Scored.model_validate(values), *([] if limit is None else [limit]))


def numbered_pages(context: dict[str, str]) -> dict[str, str]:
    """Return texts by page number; a page keeps its number when it is selected alone."""
    sources = read_sources(context)
    for page, text in sources.texts.items():
        assert read_sources({sources.key(page): text}).texts == {page: text}
    return {str(page): text for page, text in sources.texts.items()}


def verdict_of(reply: str) -> Any:
    try:
        return extract_verdict(reply)
    except InvalidVerdictError as error:
        # What Python's decoder adds differs between its versions.
        return "refused: " + re.sub("(cannot be read): .*(; .*)", r"\1\2", error.detail)


def seconds_until(headers: dict[str, str]) -> float | None:
    return retry_after_seconds(headers, now=datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC))


def limits_of(headers: dict[str, str]) -> list[float | None] | None:
    found = rate_limits(headers)
    return None if found is None else [*astuple(found)]


def refusal(status: int, body: object, *, schema_sent: bool) -> str:
    error = error_for_status(endpoint="e", status=status, body=body, schema_sent=schema_sent, secret="")
    kind = error.error_type if isinstance(error, EventError) else type(error).__name__
    return f"{kind}: {error}"


def example_findings(name: str, pack: dict[str, Any]) -> list[str]:
    given = parse_pack(json.dumps(pack).encode(), dialect="yaml", origin="p.json")  # JSON is YAML
    return [*example_warnings(build_metric(name, pack=given), given)]


def offline_claims(question: str, answer: str, pages: dict[str, str], *, missing: bool = False) -> Any:
    numbered = {int(page): text for page, text in pages.items()}
    return relevance_evidence(question=question, answer=answer, pages=numbered, missing=missing)


def offline_reply(sections: dict[str, str], schema: str | None = None) -> str | None:
    turns = [ChatMessage("system", "Judge."), ChatMessage("user", fence(sections))]
    schemas = {None: None, "coverage": COVERAGE_SCHEMA, "relevance": RELEVANCE_SCHEMA}
    return judge_messages(turns, schema=schemas[schema])


def completed(body: str) -> Any:
    """Return what a reply's body says and its usage, without what is empty; None: it is no completion."""
    try:
        found = asdict(read_completion(body.encode("utf-8", "surrogatepass")))
    except NoCompletionError:
        return None
    said = {name: value for name, value in found.items() if value}
    return said | {"usage": [*found["usage"].model_dump().values()]}


def offline_verdict(text: str, score_range: tuple[int, int] | None = None) -> list[Any]:
    pack = parse_pack(text.encode(), dialect="markdown", origin="p")
    metric = build_metric("tone", pack=pack, score_range=score_range or pack.score_range)
    chat = ScriptedChat(lambda one: judge_messages(one.messages, schema=one.response_schema) or "")
    result = asyncio.run(Evaluator(metric, chat).judge(task_for(metric)))
    assert isinstance(result, Scored), result
    return [len(chat.requests), result.verdict]


def on_scale(result: Any, ends: list[float], value: Any) -> Any:
    scale = (
        Scale((int(ends[0]), int(ends[1]))) if result == "integer" else read_scale(result, (ends[0], ends[1]))
    )
    try:
        found = outcome_on(scale, value, "so", None)
    except EventError as error:
        return f"{error.error_type}: {error.detail}"
    assert isinstance(found, ScoredOutcome)
    return [found.kind, found.score, found.value, found.verdict["justification"]]


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "blank": is_blank,
    "claims nothing": claims_nothing,
    "cited": cited,
    "cited, with named documents": lambda answer: cited(answer, NAMED),
    "completion": completed,
    "contradiction": differs,
    "content words": lambda text: [text[word.start : word.end] for word in content_words(text)],
    "examples of a pack": example_findings,
    "exact": lambda number: exact_text(Fraction(number)),
    "find": found_in,
    "forms of a word": lambda one, other: stem(one) == stem(other),
    "halves": lambda number: half_up(Fraction(number)),
    "languages that cannot be compared": lambda text, answer, question: cannot_be_compared(
        text, answer, question=question
    ),
    "length of time": duration_seconds,
    "neutralize": neutralize,
    "normal name": normal_name,
    "offline coverage": lambda reference, answer: coverage_evidence(reference=reference, answer=answer),
    "offline relevance": offline_claims,
    "offline relevance, a page missing": partial(offline_claims, missing=True),
    "offline reply": offline_reply,
    "offline verdict of a pack": offline_verdict,
    "pack": pack_file,
    "page number": page_number,
    "printable": printable,
    "places": lambda text, span: [[*place] for place in TextIndex(text).find_all(span)],
    "quotation": quoted_from,
    "quotation beside tags": found_without_tags,
    "quotation, its places": lambda text, span: [[*one.place] for one in Quotable(text).find_all(span)],
    "quoted": quoted,
    "rate limits": limits_of,
    "reason": reason,
    "redact": lambda kind, text: Redactor([kind]).redact(text),
    "relevance cap": lambda upheld, total: relevance_cap(upheld=upheld, total=total),
    "refusal": lambda status, body: refusal(status, body, schema_sent=False),
    "refusal of a schema": lambda status, body: refusal(status, body, schema_sent=True),
    "retry after": seconds_until,
    "selected": selected,
    "sentences": lambda text: [text[start:end] for start, end in sentences(text)],
    "size to read": lambda text, times=1: size_of(text * times),
    "stem": stem,
    "sources": numbered_pages,
    "value on a scale": on_scale,
    "verdict": verdict_of,
    "words": lambda text: [word.text for word in words(text)],
}


def built(metric: Json) -> Metric:
    if "check" in metric:
        return CodeMetric("x", **metric)
    pack = metric.get("pack")
    if pack is not None:
        metric = metric | {"pack": _pack(**pack)}
    return build_metric(**metric)


@cache
def _pack(text: str, dialect: Any) -> Any:
    return parse_pack(text.encode(), dialect=dialect, origin="pack")


def task_of(metric: Metric, texts: Json) -> JudgeTask:
    return JudgeTask.model_validate(make_task(metric.name).model_dump(exclude_none=True) | texts)


def given_by(case: Json) -> Json:
    try:
        metric = built(case["metric"])
        task = task_of(metric, case.get("event", {}))
        found = metric.interpret(task, case["reply"]) if "reply" in case else metric.prepare(task)
    except (EventError, JudgeConfigurationError) as error:
        return {"refused": str(error)}
    written: Json = orjson.loads(
        orjson.dumps(_request(found) if isinstance(found, ChatRequest) else _outcome(found))
    )
    if written.get("verdict") and metric.name in VERDICTS and "value" not in written:
        VERDICTS[metric.name].model_validate(written["verdict"])
    return written


def _request(request: ChatRequest) -> Json:
    sections = parse_fenced(request.messages[-1].content)
    messages = [f"{turn.role}: {turn.content}" for turn in request.messages]
    schema = request.response_schema
    return {
        "request": sections or messages,
        "schema": None if schema is None else schema.name,
        "max_output_tokens": request.max_output_tokens,
    }


def _outcome(outcome: Outcome) -> Json:
    written = {one.name: getattr(outcome, one.name) for one in fields(outcome)}
    for name in ("corrections", "suspicions"):
        written[name] = [[one.kind, one.detail] for one in written[name]]
    written["verdict"] = None if written["verdict"] is None else dict(written["verdict"])
    return {name: value for name, value in written.items() if value not in (None, []) and value != "integer"}


def result_of(case: Json) -> Any:
    return FUNCTIONS[case["of"]](*case["given"]) if "of" in case else given_by(case)


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text("utf-8").rstrip("\n").split("\n")]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{path.stem}-{number}: {case.get('of') or case['case']}")
        for path in FILES
        for number, case in enumerate(lines(path), 1)
    ],
)
def test_a_case_gives_what_its_line_says(case: Json) -> None:
    assert result_of(case) == case["gives"]


if __name__ == "__main__":
    for file in FILES:
        # Texts of functions have lone surrogates.
        given = [json.dumps(one | {"gives": result_of(one)}, ensure_ascii="of" in one) for one in lines(file)]
        file.write_text("".join(f"{one}\n" for one in given), "utf-8")
