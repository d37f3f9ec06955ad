"""The error classes of each package are in one file whose docstring lists them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import judge.errors
import streams.errors
from tests.places import ROOT


def _classes(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases)
    }


@pytest.mark.parametrize("module", [judge.errors, streams.errors], ids=lambda module: str(module.__name__))
def test_the_docstring_shows_every_error(module: object) -> None:
    shown = set(re.findall(r"\b([A-Z]\w*Error)\b", str(module.__doc__)))
    values = vars(module).items()
    defined = {name for name, one in values if isinstance(one, type) and issubclass(one, Exception)}
    assert shown == defined


@pytest.mark.parametrize(
    ("room", "own"),
    [
        # Errors that a room raises and catches itself, or that belong to a protocol of its own.
        ("streams", "cli/running embedded/wire intake/reading/registry/unpacking kafka/decoding sinks/base"),
        (
            "judge",
            "endpoints/connection endpoints/payloads evaluate/limited metrics/base text/plain_yaml",
        ),
    ],
)
def test_errors_are_defined_in_one_file(room: str, own: str) -> None:
    elsewhere = {
        str(file.relative_to(ROOT / room).with_suffix(""))
        for file in (ROOT / room).rglob("*.py")
        if file.name != "errors.py" or file.parent != ROOT / room
        if _classes(file)
    }
    assert elsewhere - set(own.split()) == set()
