"""Strict JSON Schemas of replies in evidence mode.

They use only keywords that all known implementations of strict structured output accept: all keys required,
no others allowed, no lengths, no ranges. Evidence precedes the decision, because a model writes the keys in
this order.
"""

from __future__ import annotations

from typing import Any

from judge.chat import ResponseSchema


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_STRING = {"type": "string"}
_STRING_OR_NULL = {"type": ["string", "null"]}
_BOOLEAN = {"type": "boolean"}
_INTEGER = {"type": "integer"}

_ITEMS = _array(
    _object(
        item=_STRING,
        reference_span=_STRING,
        answer_span=_STRING_OR_NULL,
        justification=_STRING,
        matched=_BOOLEAN,
    )
)

COVERAGE_SCHEMA = ResponseSchema(
    name="coverage_evidence",
    schema=_object(
        facts=_ITEMS,
        conclusions=_ITEMS,
        terms=_ITEMS,
        organization=_object(justification=_STRING, similar=_BOOLEAN),
    ),
)
"""Facts, conclusions and terms of the reference, each with its spans and whether it is matched."""

RELEVANCE_SCHEMA = ResponseSchema(
    name="relevance_evidence",
    schema=_object(
        claims=_array(
            _object(
                claim_span=_STRING,
                pages=_array(_INTEGER),
                page={"type": ["integer", "null"]},
                page_span=_STRING_OR_NULL,
                justification=_STRING,
                supported=_BOOLEAN,
                relevant=_BOOLEAN,
            )
        ),
        justification=_STRING,
        score=_INTEGER,
    ),
)
"""The claims of the answer, each with its supporting span, and the rubric score."""
