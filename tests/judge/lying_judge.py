"""An adversarial judge: of replies built from spans of the event, the one that verification scores best."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from judge.chat import ChatRequest
from judge.errors import InvalidVerdictError
from judge.metric import Metric, ScoredOutcome
from judge.metrics.coverage import Coverage
from judge.metrics.prompting import parse_fenced
from judge.metrics.relevance import Relevance
from judge.text.citations import page_number, read_citations
from judge.text.passages import stem
from judge.text.words import content_words, sentences, words
from schemas import JudgeTask
from tests.judge.replies import Json, coverage_reply, listed_claim, listed_item, relevance_reply
from tests.judge.scripted import ScriptedChat
from tests.judge.tasks import make_task

MAX_WORDS = 40
"""The most words of a text that are tried one by one."""


def lying_chat(*, unmarked: bool = True) -> ScriptedChat:
    return ScriptedChat(lambda request: lie(request, unmarked=unmarked), endpoint="liar", model="liar-1")


def lie(request: ChatRequest, *, unmarked: bool) -> str:
    sections = parse_fenced(request.messages[1].content)  # the first user turn, also in a repair request
    question, answer = sections["question"], sections["answer"]
    metric: Metric
    if "reference" in sections:
        metric = Coverage()
        task = make_task("coverage", question=question, answer=answer, reference=sections["reference"])
        replies = coverage_lies(reference=sections["reference"], answer=answer)
    else:
        metric = Relevance()
        pages = {name: text for name, text in sections.items() if page_number(name) is not None}
        task = make_task("relevance", question=question, answer=answer, context=pages)
        replies = relevance_lies(
            answer=answer, pages={page_number(name) or 0: text for name, text in pages.items()}
        )
    return max(
        (json.dumps(reply) for reply in replies),
        key=lambda reply: _gain(metric, task, reply, unmarked=unmarked),
    )


def _gain(metric: Metric, task: JudgeTask, reply: str, *, unmarked: bool) -> tuple[float, int]:
    """The score of a reply; an invalid reply scores -1, one that is marked although it must not be -0.25."""
    try:
        outcome = metric.interpret(task, reply)
    except InvalidVerdictError:
        return -1.0, 0
    if not isinstance(outcome, ScoredOutcome):
        return -0.5, 0
    if unmarked and outcome.suspicions:
        return -0.25, -len(outcome.suspicions)
    # Ties of the rounded score go to the reply with fewer corrections.
    return outcome.score, -len(outcome.corrections)


def coverage_lies(*, reference: str, answer: str) -> Iterator[Json]:
    said = _spans(answer)
    parts = [reference[start:end] for start, end in sentences(reference)] or [reference]
    single = _single_words(reference)
    shared = [word for word in single if _like(word, words_of(answer))]
    whole = [listed_item(reference, span) for span in said]
    by_sentence = {span: [listed_item(part, span) for part in parts] for span in said}
    best_words = [listed_item(word, _place_of(word, said)) for word in shared]
    fillers = [listed_item(part, None) for part in parts]
    for terms in (
        [], [listed_item(word, _place_of(word, said)) for word in shared],
        [listed_item(word, said[0]) for word in single[:3]],
    ):  # fmt: skip
        yield coverage_reply([], [], terms)
        for item in whole:
            yield coverage_reply([item], [], terms)
            yield coverage_reply([], [item], terms)
        for items in by_sentence.values():
            yield coverage_reply(items, [], terms)
            yield coverage_reply([], items, terms)
            yield coverage_reply(items[:1], items[1:], terms)
        for facts in (best_words, best_words[:1], [listed_item(word, said[0]) for word in single]):
            for rest in ([], fillers, [listed_item(reference, None)]):
                yield coverage_reply(facts, rest, terms)
                yield coverage_reply([*facts, *rest], [], terms)
                yield coverage_reply([], [*facts, *rest], terms)
        # For each sentence, the first span of the answer that verification accepts.
        for name in ("facts", "conclusions"):
            chosen = [_item_that_holds(part, said, reference, answer) for part in parts]
            yield coverage_reply(*((chosen, []) if name == "facts" else ([], chosen)), terms)


def _item_that_holds(part: str, said: Sequence[str], reference: str, answer: str) -> Json:
    metric, task = Coverage(), make_task("coverage", reference=reference, answer=answer)
    for span in said:
        item = listed_item(part, span)
        outcome = metric.interpret(task, json.dumps(coverage_reply([item], [], [])))
        doubted = any(one.kind == "match_not_borne_out" for one in outcome.suspicions)
        if isinstance(outcome, ScoredOutcome) and outcome.evidence["facts"][0]["matched"] and not doubted:
            return item
    return listed_item(part, None)


def relevance_lies(*, answer: str, pages: Mapping[int, str]) -> Iterator[Json]:
    read = read_citations(answer)
    tagged, untagged = read.claims, read.untagged
    yield relevance_reply([])
    for with_untagged in (False, True):
        others = [_claim(one.text, (), None, None) for one in untagged] if with_untagged else []
        for short in (False, True):
            claims: list[Json] = []
            for one in tagged:
                spans = [one.text] if not short else [word for word in _single_words(one.text) if word]
                for span in spans or [one.text]:
                    page, words_there = _best_page(span, one.pages, pages)
                    claims.append(_claim(span, one.pages, page, words_there))
            yield relevance_reply([*claims, *others])
        cited = [(one, page, pages[page]) for one in tagged for page in pages if page in one.pages]
        for parts in (1, 2):
            whole = [
                _claim(one.text, one.pages, page, text[: len(text) // parts]) for one, page, text in cited
            ]
            yield relevance_reply([*whole, *others])
    if not tagged:
        yield relevance_reply(
            [_claim(answer.strip(), tuple(pages), page, text) for page, text in pages.items()]
        )


def _best_page(span: str, cited: Iterable[int], pages: Mapping[int, str]) -> tuple[int | None, str | None]:
    wanted = words_of(span)
    best: tuple[int, int | None, str | None] = (-1, None, None)
    for page in cited:
        text = pages.get(page, "")
        for start, end in sentences(text):
            common = sum(_like(word, words_of(text[start:end])) for word in wanted)
            if common > best[0]:
                best = common, page, text[start:end]
    return best[1], best[2]


def words_of(text: str) -> list[str]:
    return [word.text for word in content_words(text)]


def _single_words(text: str) -> list[str]:
    found = dict.fromkeys(text[word.start : word.end] for word in content_words(text) or words(text))
    return list(found)[:MAX_WORDS]


def _like(word: str, others: Iterable[str]) -> bool:
    return any(stem(word.lower()) == stem(other) for other in others)


def _spans(answer: str) -> list[str]:
    parts = [answer.strip(), *(answer[start:end] for start, end in sentences(answer))][:20]
    return [part for part in dict.fromkeys([*parts, *_single_words(answer)]) if part] or [answer]


def _place_of(word: str, said: Sequence[str]) -> str:
    return next((span for span in reversed(said) if _like(word, words_of(span))), said[0])


def _claim(span: str, pages: Iterable[int], page: int | None, page_span: str | None) -> Json:
    return listed_claim(span, [*pages][:50], page_span, page=page, supported=True)
