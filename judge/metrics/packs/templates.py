"""Read the text of a prompt pack: encoding, front matter, parts by role, and placeholders in two dialects."""

from __future__ import annotations

import codecs
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import ftfy

from judge.chat import Role
from judge.errors import PromptPackError
from judge.metrics.packs.texts import EVENT, NAMED, TEXTS, TextName


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a template: literal text, or the name of an input."""

    text: str
    name: TextName | None = None

    @property
    def is_input(self) -> bool:
        """Whether the piece is an input."""
        return self.name is not None


Template = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """Syntax of placeholders: `pattern` finds them; its last group is the name."""

    pattern: re.Pattern[str]
    names: Mapping[str, TextName]
    form: str
    prefix: str = ""
    """Prefix of a field's or label's name."""

    def spelling(self, name: TextName) -> str:
        """Return the placeholder of an input."""
        if NAMED.fullmatch(name):
            return self.form % f"{self.prefix}{name}"
        return self.form % next(written for written, meant in self.names.items() if meant == name)

    @property
    def listed(self) -> str:
        """Return all placeholders, for messages."""
        names = (*self.names, f"{self.prefix}fields.NAME", f"{self.prefix}labels.NAME")
        return ", ".join(self.form % name for name in names)

    def hint(self, parts: Iterable[tuple[Role, str]]) -> str:
        """Return the remedy for a file without placeholders."""
        text = "\n".join(part for _, part in parts)
        found = None if self is YAML else re.search(r"\{(question|answer|reference|context)\}", text)
        if found is None:
            return f"put at least {self.spelling('answer')} into it"
        return f"{found[0]} is the other dialect's: write {self.spelling(YAML.names[found[1]])} here"

    def meant(self, written: str) -> TextName:
        """Return the input of a placeholder; an unknown name is a PromptPackError with a hint."""
        name = self.names.get(written)
        if name is not None:
            return name
        own = written.removeprefix(self.prefix)
        if written.startswith(self.prefix) and NAMED.fullmatch(own):
            return own
        other = YAML if self is MARKDOWN else MARKDOWN
        meant = other.names.get(written) or written.removeprefix(other.prefix)
        if written in other.names or NAMED.fullmatch(meant):
            hint = f", but the other dialect's: write {self.spelling(meant)} here"
        else:
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
        "item.reference": "reference",
        "item.context": "context",
        "item.messages": "messages",
        "item.tool_calls": "tool_calls",
        "item.other_answer": "other_answer",
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
    """Split a template into pieces. Only known names become inputs; all other braces stay literal.

    Raises:
        PromptPackError: A placeholder's name is unknown.
    """
    pieces: list[Piece] = []
    end = 0
    for match in dialect.pattern.finditer(text):
        pieces.append(Piece(text[end : match.start()]))
        written = match[match.lastindex or 0]
        if match.lastgroup is None:
            name = dialect.meant(written)
            pieces.append(Piece(name, name))
        else:
            pieces.append(Piece(f"{{{written}}}"))
            if written in dialect.names:
                warnings.append(
                    f"{match[0]} is not filled in, because its braces are doubled; write "
                    f"{match[0][1:-1]} to fill it in"
                )
        end = match.end()
    pieces.append(Piece(text[end:]))
    return _joined(pieces)


def _joined(pieces: Iterable[Piece]) -> Template:
    """Merge neighbouring literal pieces, so that equal prompts have equal pieces."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and not (piece.is_input or joined[-1].is_input):
            joined[-1] = Piece(joined[-1].text + piece.text)
        elif piece.is_input or piece.text:
            joined.append(piece)
    return tuple(joined)


def split_front_matter(text: str) -> tuple[str | None, str]:
    """Split a Markdown file into its front matter, if any, and the rest."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return None, text
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in {"---", "..."}:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    raise PromptPackError("the front matter that begins in line 1 has no end; close it with a line ---")


def split_roles(text: str, warnings: list[str]) -> list[tuple[Role, str]]:
    """Split a Markdown file at the lines that say `System` or `User`.

    Raises:
        PromptPackError: A part is duplicated or empty.
    """
    before: list[str] = []
    parts: dict[Role, list[str]] = {}
    current = before
    for line, fenced in _with_fences(text):
        role = None if fenced else _role(line)
        if role is None:
            current.append(line)
        elif role in parts:
            raise PromptPackError(f"it has two {role} parts; keep one line that says {line.strip()!r}")
        else:
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
    """Yield each line, and whether it belongs to a code fence."""
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


def _role(line: str) -> Role | None:
    match = _ROLE_LINE.fullmatch(line)
    if match is None or not (match["heading"] or match["strong"] or match["colon"] or match["late"]):
        return None
    return "system" if match["role"].lower() == "system" else "user"


_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode(raw: bytes) -> tuple[str, list[str]]:
    r"""Return a file's text with repaired mojibake and line ends of `\n`, and a warning for each repair."""
    warnings: list[str] = []
    text = _decoded(raw, warnings).replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise PromptPackError("it contains NUL characters, so it is no text file; save it as UTF-8")
    # Line by line, because a repair applies to a whole text or not at all.
    lines = text.split("\n")
    repaired = [ftfy.fix_encoding(line) for line in lines]
    changed = [number for number, (old, new) in enumerate(zip(lines, repaired, strict=True), 1) if old != new]
    if changed:
        old, new = lines[changed[0] - 1].strip(), repaired[changed[0] - 1].strip()
        warnings.append(
            f"text saved with a wrong encoding was repaired in {len(changed)} lines; "
            f"line {changed[0]} {_around(old, new)!r} became {_around(new, old)!r}; save the file as UTF-8"
        )
    return "\n".join(repaired), warnings


def _decoded(raw: bytes, warnings: list[str]) -> str:
    try:
        if raw.startswith(_UTF16_MARKS):
            return raw.decode("utf-16")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        warnings.append(
            f"it is not UTF-8 (byte {error.start}) and was read as Windows-1252; save the file as UTF-8"
        )
    return raw.decode("cp1252", "replace")


def _around(text: str, other: str) -> str:
    """Return an excerpt around the first difference of two lines."""
    start = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), 0)
    return text[max(0, start - 12) : start + 20]
