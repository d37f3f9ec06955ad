"""The contents of a verdict's page and its line in the list, as plain values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from judge.text.tags import page_number
from streams.store.views.explorer.highlighting import Item, items_of, pieces


def line_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verdict's line in the list.

    Args:
        row: A row of `streams.store.verdicts.page`.
    """
    return {name: value for name, value in row.items() if name not in {"result", "texts"}}


def verdict_of(found: Mapping[str, Any], links: Links) -> dict[str, Any]:
    """Return the contents of a verdict's page.

    Args:
        found: A verdict from `streams.store.verdicts.one`.
        links: URL templates of traces and records.
    """
    result, texts = found["result"], found["texts"]
    context = (texts or {}).get("context") or {}
    items = items_of(result.get("evidence"), context)
    return line_of(found) | {
        "result": {name: value for name, value in result.items() if name != "evidence"},
        "raw": result,
        "people": found["people"],
        "record": found["record"],
        "links": links.of(result, found["record"]),
        "items": [_shown(item) for item in items],
        "organization": (result.get("evidence") or {}).get("organization")
        if isinstance(result.get("evidence"), Mapping)
        else None,
        "texts": None if texts is None else _texts(texts, context, items),
    }


def _shown(item: Item) -> dict[str, Any]:
    return {name: value for name, value in asdict(item).items() if name != "spans"}


def _texts(texts: Mapping[str, Any], context: Mapping[str, str], items: list[Item]) -> dict[str, Any]:
    reference, further = texts.get("reference"), texts.get("further") or {}
    order = sorted(context, key=lambda name: (page_number(name) is None, page_number(name) or 0, name))
    return {
        "question": texts["question"],
        "answer": pieces(texts["answer"], "answer", items),
        "reference": None if reference is None else pieces(reference, "reference", items),
        "pages": [
            *({"name": name, "pieces": pieces(context[name], name, items)} for name in order),
            *({"name": name, "pieces": pieces(text, name, [])} for name, text in further.items()),
        ],
        "excerpt": bool(texts.get("excerpt")),
    }


class Links:
    """URLs of traces and records, from templates.

    Args:
        trace_url: Template with {trace_id} and {span_id}; None: no link.
        record_url: Template with {topic}, {partition} and {offset}; None: no link.
        scores_topic: The topic of results.
    """

    def __init__(self, trace_url: str | None, record_url: str | None, scores_topic: str) -> None:
        self._trace_url = trace_url
        self._record_url = record_url
        self._scores = scores_topic

    def of(self, result: Mapping[str, Any], record: Mapping[str, int]) -> dict[str, Any]:
        """Return the URLs of a result's trace, its record and its event's record; each may be None."""
        trace = None
        if self._trace_url is not None and result.get("trace_id"):
            trace = _filled(self._trace_url, trace_id=result["trace_id"], span_id=result.get("span_id") or "")
        source = result["source"]
        return {
            "trace": trace,
            "record": self._record(self._scores, record["partition"], record["offset"]),
            "event": self._record(source["topic"], source["partition"], source["offset"]),
            "topic": self._scores,
        }

    def _record(self, topic: str, partition: int, offset: int) -> str | None:
        if self._record_url is None:
            return None
        return _filled(self._record_url, topic=topic, partition=str(partition), offset=str(offset))


def _filled(template: str, **values: str) -> str:
    """Insert escaped values, so that an event cannot change other parts of the URL."""
    for name, value in values.items():
        template = template.replace("{" + name + "}", quote(value, safe=""))
    return template
