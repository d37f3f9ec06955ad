"""Locates a verdict's evidence in the texts: pieces of text with their evidence items. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from judge.text.tags import page_number

MAX_ITEMS: Final = 500
"""Maximum items shown."""
_ITEM_LISTS: Final = {"facts": "fact", "conclusions": "conclusion", "terms": "term"}


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text: `side` is "answer", "reference" or the name of a page; offsets in characters."""

    side: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An evidence item of the judge.

    Attributes:
        number: From 1.
        kind: claim, fact, conclusion or term.
        upheld: Whether it counts in the answer's favour.
        text: The item's text.
        why: The reason, of the judge or the code.
        pages: The pages that a claim cites.
        added: Whether code added it because the judge omitted it.
        spans: Its places in the texts.
    """

    number: int
    kind: str
    upheld: bool
    text: str
    why: str
    pages: tuple[int, ...] = ()
    added: bool = False
    spans: tuple[Span, ...] = ()


def items_of(evidence: Any, pages: Iterable[str] = ()) -> list[Item]:
    """Return the items of a result's evidence; none if it has another form.

    Args:
        evidence: The result's evidence.
        pages: Names of the pages with texts.
    """
    if not isinstance(evidence, Mapping):
        return []
    names = {page_number(name): name for name in pages}
    listed = [("claim", one) for one in _list(evidence.get("claims"))]
    for key, kind in _ITEM_LISTS.items():
        listed += [(kind, one) for one in _list(evidence.get(key))]
    return [_item(number, kind, one, names) for number, (kind, one) in enumerate(listed[:MAX_ITEMS], start=1)]


def _item(number: int, kind: str, one: Mapping[str, Any], names: Mapping[Any, str]) -> Item:
    page = names.get(one.get("page"))
    sides = (("answer", "answer"), ("answer", "claim"), ("reference", "reference"), (page, "page"))
    spans = [_span(side, one.get(f"{key}_start"), one.get(f"{key}_end")) for side, key in sides if side]
    upheld = one.get("matched") if kind != "claim" else one.get("supported") and one.get("relevant")
    return Item(
        number=number,
        kind=kind,
        upheld=bool(upheld),
        text=str(one.get("item") or one.get("claim_span") or ""),
        why=str(one.get("justification") or ""),
        pages=tuple(page for page in one.get("pages") or () if isinstance(page, int)),
        added=one.get("added") is True,
        spans=tuple(span for span in spans if span is not None),
    )


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _span(side: str, start: Any, end: Any) -> Span | None:
    if type(start) is int and type(end) is int and 0 <= start < end:
        return Span(side, start, end)
    return None


def pieces(text: str, side: str, items: Sequence[Item]) -> list[tuple[str, list[int]]]:
    """Split a text where items start or end.

    Args:
        text: The text.
        side: Its side (see `Span`).
        items: All items.

    Returns:
        All pieces of the text in order, each with the numbers of its items.
    """
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for item in items:
        for span in item.spans:
            if span.side == side and span.start < len(text):
                begins.setdefault(span.start, []).append(item.number)
                ends.setdefault(min(span.end, len(text)), []).append(item.number)
    found: list[tuple[str, list[int]]] = []
    current: list[int] = []
    place = 0
    for cut in sorted({*begins, *ends, len(text)}):
        if cut > place:
            found.append((text[place:cut], sorted(set(current))))
            place = cut
        for number in ends.get(cut, ()):
            current.remove(number)
        current += begins.get(cut, ())
    return found
