"""Generate the reference of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer.main

from generate.places import DOCS
from generate.tables import table
from streams.cli.main import app

_INTRODUCTION: Final = """\
# Command line

<!-- Made by `python -m generate --write` from streams/cli; changes here are lost. -->

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted. Commands with output accept
`--json`; `--debug` (or `JUDGESTREAM_DEBUG=1`) shows tracebacks.
"""


def page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for name, command in _commands("judgestream", typer.main.get_command(app)):
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
        usage = " ".join([name, *(_argument(one) for one in arguments), *(["[OPTIONS]"] if options else [])])
        parts.append(f"## {name.removeprefix('judgestream ')}\n")
        parts.append(f"```console\n$ {usage}\n```\n")
        parts.append(f"{_plain(command.help or '')}\n")
        if options:
            rows = [
                (", ".join(f"`{name}`" for name in _names(one)), _default(one), one.help or "")
                for one in options
            ]
            parts.append(table(("option", "default", "meaning"), rows))
    return "\n".join(parts)


def files() -> Mapping[Path, str]:
    """Return the page by its path."""
    return {DOCS / "command-line.md": page()}


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    members = getattr(command, "commands", None)
    if members is None:
        yield name, command
        return
    for child, one in members.items():
        yield from _commands(f"{name} {child}", one)


def _argument(argument: Any) -> str:
    shown = (argument.metavar or argument.name or "").upper()
    return shown if argument.required else f"[{shown}]"


def _names(option: Any) -> list[str]:
    return [*option.opts, *option.secondary_opts]


def _default(option: Any) -> str:
    if option.required:
        return "required"
    if option.is_flag or option.default in (None, "", (), []):
        return ""
    return f"`{option.default}`"


def _plain(text: str) -> str:
    """Remove Click's marks: a form feed ends the help, a backspace keeps line breaks."""
    paragraphs = text.partition("\f")[0].replace("\b", "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs if part.strip())
