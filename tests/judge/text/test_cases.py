"""What becomes of a text: each line of `cases.jsonl` is one case of one function.

`python -m tests.judge.text.test_cases` writes what the cases give today; read the difference before you
commit it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from judge.metrics.doubts import cannot_be_compared
from judge.text.citations import (
    page_number,
    read_sources,
    tagged_claims,
    unread_citations,
    untagged_segments,
    without_tags,
)
from judge.text.normal import TextIndex, is_blank, neutralize
from judge.text.passages import Vocabulary, share_stem, significant
from judge.text.printable import printable, reason_of
from judge.text.quotations import Quotable
from judge.text.redaction import Redactor
from judge.text.tags import USUAL, Citing
from judge.text.words import content_words, sentences, words
from schemas import Scored
from tests.streams.results import scored

FILE: Final = Path(__file__).parent / "cases.jsonl"
PAGE: Final = (FILE.parent / "page.txt").read_text("utf-8")
NAMED: Final = Citing(names=(("doc-3", 3), ("handbook.pdf", 4), ("faq-returns", 5)))


def cited(answer: str, citing: Citing = USUAL) -> list[Any]:
    """Return its claims with their pages, the other segments, what is unread, and the text without tags."""
    claims = [[claim.text, list(claim.pages)] for claim in tagged_claims(answer, citing)]
    others = [segment.text for segment in untagged_segments(answer, citing)]
    return [claims, others, list(unread_citations(answer, citing)), without_tags(answer, citing).split()]


def quoted_from(text: str, quotation: str) -> list[str] | None:
    text = PAGE if text == "page.txt" else text
    found = Quotable(text).find(quotation)
    if found is None:
        return None
    assert found.kind == "joined" or text[found.start : found.end] == found.words
    return [found.kind, found.words]


def found_in(text: str, span: str) -> str | None:
    place = TextIndex(text).find(span)
    return None if place is None else text[slice(*place)]


def reason(evidence: Any, verdict: dict[str, Any], limit: int | None = None) -> str:
    values = scored(1, 3).model_dump() | {"verdict": {"score": 3, **verdict}, "evidence": evidence}
    return reason_of(Scored.model_validate(values), *([] if limit is None else [limit]))


def forms(one: str, other: str) -> list[bool]:
    alike = share_stem(one, other)
    assert share_stem(other, one) is alike
    assert (other in Vocabulary([one])) is (one in Vocabulary([other]))
    return [alike, one in Vocabulary([other])]


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "blank": is_blank,
    "cited": cited,
    "cited, with named documents": lambda answer: cited(answer, NAMED),
    "content words": lambda text: [text[word.start : word.end] for word in content_words(text)],
    "find": found_in,
    "forms of a word": forms,
    "languages that cannot be compared": lambda text, answer, question: cannot_be_compared(
        text, answer, question=question
    ),
    "neutralize": neutralize,
    "page number": page_number,
    "printable": printable,
    "quotation": quoted_from,
    "reason": reason,
    "redact": lambda kind, text: Redactor([kind]).redact(text),
    "sentences": lambda text: [text[start:end] for start, end in sentences(text)],
    "significant digits": significant,
    "sources": lambda context: {str(page): text for page, text in read_sources(context).texts.items()},
    "words": lambda text: [word.text for word in words(text)],
}


def cases() -> Iterator[Any]:
    for number, line in enumerate(FILE.read_text("utf-8").splitlines(), 1):
        case = json.loads(line)
        yield pytest.param(case, id=f"{number}: {case['of']}")


@pytest.mark.parametrize("case", [*cases()])
def test_a_case_gives_what_its_line_says(case: dict[str, Any]) -> None:
    assert FUNCTIONS[case["of"]](*case["given"]) == case["gives"]


if __name__ == "__main__":
    lines = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
    FILE.write_text(
        "".join(json.dumps(one | {"gives": FUNCTIONS[one["of"]](*one["given"])}) + "\n" for one in lines)
    )
