"""Prompt packs: a metric's prompts in a file, in one of two dialects (docs/prompt-packs.md).

**Markdown**: optional front matter, then a system and a user part under headings; placeholders such as
`{{ item.output_text }}`. **YAML**: a `messages:` list; placeholders such as `{answer}`. The front matter, or
the keys beside `messages`, are `PackOptions`. Examples are sent before the event as turns.

An unknown placeholder is an error; all other braces are literal. Placeholders in an answer are not expanded.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from judge.chat import ChatMessage, Role
from judge.errors import EventError, InvalidVerdictError, PromptPackError
from judge.metric import Inputs
from judge.metrics.base import OffScaleError
from judge.metrics.packs.options import SAID, Example, PackOptions, schema_warnings
from judge.metrics.packs.templates import (
    EVENT,
    MARKDOWN,
    TEXTS,
    YAML,
    Dialect,
    Template,
    TextName,
    decode,
    fenced,
    read_template,
    split_front_matter,
    split_roles,
    written,
)
from judge.metrics.prompting import fence, short_hash
from judge.metrics.replies import extract_verdict, json_validator, with_whole_score
from judge.text.plain_yaml import PlainYamlError, read_yaml
from judge.text.printable import problems_of

MAX_PACK_BYTES = 1024 * 1024

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
}
_YAML_ENDINGS = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class PromptPack:
    """Prompts from a file; `uses`: the inputs of the templates, `warnings`: what was repaired or ignored."""

    messages: tuple[tuple[Role, Template], ...]
    uses: frozenset[TextName]
    options: PackOptions
    warnings: tuple[str, ...] = ()

    @property
    def score_range(self) -> tuple[float, float] | None:
        """Lowest and highest score; None if the settings must give them."""
        if self.options.result in (None, "number"):
            return self.options.score_range
        return self.options.scale((0, 1)).score_range

    @property
    def hash(self) -> str:
        """Hash of the templates, 12 hexadecimal digits; equal for equal prompts in both dialects."""
        parts: list[Any] = [[role, [[*piece] for piece in template]] for role, template in self.messages]
        examples = [[turn.role, turn.content] for turn in self._example_turns()]
        if examples:
            parts.append(examples)
        if any((EVENT, True) in template for _, template in self.messages):
            parts.append([EVENT, *self.options.event])
        return short_hash(json.dumps(parts, ensure_ascii=True, separators=(",", ":")))

    def render(self, inputs: Inputs, sections: Mapping[str, str] | None = None) -> tuple[ChatMessage, ...]:
        """Return the messages for one event; `sections` replace the texts of the option `event`."""
        event = fence(sections) if sections is not None else fenced(inputs, self.options.event)
        turns = [ChatMessage(role, _filled(template, inputs, event)) for role, template in self.messages]
        # After the instructions, so that endpoints can cache both as prefix.
        first = next(place for place, turn in enumerate(turns) if turn.role != "system")
        return (*turns[:first], *self._example_turns(), *turns[first:])

    def checked(self, verdict: dict[str, Any]) -> dict[str, Any]:
        """Return the verdict if it matches the schema, which endpoints may not enforce."""
        if self.options.response_schema is None:
            return verdict
        from referencing.exceptions import Unresolvable  # noqa: PLC0415 - few need it

        validator = json_validator(json.dumps(self.options.response_schema.schema))
        try:
            violations = [
                f"{error.json_path[2:] or 'the verdict'}: {error.message[:200]}"
                for error in islice(validator.iter_errors(with_whole_score(verdict)), 3)
            ]
        except (Unresolvable, RecursionError) as failure:
            problem = f"response_schema cannot be applied: {str(failure)[:300]}; correct its $ref"
            raise EventError("metric_error", problem) from failure
        if violations:
            raise InvalidVerdictError(f"the verdict violates the response schema: {'; '.join(violations)}")
        return verdict

    def _example_turns(self) -> Iterator[ChatMessage]:
        template = next((template for role, template in reversed(self.messages) if role == "user"), ())
        for example in self.options.examples:
            event = fenced(example.inputs, self.options.event)
            yield ChatMessage("user", _filled(template, example.inputs, event))
            yield ChatMessage("assistant", example.reply)


def _filled(template: Template, inputs: Inputs, event: str) -> str:
    # Each text once per name, however often a template uses it.
    texts = {
        name: event if name == EVENT else written(inputs, name) for name, is_name in {*template} if is_name
    }
    return "".join(texts[text] if is_name else text for text, is_name in template)


def load_pack(path: Path) -> PromptPack:
    """Load a prompt pack: `.yaml`, `.yml` or `.json` is the YAML dialect; anything else is Markdown."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_PACK_BYTES + 1)
    except OSError as error:
        raise PromptPackError(f"prompt pack {path} cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_PACK_BYTES:
        raise PromptPackError(f"prompt pack {path} must be at most {MAX_PACK_BYTES} bytes; shorten it")
    is_yaml = path.suffix.lower() in _YAML_ENDINGS
    return parse_pack(raw, dialect="yaml" if is_yaml else "markdown", origin=str(path))


def parse_pack(raw: bytes, *, dialect: Literal["markdown", "yaml"], origin: str) -> PromptPack:
    """Parse a prompt pack in UTF-8, UTF-16 with a mark, or else Windows-1252; mojibake is repaired."""
    try:
        text, warnings = decode(raw)
        parts, given = _yaml_parts(text) if dialect == "yaml" else _markdown_parts(text, warnings)
        return _pack(parts, YAML if dialect == "yaml" else MARKDOWN, given, warnings)
    except ValidationError as error:
        problems = "; ".join(problems_of(error, "it", most=5))
        raise PromptPackError(f"prompt pack {origin}: {problems}") from error
    except PromptPackError as error:
        raise PromptPackError(f"prompt pack {origin}: {error}") from error.__cause__


def _pack(
    parts: list[tuple[Role, str]], dialect: Dialect, given: dict[str, Any], warnings: list[str]
) -> PromptPack:
    for key in (one for one in given if one not in PackOptions.model_fields):
        close = difflib.get_close_matches(str(key), PackOptions.model_fields, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(PackOptions.model_fields)}"
        warnings.append(f"{key!r} is ignored; {hint}")
    options = PackOptions.model_validate(given)
    warnings += schema_warnings(options.response_schema)
    messages = tuple((role, read_template(text, dialect, warnings)) for role, text in parts)
    uses = frozenset(name for _, template in messages for name, is_name in template if is_name)
    if EVENT in uses:
        uses = uses - {EVENT} | set(options.event)
    elif "event" in options.model_fields_set:
        raise PromptPackError(f"event is unused: put {dialect.spelling(EVENT)} where its texts belong")
    if not uses:
        raise PromptPackError(
            f"it uses none of the placeholders ({dialect.listed}); "
            f"put at least {dialect.spelling('answer')} into it"
        )
    if not uses & ({"answer"} if options.is_pair else {"answer", "messages"}):
        raise PromptPackError(
            f"it never shows the answer to judge; put {dialect.spelling('answer')} where the answer belongs"
        )
    if options.is_pair and "other_answer" not in uses:
        raise PromptPackError(
            f"result: pairwise compares two answers; put {dialect.spelling('other_answer')} "
            "where the second belongs"
        )
    if not any(role == "user" for role, _ in messages):
        raise PromptPackError("it has no user part for the answer to judge")
    pack = PromptPack(messages, uses, options, tuple(warnings))
    for number, example in enumerate(options.examples, 1):
        _check_example(pack, number, example)
    return pack


def _check_example(pack: PromptPack, number: int, example: Example) -> None:
    missing, unused = pack.uses - example.given, example.given - pack.uses
    if missing:
        raise PromptPackError(f"example {number} lacks {_listed(missing)}, which the templates use")
    if unused:
        raise PromptPackError(
            f"example {number}: {_listed(unused)} is not used by the templates; "
            f"it takes {_listed(pack.uses)} and reply"
        )
    try:
        verdict = pack.checked(extract_verdict(example.reply))
        if pack.options.is_pair:
            SAID.value(verdict["score"])
        elif pack.score_range is not None:
            pack.options.scale(pack.score_range).value(verdict["score"])
    except (EventError, OffScaleError) as error:
        problem = f'"score" must be {error}' if isinstance(error, OffScaleError) else error
        raise PromptPackError(
            f'example {number}: reply must be what the judge should say, with a "score", as in '
            f'{{"score": 4}}: {problem}'
        ) from error


def _listed(names: frozenset[TextName]) -> str:
    return ", ".join(
        sorted(names, key=lambda name: (TEXTS.index(name) if name in TEXTS else len(TEXTS), name))
    )


def _markdown_parts(text: str, warnings: list[str]) -> tuple[list[tuple[Role, str]], dict[str, Any]]:
    front, body = split_front_matter(text)
    given = {} if front is None else _load_yaml(front, "the front matter")
    if not isinstance(given, dict):
        raise PromptPackError("the front matter must be a YAML mapping such as `score_range: [1, 5]`")
    return split_roles(body, warnings), given


def _yaml_parts(text: str) -> tuple[list[tuple[Role, str]], dict[str, Any]]:
    loaded = _load_yaml(text, "it")
    given: dict[str, Any] = {"messages": loaded} if isinstance(loaded, list) else loaded
    if not isinstance(given, dict) or not isinstance(given.get("messages"), list) or not given["messages"]:
        raise PromptPackError("it must have a `messages:` list of mappings with role and content")
    parts = [_yaml_message(number, message) for number, message in enumerate(given["messages"], 1)]
    return parts, {key: value for key, value in given.items() if key != "messages"}


def _yaml_message(number: int, message: Any) -> tuple[Role, str]:
    if not isinstance(message, dict):
        raise PromptPackError(f"message {number} must be a mapping with `role` and `content`")
    named = message.get("role")
    role = _ROLES.get(named.lower()) if isinstance(named, str) else None
    if role is None:
        raise PromptPackError(
            f"message {number} must have a role of system, user or assistant, got {named!r}"
        )
    content = message.get("content")
    if not isinstance(content, str) or not content.strip():
        raise PromptPackError(
            f"message {number} must have a text as its content; put it in quotes or after `content: |`, "
            "because YAML reads bare braces as a mapping"
        )
    return role, content


def _load_yaml(text: str, what: str) -> Any:
    try:
        return read_yaml(text)
    except PlainYamlError as error:
        raise PromptPackError(f"{what} {error}") from error
