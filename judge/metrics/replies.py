"""From a judge's reply to a checked object: bare JSON, JSON in a code fence, or JSON after prose.

An ambiguous or incomplete reply is rejected, and the judge is asked once more. Only frequent slips of one
meaning are mended here: trailing commas, line breaks in strings, arguments of a tool call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from judge.errors import InvalidVerdictError
from judge.text.normal import without_lone_surrogates
from judge.text.printable import problems_of

MAX_REPLY_CHARS = 1_000_000
MAX_DEPTH = 32
"""Limit of nesting of a verdict; no metric needs more than five."""
MAX_ITEMS = 200
"""Limit of claims, facts, conclusions, terms or other items in one list of a reply."""
_QUOTE_CHARS = 200
_MAX_DIGITS = 20

ModelT = TypeVar("ModelT", bound=BaseModel)

# Start of an object, not of braces around prose ("{about braces}").
_OPENING = re.compile(r"""\{\s*(?:["'}]|[A-Za-z_]\w*\s*:)""")
_TRAILING_COMMA = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|,(\s*+[}\]])', re.DOTALL)
_THOUGHTS = re.compile(r"\s*<(think|thinking|thought|reasoning)>")
_WHOLE = re.compile(r"\s*-?[0-9]{1,9}(?:\.0{1,9})?\s*", re.ASCII)


class Listed(BaseModel):
    """A part of a reply; undeclared keys are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)


def read_evidence(model: type[ModelT], reply: str, *, key: str) -> ModelT:
    try:
        return model.model_validate(with_whole_score(extract_object(reply, key=key)))
    except ValidationError as error:
        raise InvalidVerdictError("; ".join(problems_of(error, "reply", most=5))) from error


def extract_verdict(reply: str) -> dict[str, Any]:
    return extract_object(reply, key="score")


def extract_object(reply: str, *, key: str) -> dict[str, Any]:
    """Return the outermost JSON object with `key`, cleaned; a leading `<think>` section is ignored."""
    if len(reply) > MAX_REPLY_CHARS:
        raise InvalidVerdictError(
            f"the reply has {len(reply)} characters, at most {MAX_REPLY_CHARS} are read"
        )
    found: dict[str, Any] | None = None
    reply = without_lone_surrogates(reply)
    for parsed in _objects(_without_thoughts(reply)):
        candidate = _with_key(parsed, key)
        if candidate is None or candidate == found:
            continue
        if found is not None:
            raise InvalidVerdictError(
                f'the reply holds 2 JSON objects with "{key}" that differ; give one, and nothing around it'
            )
        found = candidate
    if found is None:
        raise InvalidVerdictError(f'the reply holds no JSON object with "{key}"; it says: {_quoted(reply)}')
    if "\\u" in reply or reply.count("{") + reply.count("[") > MAX_DEPTH:
        found = _cleaned(found, MAX_DEPTH)
    return found


def with_whole_score(verdict: dict[str, Any]) -> dict[str, Any]:
    whole = whole_number(verdict.get("score"))
    return verdict if whole is None else {**verdict, "score": whole}


def whole_number(score: object) -> int | None:
    """Return 5 for 5, 5.0, "5" and "5.0"; None for anything else."""
    if isinstance(score, str):
        return int(score.strip().partition(".")[0]) if _WHOLE.fullmatch(score) else None
    if isinstance(score, float):
        return int(score) if score.is_integer() else None
    return score if isinstance(score, int) and not isinstance(score, bool) else None


@lru_cache(maxsize=32)
def json_validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - slow, and few need it
    from referencing import Registry  # noqa: PLC0415

    try:
        parsed = json.loads(schema)
        Draft202012Validator.check_schema(parsed)
    except (SchemaError, RecursionError, ValueError) as error:
        raise ValueError(str(error).splitlines()[0][:300]) from error
    # With an explicit registry, references to other documents are not fetched.
    return Draft202012Validator(parsed, registry=Registry())


def unresolved_reference(schema: Any) -> str | None:
    """Return the first reference of a valid schema to what it does not define."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415

    root = DRAFT202012.create_resource(schema)
    found = [(root, REGISTRY.with_resource("", root).resolver())]
    for part, above in found:
        resolver = above.in_subresource(part)
        for key in ("$ref", "$dynamicRef"):
            reference = part.contents.get(key) if isinstance(part.contents, dict) else None
            if isinstance(reference, str):
                try:
                    resolver.lookup(reference)
                except Unresolvable:
                    return reference
        found += [(one, resolver) for one in part.subresources()]
    return None


def _without_thoughts(text: str) -> str:
    begin = _THOUGHTS.match(text)
    if begin is None:
        return text
    _, end, after = text.partition(f"</{begin[1]}>")
    return after if end else text


def _with_key(parsed: dict[str, Any], key: str) -> dict[str, Any] | None:
    """Return the object, or its arguments if it is a tool call."""
    if key in parsed:
        return parsed
    arguments = parsed.get("arguments", parsed.get("parameters"))
    return arguments if isinstance(arguments, dict) and key in arguments else None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    has_commas = True
    opening = _OPENING.search(text)
    while opening is not None:
        start = opening.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            if not has_commas:
                raise InvalidVerdictError(
                    f"the JSON object at character {start} cannot be read: {str(error)[:200]}; "
                    "give one complete object"
                ) from error
            has_commas = False
            text = text[:start] + _TRAILING_COMMA.sub(lambda match: match[1] or match[2], text[start:])
            continue
        yield value
        opening = _OPENING.search(text, end)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        for name, value in pairs:
            if built[name] != value or type(built[name]) is not type(value):
                raise InvalidVerdictError(
                    f'"{name[:40]}" is given twice in one object, with two values; give it once'
                )
    return built


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidVerdictError(f"{name} is not a JSON number; give a finite number")


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise InvalidVerdictError("a number in the verdict is too large; give a finite number")
    return number


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS or not -(2**63) <= int(digits) < 2**63:
        raise InvalidVerdictError("an integer in the verdict needs more than 64 bits; give a smaller one")
    return int(digits)


# `strict=False` allows line breaks in strings.
_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_float=_finite,
    parse_int=_whole,
    object_pairs_hook=_unique,
    strict=False,
)


def _cleaned(value: Any, depth: int) -> Any:
    if depth == 0:
        raise InvalidVerdictError(f"the verdict is nested deeper than {MAX_DEPTH} levels; make it flat")
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, list):
        return [_cleaned(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {without_lone_surrogates(name): _cleaned(item, depth - 1) for name, item in value.items()}
    return value


def _quoted(text: str) -> str:
    """Return the reply's end, where verdicts are, on one line."""
    line = " ".join(without_lone_surrogates(text[-2 * _QUOTE_CHARS :]).split())
    if not line:
        return "nothing"
    return f'"{line}"' if len(line) <= _QUOTE_CHARS else f'"…{line[-_QUOTE_CHARS:]}"'
