"""Retrieved documents, as the pages that an answer may cite. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from streams.intake.reading.otlp.content.json_text import loaded
from streams.intake.reading.otlp.content.shown import is_shown_object, shown_document
from streams.intake.reading.otlp.content.tool_result import result_text

MAX_PAGES: Final = 500
"""Limit of pages per answer."""
_MAX_DEPTH: Final = 5
_LISTS: Final = (
    "documents",
    "matches",
    "results",
    "hits",
    "chunks",
    "pages",
    "nodes",
    "source_nodes",
    "docs",
    "context",
    "output",
)
_TEXTS: Final = ("page_content", "pageContent", "content", "text", "document", "body", "chunk", "passage")
_WRAPPERS: Final = ("document", "node", "kwargs")
_IDS: Final = ("id", "document_id", "doc_id", "_id", "name", "page")
_SOURCES: Final = ("page", "source", "id")
_PAGE_NAME: Final = re.compile(r"page[-_ #]?(\d{1,6})", re.IGNORECASE | re.ASCII)
_PAGE_WORDS: Final = "|".join(
    (
        *("page", "document", "doc", "source", "passage", "chunk", "seite", "dokument", "quelle"),
        *("página", "pagina", "documento", "fuente", "страница", "页", "ページ"),
    )
)
_MARKER: Final = re.compile(
    r"^[ \t]{0,8}(?:"
    rf"[\[(<](?:{_PAGE_WORDS})[-_ #]{{0,2}}(?P<bracketed>\d{{1,6}})[\])>][ \t]{{0,4}}[:.-]?"
    rf"|(?:{_PAGE_WORDS})[-_ #]{{0,2}}(?P<plain>\d{{1,6}})[ \t]{{0,4}}:"
    r")[ \t]{0,8}",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)


class Document(NamedTuple):
    """A retrieved document.

    Args:
        text: Its text; empty where the instrumentation does not record it.
        name: Its id, or the page that its metadata names; empty for neither.
    """

    text: str
    name: str = ""


def read_documents(value: Any) -> list[Document]:
    """Read documents in any known wrapper, at most MAX_PAGES."""
    return list(_documents(loaded(value), 0))[:MAX_PAGES]


def _documents(value: Any, depth: int) -> Iterator[Document]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        text = shown_document(value) or value
        if text.strip() and not is_shown_object(text):
            yield Document(text)
    elif isinstance(value, list):
        for item in value[:MAX_PAGES]:
            yield from _documents(loaded(item), depth + 1)
    elif isinstance(value, dict):
        yield from _in_mapping(value, depth)


def _in_mapping(value: Mapping[str, Any], depth: int) -> Iterator[Document]:
    """Read the document or the list of documents in a mapping, else the mapping as a document."""
    for name in _WRAPPERS:
        if isinstance(inner := value.get(name), dict):
            named = inner if _is_path(value.get("id")) else {"id": value.get("id"), **inner}
            yield from _documents(named, depth + 1)
            return
    for name in _LISTS:
        if name in value and isinstance(listed := loaded(value[name]), list):
            yield from _documents(listed, depth + 1)
            return
    one = _document(value)
    if one is not None:
        yield one


def _is_path(value: Any) -> bool:
    """Whether an `id` is the class path of a serialised object (LangChain), or missing."""
    return isinstance(value, list) or value is None


def _document(value: Mapping[str, Any]) -> Document | None:
    metadata = loaded(value.get("metadata") or value.get("payload"))
    metadata = metadata if isinstance(metadata, dict) else {}
    text = _text_in(value) or _text_in(metadata)
    names = [value[name] for name in _IDS if name in value]
    names += [metadata[name] for name in _SOURCES if name in metadata]
    named = [
        str(name)
        for name in names
        if isinstance(name, str | int) and not isinstance(name, bool) and name != ""
    ]
    name = next((one for one in named if _PAGE_NAME.fullmatch(one)), named[0] if named else "")
    return Document(text, name) if text or name else None


def _text_in(value: Mapping[str, Any]) -> str:
    for name in _TEXTS:
        if isinstance(text := value.get(name), str):
            return text
        if isinstance(text, list):
            return result_text(text)  # Genkit
    return ""


def as_pages(documents: Iterable[Document]) -> dict[str, str]:
    """Name pages as answers cite them: `Page-7` if all documents have such names, else by order from 1.

    Documents without text and duplicates are left out.
    """
    by_text: dict[str, Document] = {}
    for one in documents:
        if one.text and not one.text.isspace():
            by_text.setdefault(one.text, one)
    distinct = list(by_text.values())
    named = [_PAGE_NAME.fullmatch(one.name) for one in distinct]
    numbers = [match[1] for match in named if match is not None]
    if len(numbers) == len(distinct) and len(set(numbers)) == len(numbers):
        return {f"Page-{int(number)}": one.text for number, one in zip(numbers, distinct, strict=True)}
    return {f"Page-{index}": one.text for index, one in enumerate(distinct, 1)}


def documents_in_result(text: str) -> list[Document]:
    """Read the result of a search tool: documents in JSON, a text with marked pages, else one page."""
    opened = loaded(text)
    if isinstance(opened, list | dict):
        return read_documents(opened)
    return [Document(body, name) for name, body in pages_in_text(text).items()] or [Document(text)]


def pages_in_text(text: str) -> dict[str, str]:
    """Split a text at its marks of pages (`[Page-1] ...`, `Document 2: ...`); empty without marks."""
    marks = list(_MARKER.finditer(text))[:MAX_PAGES]
    pages: dict[str, str] = {}
    for index, mark in enumerate(marks):
        end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        body = text[mark.end() : end].strip()
        name = f"Page-{int(mark['bracketed'] or mark['plain'])}"
        if body and name not in pages:
            pages[name] = body
    return pages


def marks_in(text: str) -> tuple[int, int]:
    """The positions of the first and the last mark of a page; -1 without marks."""
    marks = [mark.start() for mark in _MARKER.finditer(text)]
    return (marks[0], marks[-1]) if marks else (-1, -1)


def pages_of(value: Any) -> dict[str, str]:
    """Read an application's context: a mapping of pages, documents, or one text."""
    opened = loaded(value)
    if (
        isinstance(opened, dict)
        and all(isinstance(text, str) for text in opened.values())
        and any(_PAGE_NAME.fullmatch(str(name)) for name in opened)
    ):
        return {str(name): text for name, text in list(opened.items())[:MAX_PAGES]}
    if isinstance(opened, str):
        if not opened.strip():
            return {}
        return pages_in_text(opened) or {"Page-1": opened.strip()}
    return as_pages(read_documents(opened))
