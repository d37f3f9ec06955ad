"""The question and the pages in a prompt. Pure.

Most RAG applications send one user message: some pages, then `Question: ...`. If a message has such marks at
the beginning of a line, or tags, it is split; else the whole message is the question.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from streams.intake.reading.otlp.content.pages import marks_in, pages_in_text

MAX_PROMPT_CHARS: Final = 2_000_000
"""Longer messages are not split."""

_ASKED: Final = re.compile(
    r"^[ \t#*]{0,8}(?:user(?:'s)?[ \t_-])?"
    r"(?:question|query|request|current[ \t]task|frage|pregunta|pergunta|domanda|вопрос|问题|問題|質問|질문)"
    r"[ \t\u00a0*]{0,4}[:\uff1a][ \t*]{0,4}"
    r"|^\[\[ ## (?:question|query|request) ## \]\]",  # DSPy
    re.IGNORECASE | re.MULTILINE,
)
_NEXT: Final = re.compile(
    r"^[ \t#*]{0,8}(?:(?:helpful|final|your)[ \t])?"
    r"(?:answer|response|context|pages|documents|sources|instructions|history"
    r"|antwort|réponse|respuesta|resposta|risposta|ответ|回答|答案|답변"
    r"|kontext|contexte|contexto|contesto|контекст|上下文|文脈)"
    r"[ \t\u00a0*]{0,4}[:\uff1a]"
    r"|^This is the expected criteria for your final answer:"
    r"|^\[\[ ## |^Respond with (?:a JSON|the corresponding)",
    re.IGNORECASE | re.MULTILINE,
)
_CONTEXT: Final = re.compile(
    r"^[ \t#*]{0,8}(?:retrieved[ \t])?"
    r"(?:context|pages|documents|sources|passages|references"
    r"|kontext|contexte|contexto|contesto|контекст|上下文|文脈)[ \t\u00a0*]{0,4}[:\uff1a][ \t*]{0,4}"
    r"|<(?P<tag>context|documents|pages|sources)>|^-{5,200}[ \t]*$"
    r"|^\[\[ ## (?:context|passages|documents) ## \]\]",
    re.IGNORECASE | re.MULTILINE,
)
_TAGGED: Final = re.compile(r"<(?P<tag>question|query|user_question|user_query|user_input)>", re.IGNORECASE)
_DOCUMENT: Final = re.compile(r"<(?P<tag>document|doc|page|passage|source)\b[^<>]{0,200}>", re.IGNORECASE)
_TAG: Final = re.compile(r"<[^<>]{1,200}>")
_TAG_END: Final = re.compile(
    r"</(?:documents?|docs?|pages?|passages?|sources?|context|document_contents?)>", re.IGNORECASE
)
_HEADING: Final = re.compile(r"^[^\n]{0,80}[:\uff1a][ \t]*\Z", re.MULTILINE)
_ASKING: Final = ("?", "\uff1f")
_INDEX: Final = re.compile(
    r"(?:index|id|number|n|name|page)=[\"']?(?:page[-_ ]?)?(?P<index>\d{1,6})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A user message, split.

    Args:
        question: Its question.
        pages: Its pages.
        is_cut: Whether the question is a part of the message.
    """

    question: str
    pages: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False


def open_prompt(text: str) -> Prompt:
    """Split a user message.

    Args:
        text: The message.
    """
    if len(text) > MAX_PROMPT_CHARS:
        return Prompt(text)
    start, question, end = _question(text)
    if not question:
        return _without_mark(text)
    before, after = text[:start], text[end:]
    pages = _tagged_pages(f"{before}\n{after}")
    pages = pages or pages_in_text(before) or pages_in_text(after) or _one_page(before, after)
    return Prompt(question, pages, is_cut=True)


def _without_mark(text: str) -> Prompt:
    """Split a message whose question has no mark.

    With tagged pages the question is the rest of the message. With marked pages it is the last paragraph, or
    the text before the pages, if this ends in a question mark.
    """
    pages = _tagged_pages(text)
    if pages:
        begins = _DOCUMENT.search(text)
        ends = list(_TAG_END.finditer(text))
        after = text[ends[-1].end() :].strip() if ends else ""
        question = after or _TAG.sub("", text[: begins.start() if begins else 0]).strip()
        return Prompt(question or text.strip(), pages, is_cut=bool(question))
    first, last = marks_in(text)
    if first < 0:
        return Prompt(text.strip())
    whole = text.rstrip()
    start = whole.rfind("\n\n", last)
    start = start if start >= 0 else whole.rfind("\n", last)
    asked = whole[start:].strip() if start >= 0 else ""
    if asked.endswith(_ASKING):
        return Prompt(asked, pages_in_text(whole[:start]), is_cut=True)
    before = _HEADING.sub("", text[:first].rstrip()).strip()
    if before.endswith(_ASKING):
        return Prompt(before, pages_in_text(text), is_cut=True)
    return Prompt(text.strip())


def pages_told(text: str) -> dict[str, str]:
    """Read the pages in a system instruction: marked, or under `Context:`."""
    if len(text) > MAX_PROMPT_CHARS:
        return {}
    return _tagged_pages(text) or pages_in_text(text) or _one_page(text)


def _one_page(*parts: str) -> dict[str, str]:
    """Read the text under `Context:`, in a tag of that name or between two rules, as one page."""
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
    """Find the question: the position of its mark, its text, and where the text ends."""
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
