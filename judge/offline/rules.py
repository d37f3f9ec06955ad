"""The offline judge's replies: word overlap for coverage and relevance, a fixed reply for all else. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

from judge.chat import ChatMessage, ResponseSchema
from judge.metrics.coverage import COVERAGE_SCHEMA
from judge.metrics.prompting import parse_fenced
from judge.metrics.relevance import RELEVANCE_SCHEMA
from judge.metrics.scoring import coverage_score, relevance_cap
from judge.text.citations import citing_of_names, page_number, read_citations
from judge.text.passages import passage, stem, stems
from judge.text.tags import USUAL, Citing
from judge.text.words import content_words, has_words, sentences, word_texts

REFUSAL: Final = "offline judge found no answer in this prompt"
NO_MODEL: Final = "Compared by rules, not by a language model."
FACT_SHARE: Final = 0.5
"""Share of a fact's words that a passage of the answer must have."""
CLAIM_SHARE: Final = 0.6
"""Share of a claim's words that a passage of a cited page must have."""
FACT_SENTENCES, CLAIM_SENTENCES = 2, 6  # neighbours that are one passage
MAX_TERMS: Final = 20
MAX_CLAIMS: Final = 200
DIMENSIONS: Final = 256
_BUILT_IN: Final = frozenset({COVERAGE_SCHEMA.name, RELEVANCE_SCHEMA.name})
_MIN_CLAIM_WORDS = 3
_CANDIDATES = 8
_WITH_FLAW = 4
_FOOTNOTE = re.compile(r"\[\^?\d[\d\s,;\u2013-]{0,40}\]")
_NO_CLAIM = re.compile(
    r"\W*(?:i['\u2019]?m|i (?:am|can|could|do|hope)|sorry|unfortunately|hello|please|let me)\b", re.IGNORECASE
)
# The choices that a pack's prompt offers: "score": "good" | "bad".
_CHOICES = re.compile(r'"score\\?"[^\n"\d]{0,20}?(?P<first>"[^"\n]{1,60}"|true|false)')
_RANGE = re.compile(
    r"(?:from|between|score|scale)\W{0,9}(?P<low>-?\d{1,4})\s{0,3}(?:to|and|-|\u2013)\s{0,3}(?P<high>-?\d{1,4})\b"
)


def judge_messages(messages: Sequence[ChatMessage], *, schema: ResponseSchema | None = None) -> str | None:
    """Answer a conversation; the last user turn with a fenced event is judged. None: `REFUSAL`."""
    sections: Mapping[str, str] = {}
    for message in reversed(messages):
        if message.role == "user" and not sections:
            try:
                sections = parse_fenced(message.content)
            except ValueError:
                return None
    evidence = _evidence(sections, None if schema is None else schema.name)
    if evidence is None:
        built_in = schema is not None and schema.name in _BUILT_IN
        is_blank = not any(message.content.strip() for message in messages if message.role == "user")
        if is_blank or built_in or (sections and schema is None):
            return None
        given = None if schema is None else schema.schema
        evidence = _fixed([message.content for message in messages], given, sections)
    elif schema is None:
        evidence = _published(evidence)
    return json.dumps(evidence, ensure_ascii=False)


def _published(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict of a built-in metric with a pack, whose judge scores by itself."""
    if "claims" in evidence:
        score = evidence["score"] if evidence["claims"] else None
        return {"score": score, "justification": evidence["justification"]}
    counts = {
        name: (sum(item["matched"] for item in evidence[name]), len(evidence[name]))
        for name in ("facts", "conclusions", "terms")
    }
    return coverage_score(**counts, organization=evidence["organization"]["similar"]).verdict()


def _evidence(sections: Mapping[str, str], schema_name: str | None) -> dict[str, Any] | None:
    if not {"question", "answer"} <= sections.keys():
        return None
    others = sections.keys() - {"question", "answer"}
    if others == {"reference"} and schema_name in {None, COVERAGE_SCHEMA.name}:
        return coverage_evidence(reference=sections["reference"], answer=sections["answer"])
    pages = {page_number(name): sections[name] for name in others - {"missing_pages", "page_names"}}
    if None in pages or schema_name not in {None, RELEVANCE_SCHEMA.name}:
        return None
    return relevance_evidence(
        question=sections["question"],
        answer=sections["answer"],
        pages={number: text for number, text in pages.items() if number is not None},
        missing="missing_pages" in sections,
        citing=citing_of_names(sections.get("page_names", "")),
    )


@dataclass(frozen=True, slots=True)
class Match:
    share: float
    """Share of the statement's distinct words, 0..1."""
    agrees: bool
    """Whether it has the statement's numbers, and as many negations modulo 2."""
    start: int
    end: int

    def holds(self, share: float) -> bool:
        return self.share >= share and self.agrees

    @property
    def reason(self) -> str:
        return f"{self.share:.0%} of its words{'' if self.agrees else '; a number or a negation differs'}"


class Passages:
    """A text's sentences, indexed by the stems of their words; building and searching are linear."""

    def __init__(self, text: str, together: int) -> None:
        text = _FOOTNOTE.sub(lambda mark: " " * len(mark[0]), text)
        self.text = text
        self._together = together
        self._places = sentences(text)
        self._stems = [stems(word_texts(text[start:end])) for start, end in self._places]
        self._index: defaultdict[str, list[int]] = defaultdict(list)
        for number, own in enumerate(self._stems):
            for one in own:
                self._index[one].append(number)

    def best(self, statement: str) -> Match | None:
        statement = _FOOTNOTE.sub(" ", statement)
        wanted = passage(statement).content or passage(statement).stems
        counts = Counter(number for one in wanted for number in self._index.get(one, ())[:64])
        found = [self._passage(number, statement, wanted) for number, _ in counts.most_common(_CANDIDATES)]
        return max(
            found, key=lambda match: (match.agrees, match.share, match.start - match.end), default=None
        )

    def _passage(self, nearest: int, statement: str, wanted: frozenset[str]) -> Match:
        """Return the sentence with its neighbours, as far as they add words of the statement."""
        shared = wanted & self._stems[nearest]
        first = last = nearest
        while last - first + 1 < self._together:
            near = [number for number in (first - 1, last + 1) if 0 <= number < len(self._places)]
            best = max(near, key=lambda number: len((wanted - shared) & self._stems[number]), default=None)
            if best is None or shared >= wanted & self._stems[best]:
                break
            shared |= wanted & self._stems[best]
            first, last = min(first, best), max(last, best)
        share = len(shared) / max(1, len(wanted))
        numbers_agree = not any(one[0].isdecimal() for one in wanted - shared)
        said = self.text[slice(*self._places[nearest])]
        negated = share >= 0.75 and passage(said).negations % 2 != passage(statement).negations % 2
        return Match(share, numbers_agree and not negated, self._places[first][0], self._places[last][1])


def coverage_evidence(*, reference: str, answer: str) -> dict[str, Any]:
    untagged = read_citations(answer).text
    passages = Passages(untagged, FACT_SENTENCES)
    facts, places = [], []
    for start, end in sentences(reference):
        if not has_words(_FOOTNOTE.sub(" ", reference[start:end])):
            continue
        match = passages.best(reference[start:end])
        span = None
        if match is not None and match.holds(FACT_SHARE):
            span = answer[match.start : match.end]
            places.append(match.start)
        reason = match.reason if match else "none of its words"
        facts.append(_item(reference[start:end], span, f"The answer has {reason}."))
    said = {stem(word.text): answer[word.start : word.end] for word in content_words(untagged)}
    terms: dict[str, str] = {}
    for word in content_words(reference):
        if not stem(word.text)[0].isdecimal():
            terms.setdefault(stem(word.text), reference[word.start : word.end])
    longest = sorted(terms, key=lambda one: len(terms[one]), reverse=True)[:MAX_TERMS]
    in_order = sum(one <= other for one, other in pairwise(places))
    return {
        "facts": facts,
        "conclusions": [],
        "terms": [
            _item(terms[one], said.get(one), f"The answer {'uses' if one in said else 'does not use'} it.")
            for one in longest
        ],
        "organization": {
            "justification": f"{len(places)} of {len(facts)} facts are matched. {NO_MODEL}",
            "similar": bool(places) and 2 * in_order >= len(places) - 1,
        },
    }


def _item(words: str, answer_span: str | None, justification: str) -> dict[str, Any]:
    return {
        "item": words,
        "reference_span": words,
        "answer_span": answer_span,
        "justification": justification,
        "matched": answer_span is not None,
    }


def judge_claims(
    *, question: str, answer: str, pages: Mapping[int, str], citing: Citing = USUAL
) -> list[tuple[Match | None, dict[str, Any]]]:
    """Return each claim's best match in its pages, and the claim as it is listed.

    A claim is relevant if it, its passage or a claim that shares words with it concerns the question.
    """
    read = read_citations(answer, citing)
    untagged = (segment for segment in read.untagged if is_claim(segment.text))
    claims = sorted((*read.claims, *untagged), key=lambda claim: claim.start)[:MAX_CLAIMS]
    cited = {page for claim in claims for page in claim.pages if page in pages}
    passages = {page: Passages(pages[page], CLAIM_SENTENCES) for page in cited}
    asked = passage(question).content
    said = [passage(claim.text).content for claim in claims]
    about = asked.union(*(own for own in said if own & asked))
    found = []
    for claim, own in zip(claims, said, strict=True):
        matches = ((page, passages[page].best(claim.text)) for page in claim.pages if page in passages)
        page, match = max(
            ((page, match) for page, match in matches if match is not None),
            key=lambda one: (one[1].holds(CLAIM_SHARE), one[1].share),
            default=(None, None),
        )
        words, reason = "", "Its pages have none of its words" if claim.pages else "It cites no page"
        if page is not None and match is not None:
            words, reason = pages[page][match.start : match.end], f"Page-{page} has {match.reason}"
        supported = match is not None and match.holds(CLAIM_SHARE)
        listed = {
            "claim_span": claim.text,
            "pages": list(claim.pages),
            "page": page if supported else None,
            "page_span": words if supported else None,
            "justification": f"{reason}.",
            "supported": supported,
            "relevant": not asked or bool(own & about) or not asked.isdisjoint(stems(word_texts(words))),
        }
        found.append((match, listed))
    return found


def relevance_evidence(
    *, question: str, answer: str, pages: Mapping[int, str], missing: bool, citing: Citing = USUAL
) -> dict[str, Any]:
    """List an answer's claims and whether their pages support them; `missing`: it cites others, too."""
    claims = [one for _, one in judge_claims(question=question, answer=answer, pages=pages, citing=citing)]
    upheld = sum(one["supported"] and one["relevant"] for one in claims)
    score = relevance_cap(upheld=upheld, total=len(claims)) if claims else 1
    return {
        "claims": claims,
        "justification": (
            f"{upheld} of {len(claims)} claims share enough words with a page that they cite. {NO_MODEL}"
        ),
        "score": min(score, _WITH_FLAW) if missing else score,
    }


def is_claim(text: str) -> bool:
    return (
        not text.startswith("#")
        and text.rstrip("*_ ")[-1:] not in {":", "?"}
        and not _NO_CLAIM.match(text)
        and len(content_words(text)) >= _MIN_CLAIM_WORDS
    )


def _fixed(texts: Sequence[str], schema: Mapping[str, Any] | None, sections: Mapping[str, str]) -> Any:
    """Return the same reply to every prompt of one form: the first choice, or the middle of the range."""
    prompt = "\n".join(reversed(texts))  # a repair turn states the form better
    choice, bounds = _CHOICES.search(prompt), _RANGE.search(prompt)
    low, high = (int(bounds["low"]), int(bounds["high"])) if bounds else (1, 5)
    score: object = json.loads(choice["first"]) if choice else (low + high) // 2
    return {"score": score, "justification": NO_MODEL} if schema is None else _filled(schema, score, sections)


def _filled(schema: Mapping[str, Any], score: object, sections: Mapping[str, str], name: str = "") -> Any:
    """Return a plain value that is valid by a JSON Schema; a required quotation is the start of a section."""
    for key, place in (("const", None), ("default", None), ("enum", 0), ("anyOf", 0)):
        if key in schema:
            value = schema[key] if place is None else schema[key][place]
            return _filled(value, score, sections, name) if key == "anyOf" else value
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):  # an optional quotation is left out
        kind = "null" if "null" in kind else kind[0]
    if kind == "object":
        parts = schema.get("properties", {}).items()
        return {own: _filled(part, score, sections, own) for own, part in parts}
    if kind == "array":
        return [_filled(schema.get("items", {}), score, sections)] * max(1, int(schema.get("minItems", 0)))
    if kind == "string" and name.endswith("_span"):
        of, answer = name.removesuffix("_span"), sections.get("answer", "")
        text = next((text for section, text in sections.items() if section.startswith(of)), answer)
        return text.strip().partition("\n")[0].partition(". ")[0][:200]
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = [bound for bound in (low, high) if bound is not None]
    middle = sum(bounds) // len(bounds) if bounds else score if isinstance(score, int) else 0
    plain: Mapping[str, Any] = {"integer": middle, "number": middle, "boolean": False, "null": None}
    return plain.get(kind, NO_MODEL[: schema.get("maxLength", 1000)])


def vectors(texts: Sequence[str]) -> list[list[float]]:
    """Return embeddings without a model: the word counts of each text, indexed by the word's checksum."""
    found = []
    for text in texts:
        counts = [0.0] * DIMENSIONS
        for word in word_texts(text) or [text]:
            counts[crc32(word.encode("utf-8", "surrogatepass")) % DIMENSIONS] += 1
        found.append(counts)
    return found
