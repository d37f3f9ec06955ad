"""A question and its pages, cut out of the prompt that an application stuffed them into. Pure.

Most RAG applications send the model one user message: some pages, then `Question: ...`. Where such marks
stand at the beginnings of lines, or as tags, the message is taken apart; else it is the question as it
stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from streams.intake.reading.otlp.content.pages import pages_in_text

MAX_PROMPT_CHARS: Final = 2_000_000
"""Longer messages are left as they are."""

_ASKED: Final = re.compile(
    r"^[ \t#*]{0,8}(?:user(?:'s)?[ \t_-])?(?:question|query|request|current[ \t]task)[ \t*]{0,4}:[ \t*]{0,4}",
    re.IGNORECASE | re.MULTILINE,
)
_NEXT: Final = re.compile(
    r"^[ \t#*]{0,8}(?:(?:helpful|final|your)[ \t])?"
    r"(?:answer|response|context|pages|documents|sources|instructions|history)"
    r"[ \t*]{0,4}:"
    r"|^This is the expected criteria for your final answer:",
    re.IGNORECASE | re.MULTILINE,
)
_CONTEXT: Final = re.compile(
    r"^[ \t#*]{0,8}(?:retrieved[ \t])?"
    r"(?:context|pages|documents|sources|passages|references)[ \t*]{0,4}:[ \t*]{0,4}"
    r"|<(?P<tag>context|documents|pages|sources)>|^-{5,200}[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_TAGGED: Final = re.compile(r"<(?P<tag>question|query|user_question|user_query|user_input)>", re.IGNORECASE)
_DOCUMENT: Final = re.compile(r"<(?P<tag>document|doc|page|passage|source)\b[^<>]{0,200}>", re.IGNORECASE)
_INDEX: Final = re.compile(
    r"(?:index|id|number|n|name|page)=[\"']?(?:page[-_ ]?)?(?P<index>\d{1,6})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A user message, taken apart.

    Args:
        question: The question in it.
        pages: The pages in it.
        is_cut: Whether the question is a part of the message.
    """

    question: str
    pages: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False


def open_prompt(text: str) -> Prompt:
    """Take a user message apart.

    Args:
        text: The message.
    """
    if len(text) > MAX_PROMPT_CHARS:
        return Prompt(text)
    start, question, end = _question(text)
    if not question:
        pages = _tagged_pages(text)
        return Prompt(text.strip(), pages)
    around = f"{text[:start]}\n{text[end:]}" if end < len(text) else text[:start]
    pages = _tagged_pages(around) or pages_in_text(around) or _one_page(text[:start], text[end:])
    return Prompt(question, pages, is_cut=True)


def _one_page(*parts: str) -> dict[str, str]:
    """Take what stands under `Context:`, in a tag of that name or between two rules, as one page."""
    for part in parts:
        mark = _CONTEXT.search(part)
        if mark is None:
            continue
        if mark["tag"]:
            end = part.lower().find(f"</{mark['tag'].lower()}>", mark.end())
        elif mark[0].startswith("-"):
            end = next(
                (one.start() for one in _CONTEXT.finditer(part, mark.end()) if one[0].startswith("-")), -1
            )
        else:
            following = _NEXT.search(part, mark.end())
            end = following.start() if following else -1
        body = part[mark.end() : end if end >= 0 else len(part)].strip()
        if body:
            return {"Page-1": body}
    return {}


def _question(text: str) -> tuple[int, str, int]:
    """Find the question: where it begins, with its mark; its words; and where they end."""
    tags = list(_TAGGED.finditer(text))
    if tags:
        last = tags[-1]
        end = text.lower().find(f"</{last['tag'].lower()}>", last.end())
        if end >= 0 and text[last.end() : end].strip():
            return last.start(), text[last.end() : end].strip(), end
    marks = list(_ASKED.finditer(text))
    if not marks:
        return 0, "", 0
    mark = marks[-1]
    following = _NEXT.search(text, mark.end())
    end = following.start() if following else len(text)
    return mark.start(), text[mark.end() : end].strip(), end


def _tagged_pages(text: str) -> dict[str, str]:
    pages: dict[str, str] = {}
    lowered = text.lower()
    at = 0
    while len(pages) < 500 and (mark := _DOCUMENT.search(text, at)) is not None:
        end = lowered.find(f"</{mark['tag'].lower()}", mark.end())
        if end < 0:
            break
        index = _INDEX.search(mark[0])
        number = int(index["index"]) if index else len(pages) + 1
        body = text[mark.end() : end].strip()
        if body:
            pages.setdefault(f"Page-{number}", body)
        at = end + 1
    return pages
