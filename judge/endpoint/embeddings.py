"""Parse the embeddings of two texts and compute their cosine. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import orjson

from judge.endpoint.completion import NOTHING, Completion, NoCompletionError, read_body, read_usage

PATH = "embeddings"
_LOOKED_AT = 4
"""Vectors of a reply that are parsed; two are requested."""


class _Vector(msgspec.Struct):
    embedding: msgspec.Raw
    index: int | None = None


class _Body(msgspec.Struct):
    data: list[_Vector]
    model: str | None = None
    usage: msgspec.Raw = NOTHING


_BODY = msgspec.json.Decoder(_Body)


def read_cosine(raw: bytes) -> Completion:
    """Parse a reply with two vectors; the text is their cosine, as `{"cosine": 0.83, "dimensions": 1536}`.

    Raises:
        NoCompletionError: It does not contain two non-zero vectors of the same length.
    """
    body = read_body(raw, _BODY)
    usage = read_usage(body.usage)
    vectors = [_numbers(one.embedding) for one in _in_order(body.data)[:_LOOKED_AT]]
    text = compared(vectors)
    if text is None:
        sizes = ", ".join(str(len(one)) for one in vectors)
        raise NoCompletionError(f"{len(body.data)} vectors of {sizes or 'no'} numbers", usage=usage)
    return Completion(text=text, refusal="", finish_reason="stop", model=body.model, usage=usage)


def _numbers(written: msgspec.Raw) -> list[float]:
    """Parse a vector; empty if invalid. orjson, because msgspec takes 13 µs for a number like 1e308."""
    try:
        found = orjson.loads(bytes(written))
    except orjson.JSONDecodeError:
        return []
    is_vector = isinstance(found, list) and {type(one) for one in found} <= {int, float}
    return found if is_vector else []


def compared(vectors: Sequence[Sequence[float]]) -> str | None:
    """Return the cosine of two vectors, as JSON; None unless there are two non-zero ones of equal length."""
    lengths = [math.hypot(*vector) for vector in vectors]
    if len(vectors) != 2 or not all(0 < length < math.inf for length in lengths):
        return None
    one, other = ([x / length for x in vector] for vector, length in zip(vectors, lengths, strict=True))
    if len(one) != len(other):
        return None
    cosine = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return orjson.dumps({"cosine": cosine, "dimensions": len(one)}).decode()


def _in_order(vectors: list[_Vector]) -> list[_Vector]:
    """Return the vectors in the order of their index, or as received if they have none."""
    numbered = {one.index: one for one in vectors if one.index is not None}
    return [numbered[place] for place in sorted(numbered)] if len(numbered) == len(vectors) else vectors
