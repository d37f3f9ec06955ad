"""The templates of a prompt pack: encoding, front matter, parts by role, placeholders, and their texts."""

from __future__ import annotations

import codecs
import difflib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from judge.chat import Role
from judge.errors import PromptPackError
from judge.metric import Inputs
from judge.metrics.prompting import fence
from judge.text.normal import is_blank, neutralize
from schemas import QAEvent

TEXTS: Final = ("question", "answer", "reference", "context", "messages", "tool_calls", "other_answer")
"""Named inputs; others are `fields.<name>` and `labels.<name>`."""
NAMED: Final = re.compile(r"(?:fields|labels)\.[\w.-]{1,64}", re.ASCII)
EVENT: Final = "event"
"""Placeholder of several texts in a fence that none of them can close."""

TextName = str
"""One of `TEXTS`, `fields.<name>` or `labels.<name>`."""

to_json: Final[Callable[[Any], str]] = json.JSONEncoder(ensure_ascii=False, indent=1).encode


Template = tuple[tuple[str, bool], ...]
"""Its pieces; true: an input's name instead of a text."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Syntax of placeholders: `pattern` finds them; its last group is the name."""

    pattern: re.Pattern[str]
    names: Mapping[str, TextName]
    form: str
    prefix: str = ""

    def spelling(self, name: TextName) -> str:
        if NAMED.fullmatch(name):
            return self.form % f"{self.prefix}{name}"
        return self.form % next(written for written, meant in self.names.items() if meant == name)

    @property
    def listed(self) -> str:
        names = (*self.names, f"{self.prefix}fields.NAME", f"{self.prefix}labels.NAME")
        return ", ".join(self.form % name for name in names)

    def meant(self, written: str) -> TextName:
        own = written.removeprefix(self.prefix)
        if written.startswith(self.prefix) and NAMED.fullmatch(own):
            return own
        if written in self.names:
            return self.names[written]
        close = difflib.get_close_matches(written, self.names, n=1)
        hint = f" (did you mean {self.form % close[0]}?)" if close else ""
        shield = f"; double braces that are meant literally: {{{{{written[:60]}}}}}" if self is YAML else ""
        raise PromptPackError(
            f"the placeholder {self.form % written[:60]} is unknown{hint}; known: {self.listed}{shield}"
        )


MARKDOWN = Dialect(
    # Matches any name, so that unknown ones are reported.
    pattern=re.compile(r"\{\{[ \t]*((?:item|sample)\.[^{}\n]{0,100}?|[A-Za-z_][\w.]*)[ \t]*\}\}"),
    names={
        "item.input": "question",
        "item.output_text": "answer",
        **{f"item.{name}": name for name in TEXTS[2:]},
        "sample.output_text": "answer",
        EVENT: EVENT,
    },
    form="{{ %s }}",
    prefix="item.",
)
YAML = Dialect(
    # Doubled braces escape a name. An unknown name next to a word character or LaTeX sign is no placeholder.
    pattern=re.compile(
        r"\{\{[ \t]*(?P<shielded>[A-Za-z_]\w*)[ \t]*\}\}"
        r"|\{\{[ \t]*((?:item|sample)\.[\w.]+)[ \t]*\}\}"
        r"|\{[ \t]*(question|answer|reference|context|messages|tool_calls|other_answer|event|(?:fields|labels)\.[\w.-]{1,64})[ \t]*\}"  # noqa: E501
        r"|(?<![\w\\^}])\{([A-Za-z_]\w*)\}"
    ),
    names={name: name for name in (*TEXTS, EVENT)},
    form="{%s}",
)

_FENCE = re.compile(r"[ ]{0,3}(```+|~~~+)")
_ROLE_LINE = re.compile(
    r"[ ]{0,3}(?:(?P<heading>\#{1,6})[ \t]*|(?P<strong>\*\*|__))?"
    r"(?P<role>system|user)(?:[ \t]+(?:prompt|message|template|part))?[ \t]*(?P<colon>:)?[ \t]*(?:\*\*|__|\#+)?(?P<late>:)?[ \t]*",  # noqa: E501
    re.IGNORECASE,
)
_TITLE = re.compile(r"\s*(?:#{1,6}[^\n]*)?\s*")


def read_template(text: str, dialect: Dialect, warnings: list[str]) -> Template:
    """Split a template into pieces. Only known names become inputs; all other braces stay literal."""
    pieces: list[tuple[str, bool]] = []
    literal, end = "", 0
    for match in dialect.pattern.finditer(text):
        literal += text[end : match.start()]
        end = match.end()
        written = match[match.lastindex or 0]
        if match.lastgroup is None:
            pieces += [(literal, False), (dialect.meant(written), True)]
            literal = ""
            continue
        literal += f"{{{written}}}"
        if written in dialect.names:
            warnings.append(
                f"{match[0]} is not filled in, because its braces are doubled; write "
                f"{match[0][1:-1]} to fill it in"
            )
    return tuple(piece for piece in (*pieces, (literal + text[end:], False)) if piece[0])


def split_front_matter(text: str) -> tuple[str | None, str]:
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return None, text
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in {"---", "..."}:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    raise PromptPackError("the front matter that begins in line 1 has no end; close it with a line ---")


def split_roles(text: str, warnings: list[str]) -> list[tuple[Role, str]]:
    before: list[str] = []
    parts: dict[Role, list[str]] = {}
    current = before
    for line, fenced in _with_fences(text):
        match = None if fenced else _ROLE_LINE.fullmatch(line)
        if match is None or not (match["heading"] or match["strong"] or match["colon"] or match["late"]):
            current.append(line)
            continue
        role: Role = "system" if match["role"].lower() == "system" else "user"
        if role in parts:
            raise PromptPackError(f"it has two {role} parts; keep one line that says {line.strip()!r}")
        current = parts[role] = []
    if not parts:
        return [("user", text.strip())]
    if not _TITLE.fullmatch("\n".join(before)):
        warnings.append("text before the first System or User line is not sent")
    for role, lines in parts.items():
        if not "".join(lines).strip():
            raise PromptPackError(f"its {role} part is empty; write one or leave its line out")
    # Instructions first, in any order of the file.
    return [(role, "\n".join(parts[role]).strip()) for role in sorted(parts)]


def _with_fences(text: str) -> Iterator[tuple[str, bool]]:
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        yield line, bool(fence or mark)
        if mark is None:
            continue
        if not fence:
            fence = mark[1]
        elif mark[1].startswith(fence):
            fence = ""


def decode(raw: bytes) -> tuple[str, list[str]]:
    r"""Return a file's text with repaired mojibake and line ends of `\n`, and a warning for each repair."""
    warnings: list[str] = []
    is_utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = raw.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        warnings.append(
            f"it is not UTF-8 (byte {error.start}) and was read as Windows-1252; save the file as UTF-8"
        )
        text = raw.decode("cp1252", "replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise PromptPackError("it contains NUL characters, so it is no text file; save it as UTF-8")
    import ftfy  # noqa: PLC0415 - a twentieth of a worker's start, and most have no pack

    # Line by line, because a repair applies to a whole text or not at all.
    lines = text.split("\n")
    repaired = [ftfy.fix_encoding(line) for line in lines]
    changed = [number for number, (old, new) in enumerate(zip(lines, repaired, strict=True), 1) if old != new]
    if changed:
        warnings.append(
            f"text saved with a wrong encoding was repaired in {len(changed)} lines; "
            f"line {changed[0]} became {repaired[changed[0] - 1].strip()[:80]!r}; save the file as UTF-8"
        )
    return "\n".join(repaired), warnings


def select(event: QAEvent, uses: Collection[TextName]) -> Inputs:
    fields = {}
    for name in filter(NAMED.fullmatch, sorted(uses)):
        kind, _, own = name.partition(".")
        texts: Mapping[str, str] = event.labels if kind == "labels" else event.fields or {}
        fields[name.removeprefix("fields.")] = texts.get(own, "")  # labels keep their prefix
    return replace(Inputs.of(event, {*uses, "answer"} - {"fields"}), fields=fields or None)


def texts_of(inputs: Inputs, name: TextName) -> list[str]:
    if name not in TEXTS:
        return [(inputs.fields or {}).get(name.removeprefix("fields."), "")]
    given = getattr(inputs, name) or ""
    match given:
        case str():
            return [given]
        case Mapping():
            return [*given.values()]
    return [text for one in given for key, text in one if key != "role"]


def is_given(inputs: Inputs, name: TextName) -> bool:
    """An empty list of tool calls counts as given."""
    if name == "tool_calls":
        return inputs.tool_calls is not None
    return not all(map(is_blank, texts_of(inputs, name)))


def written(inputs: Inputs, name: TextName) -> str:
    """Return an input for a prompt: several texts as JSON, so that none can imitate another page or turn."""
    if name == "context":
        return render_context(inputs.context or {})
    if name in {"messages", "tool_calls"}:
        turns = getattr(inputs, name) or ()
        return to_json([{key: neutralize(text) for key, text in turn} for turn in turns])
    return neutralize(texts_of(inputs, name)[0])


def fenced(inputs: Inputs, names: Collection[TextName]) -> str:
    return fence({name.replace(".", "_"): written(inputs, name) for name in names})


def render_context(context: Mapping[str, str]) -> str:
    return to_json({neutralize(name): neutralize(text) for name, text in context.items()})
