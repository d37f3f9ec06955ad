"""Prompt packs: a metric's prompts in a file.

There are two dialects.

**Markdown**: optional front matter between two `---` lines, then a system and a user part, each under
a heading line (`## System`, `# User prompt`, `**System**`, `User:`; not in a code fence). A file without such
a line is only a user part. Placeholders: `{{ item.input }}` (the question), `{{ item.output_text }}` (the
answer; `{{ sample.output_text }}` is the same), `{{ item.reference }}`, `{{ item.context }}`,
`{{ item.messages }}`, `{{ item.tool_calls }}`, `{{ item.other_answer }}`, `{{ item.fields.NAME }}`,
`{{ item.labels.NAME }}`.

**YAML**: a `messages:` list of `role` and `content`. Placeholders: `{question}`, `{answer}`, `{reference}`,
`{context}`, `{messages}`, `{tool_calls}`, `{other_answer}`, `{fields.NAME}`, `{labels.NAME}`.

The front matter, or the keys beside `messages`, may contain `name`, `score_range` (`[1, 5]`),
`response_schema` (a JSON Schema of the reply) and `examples` (a list of the texts that the templates use,
each with its `reply`). Examples are sent before the event as turns: the last user template filled with the
example's texts, then its reply.

An unknown placeholder is an error; all other braces are literal, and doubled
braces escape a name in YAML (`{{name}}` is sent as `{name}`). All texts are substituted in one pass, so
placeholders in an answer are not expanded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from judge.chat import ChatMessage, ResponseSchema, Role
from judge.errors import PromptPackError
from judge.metric import Inputs
from judge.metrics.packs.conformity import Conformity
from judge.metrics.packs.encoding import decode
from judge.metrics.packs.examples import Example, read_examples
from judge.metrics.packs.inputs import written
from judge.metrics.packs.kinds import Choice
from judge.metrics.packs.options import PackOptions, read_options
from judge.metrics.packs.pairs import as_meant
from judge.metrics.packs.quotes import QuotedText
from judge.metrics.packs.templates import (
    MARKDOWN,
    YAML,
    Dialect,
    InputName,
    Template,
    read_template,
    split_front_matter,
    split_roles,
)
from judge.metrics.prompting import short_hash
from judge.metrics.replies.reply import extract_verdict
from judge.metrics.replies.structured import read_score
from judge.text.plain_yaml import PlainYamlError, read_yaml

MAX_PACK_BYTES = 1024 * 1024
"""Limit of a pack's file."""

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
    """Prompts from a file.

    `uses` names the inputs of the templates; `warnings` lists what was repaired or ignored.
    """

    name: str | None
    messages: tuple[tuple[Role, Template], ...]
    uses: frozenset[InputName]
    score_range: tuple[float, float] | None = None
    response_schema: ResponseSchema | None = None
    examples: tuple[Example, ...] = ()
    warnings: tuple[str, ...] = ()
    choice: Choice | None = None
    """What the judge chooses from; None: it gives a number."""
    is_number: bool = False
    """Whether that number may lie between the whole ones."""
    is_pair: bool = False
    """Whether it compares two answers; `choice` then has the published values."""
    quotes: Mapping[str, QuotedText] = field(default_factory=dict)
    """Keys of the verdict whose values must be in a text."""
    conformity: Conformity | None = None
    """Validates replies by the response schema, if any."""

    def check(self, reply: str) -> None:
        """Validate a judge's reply by the response schema, which endpoints may not enforce.

        Raises:
            InvalidVerdictError: It has no single verdict, or violates the schema.
        """
        if self.conformity is not None:
            self.conformity.check(reply)

    @property
    def hash(self) -> str:
        """Hash of the templates, 12 hexadecimal digits; equal for equal prompts in both dialects."""
        parts = [
            [role, [[piece.text, piece.is_input] for piece in template]] for role, template in self.messages
        ]
        shown: list[Any] = [[message.role, message.content] for message in self._example_turns()]
        return short_hash(
            json.dumps([*parts, shown] if shown else parts, ensure_ascii=True, separators=(",", ":"))
        )

    def render(self, inputs: Inputs) -> tuple[ChatMessage, ...]:
        """Return the messages for one event, with neutralized texts; missing ones are empty."""
        turns = [ChatMessage(role, self._filled(template, inputs)) for role, template in self.messages]
        if not self.examples:
            return tuple(turns)
        # After the instructions, so that endpoints can cache both as prefix.
        first = next(place for place, turn in enumerate(turns) if turn.role != "system")
        return (*turns[:first], *self._example_turns(), *turns[first:])

    def _example_turns(self) -> Iterator[ChatMessage]:
        template = next((template for role, template in reversed(self.messages) if role == "user"), ())
        for example in self.examples:
            yield ChatMessage("user", self._filled(template, example.inputs))
            yield ChatMessage("assistant", example.reply)

    def _filled(self, template: Template, inputs: Inputs) -> str:
        # Each text once per name, however often a template uses it.
        texts = {piece.name: written(inputs, piece.name) for piece in template if piece.name is not None}
        return "".join(piece.text if piece.name is None else texts[piece.name] for piece in template)


def load_pack(path: Path) -> PromptPack:
    """Load a prompt pack from a file.

    Args:
        path: `.yaml`, `.yml` or `.json` for the YAML dialect; anything else is Markdown.

    Raises:
        PromptPackError: It cannot be read, or is invalid.
    """
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_PACK_BYTES + 1)
    except OSError as error:
        raise PromptPackError(f"prompt pack {path} cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_PACK_BYTES:
        raise PromptPackError(f"prompt pack {path} must be at most {MAX_PACK_BYTES} bytes; shorten it")
    dialect: Literal["markdown", "yaml"] = "yaml" if path.suffix.lower() in _YAML_ENDINGS else "markdown"
    return parse_pack(raw, dialect=dialect, origin=str(path))


def parse_pack(raw: bytes, *, dialect: Literal["markdown", "yaml"], origin: str) -> PromptPack:
    """Parse a prompt pack from bytes; see `load_pack`.

    Args:
        raw: The file: UTF-8 with or without a byte order mark, UTF-16 with one, else read as Windows-1252
            with a warning. Mojibake ("â€™") is repaired with a warning.
        dialect: The dialect.
        origin: The pack's name in messages.

    Raises:
        PromptPackError: It is invalid.
    """
    try:
        text, warnings = decode(raw)
        if dialect == "yaml":
            parts, given = _yaml_parts(text)
            rules = YAML
        else:
            parts, given = _markdown_parts(text, warnings)
            rules = MARKDOWN
        options = read_options(given, warnings)
        return _pack(parts, rules, options, warnings)
    except PromptPackError as error:
        raise PromptPackError(f"prompt pack {origin}: {error}") from error.__cause__


def _pack(
    parts: list[tuple[Role, str]], dialect: Dialect, options: PackOptions, warnings: list[str]
) -> PromptPack:
    messages = tuple((role, read_template(text, dialect, warnings)) for role, text in parts)
    uses = frozenset(piece.name for _, template in messages for piece in template if piece.name is not None)
    if not uses:
        raise PromptPackError(f"it uses none of the placeholders ({dialect.listed}); {dialect.hint(parts)}")
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
    conformity = None if options.response_schema is None else Conformity(options.response_schema)
    return PromptPack(
        name=options.name,
        messages=messages,
        uses=uses,
        score_range=options.score_range,
        choice=options.choice,
        is_number=options.is_number,
        is_pair=options.is_pair,
        quotes=options.quotes,
        response_schema=options.response_schema,
        examples=read_examples(options.examples, uses=uses, check=partial(_check, options, conformity)),
        warnings=tuple(warnings),
        conformity=conformity,
    )


def _check(options: PackOptions, conformity: Conformity | None, reply: str) -> None:
    """Raise InvalidVerdictError for a reply that the metric would reject."""
    if options.is_pair:
        as_meant(extract_verdict(reply), swapped=False)
    elif options.choice is not None:
        options.choice.number(extract_verdict(reply)["score"])
    elif options.score_range is not None:
        read_score(reply, options.score_range, is_number=options.is_number)
    else:
        extract_verdict(reply)
    if conformity is not None:
        conformity.check(reply)


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
