"""Fit a task's long texts into a judge's context window by fixed rules, and report every cut. Pure.

Only the reference and the pages are cut, at sentence ends; question and answer are sent whole or not at all.
If all texts together are too long, each gets an equal share of the room, and the unused share of short texts
goes to longer ones.

- Of the **reference**, the first sentences that fit are kept. The choice must not depend on the answer,
  because keeping the sentences nearest to it would raise its score. The cut part does not count in the
  verdict: the rule that adds what a judge left out applies only to the kept part. Offsets do not change.
- Of a **page**, the sentences that share most words with the claims that cite it are kept (on a tie the
  earlier one), in page order and with `[…]` at the gaps. Sentences that support or contradict a claim share
  its words. The judge's quotations are verified against the whole page.

Token counts are estimated from characters, because tokenizers differ between models: an ASCII letter counts
0.3, a space 0, a digit, sign or line end 1, a character beyond ASCII 1, 2 or 3 for its two, three or four
bytes in UTF-8. For English prose the estimate is about a third too high. Random letters take more tokens than
estimated; if the request is then too long, the endpoint refuses it.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

import orjson

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.metric import Outcome
from judge.text.citations import Citing, page_number, tagged_claims
from judge.text.sentences import sentences
from judge.text.sources import read_sources
from judge.text.words import content_words
from schemas import Correction, CorrectionKind, JudgeTask

CUT_KIND: Final[CorrectionKind] = "input_cut"
MESSAGE_TOKENS: Final = 8
"""Tokens of a turn besides its text: role and separators."""
MAX_RANGES: Final = 20
"""Limit of listed ranges."""
_GAP = "[…]"
_ROUNDS = 4
_LETTERS = string.ascii_letters.encode()
_SPACES = b" \t"
_ASCII_OTHERS = bytes(byte for byte in range(0x80) if byte not in _LETTERS + _SPACES)
# Lead bytes of UTF-8 by the length of the character; continuation bytes count nothing.
_LEADS = (bytes(range(0xC0, 0xE0)), bytes(range(0xE0, 0xF0)), bytes(range(0xF0, 0xF8)))
_TENTHS: Final = ((_LETTERS, 3), (_ASCII_OTHERS, 10), *zip(_LEADS, (10, 20, 30), strict=True))

NameT = TypeVar("NameT")
Prepare = Callable[[JudgeTask], ChatRequest | Outcome]


def estimated_tokens(text: str) -> int:
    """Return the estimated tokens of a text."""
    return -(-_tenths(text) // 10)


def _tenths(text: str) -> int:
    """Return the estimate in tenths of tokens, which add up exactly over parts of a text."""
    data = text.encode("utf-8", "surrogatepass")
    return sum((len(data) - len(data.translate(None, kind))) * weight for kind, weight in _TENTHS)


def request_tokens(request: ChatRequest) -> int:
    """Return the estimated input tokens of a request, including its schema."""
    tokens = sum(estimated_tokens(message.content) + MESSAGE_TOKENS for message in request.messages)
    if request.response_schema is not None:
        tokens += (
            estimated_tokens(orjson.dumps(dict(request.response_schema.schema)).decode()) + MESSAGE_TOKENS
        )
    return tokens


@dataclass(frozen=True, slots=True)
class Fitted:
    """A request that fits.

    Args:
        request: What to ask.
        task: The task for interpreting the reply: whole pages, and the reference as sent.
        cuts: The cuts.
    """

    request: ChatRequest
    task: JudgeTask
    cuts: tuple[Correction, ...] = ()


def fit(task: JudgeTask, request: ChatRequest, prepare: Prepare, *, limit_tokens: int) -> Fitted:
    """Return a request for a task that fits the context window.

    Args:
        task: The task.
        request: Its request with all texts uncut.
        prepare: Builds the request of a task with shorter texts.
        limit_tokens: Limit of the input: the context window minus the reserve for the reply.

    Raises:
        EventError: `context_too_long`: question, answer and instructions leave no room, or not one whole
            sentence of a text fits.
    """
    needed = request_tokens(request)
    if needed <= limit_tokens:
        return Fitted(request, task)
    texts = _texts(task)
    room = limit_tokens - needed + sum(estimated_tokens(text) for text in texts.values())
    for _ in range(_ROUNDS):
        if room <= 0 or not texts:
            break
        cut, cuts = _cut(task, texts, room, limit_tokens)
        prepared = prepare(cut)
        if not isinstance(prepared, ChatRequest):
            break
        # Within the prompt, texts may take slightly more tokens than alone.
        over = request_tokens(prepared) - limit_tokens
        if over <= 0:
            return Fitted(prepared, task.model_copy(update={"reference": cut.reference}), cuts)
        room -= over
    fixed = needed - sum(estimated_tokens(text) for text in texts.values())
    raise EventError(
        "context_too_long",
        f"instructions, question and answer take about {fixed} of {limit_tokens} tokens, which leaves no "
        "room for the "
        "rest; raise context_tokens or use a model with a larger window",
    )


def _texts(task: JudgeTask) -> dict[str | None, str]:
    """Return the texts that may be cut, by page name; the key None is the reference."""
    texts: dict[str | None, str] = {} if task.reference is None else {None: task.reference}
    texts.update(task.context or {})
    return texts


def shares(sizes: Mapping[NameT, int], room: int) -> dict[NameT, int]:
    """Divide room equally (max-min fairness): the unused share of small texts goes to the others.

    Args:
        sizes: Size of each text.
        room: Total room; 0 or more.

    Returns:
        The room of each, at most its size; the sum is at most `room`.
    """
    given: dict[NameT, int] = {}
    left = room
    for place, (name, size) in enumerate(sorted(sizes.items(), key=lambda one: one[1])):
        given[name] = min(size, left // (len(sizes) - place))
        left -= given[name]
    return given


def _cut(
    task: JudgeTask, texts: Mapping[str | None, str], room: int, limit_tokens: int
) -> tuple[JudgeTask, tuple[Correction, ...]]:
    sizes = {name: estimated_tokens(text) for name, text in texts.items()}
    given = shares(sizes, room)
    shorter: dict[str | None, str] = {}
    cuts: list[Correction] = []
    citing = read_sources(task.context or {}).citing
    for name, text in texts.items():
        if given[name] >= sizes[name]:
            continue
        places = sentences(text)
        kept = (
            _beginning(text, places, given[name])
            if name is None
            else _nearest(text, places, given[name], _claim_words(task.answer, name, citing))
        )
        if not kept:
            raise EventError(
                "context_too_long",
                f"{name or 'the reference'} takes about {sizes[name]} tokens, its share of the "
                f"{limit_tokens} that fit is {given[name]}, and no "
                "whole sentence of it is so short; raise context_tokens or use a model with a larger window",
            )
        shorter[name] = text[: kept[-1][1]] if name is None else _joined(text, places, kept)
        cuts.append(_told(name, text, places, kept))
    update: dict[str, object] = {}
    if task.reference is not None:
        update["reference"] = shorter.get(None, task.reference)
    if task.context is not None:
        update["context"] = {name: shorter.get(name, text) for name, text in task.context.items()}
    return task.model_copy(update=update), tuple(cuts)


Place = tuple[int, int]


def _beginning(text: str, places: Sequence[Place], room: int) -> list[Place]:
    kept: list[Place] = []
    used = reached = 0
    for start, end in places:
        used += _tenths(text[reached:end])
        if used > 10 * room:
            break
        kept.append((start, end))
        reached = end
    return kept


def _nearest(text: str, places: Sequence[Place], room: int, wanted: frozenset[str]) -> list[Place]:
    """Return the sentences that share most of the wanted words, as many as fit, in text order."""
    found: list[set[str]] = [set() for _ in places]
    if wanted:
        at = 0
        for word in content_words(text):
            while at < len(places) and places[at][1] <= word.start:
                at += 1
            if at < len(places) and word.text in wanted:
                found[at].add(word.text)
    ranked = sorted(range(len(places)), key=lambda one: (-len(found[one]), one))
    # Each sentence may be followed by a gap, and the first preceded by one.
    gap = _tenths(f"\n{_GAP}\n")
    left = 10 * room - gap
    kept: list[int] = []
    for one in ranked:
        start, end = places[one]
        cost = _tenths(text[start:end]) + gap
        if cost <= left:
            left -= cost
            kept.append(one)
    return [places[one] for one in sorted(kept)]


def _claim_words(answer: str, name: str, citing: Citing) -> frozenset[str]:
    page = page_number(name)
    claims = (claim for claim in tagged_claims(answer, citing) if page in claim.pages)
    return frozenset(word.text for claim in claims for word in content_words(claim.text))


def _joined(text: str, places: Sequence[Place], kept: Sequence[Place]) -> str:
    """Join the kept sentences; neighbours keep the text between them, gaps are marked."""
    following = dict(pairwise(places))
    parts = [] if kept[0] == places[0] else [f"{_GAP}\n"]
    for one, other in zip(kept, (*kept[1:], None), strict=True):
        parts.append(text[one[0] : one[1]])
        if other is None:
            parts.append("" if one == places[-1] else f"\n{_GAP}")
        elif following.get(one) == other:
            between = text[one[1] : other[0]]
            # Text between sentences was not counted and may be long.
            parts.append(between if len(between) <= len(_GAP) else "\n")
        else:
            parts.append(f"\n{_GAP}\n")
    return "".join(parts)


def _told(name: str | None, text: str, places: Sequence[Place], kept: Sequence[Place]) -> Correction:
    chars = sum(end - start for start, end in kept)
    rule = "its beginning" if name is None else "those that share most words with the claims that cite it"
    left_out = _left_out(places, kept)
    ranges = ", ".join(f"{start}-{end}" for start, end in left_out[:MAX_RANGES])
    more = f" and {len(left_out) - MAX_RANGES} more" if len(left_out) > MAX_RANGES else ""
    return Correction(
        kind=CUT_KIND,
        detail=f"{name or 'reference'}: {len(kept)} of {len(places)} sentences ({chars} of {len(text)} "
        f"characters) were sent, {rule}; left out "
        f"are the characters {ranges}{more}",
    )


def _left_out(places: Sequence[Place], kept: Sequence[Place]) -> list[Place]:
    """Return the ranges of consecutive sentences that were not kept."""
    sent = set(kept)
    runs: list[Place] = []
    open_run = False
    for place in places:
        if place in sent:
            open_run = False
        elif open_run:
            runs[-1] = (runs[-1][0], place[1])
        else:
            runs.append(place)
            open_run = True
    return runs
