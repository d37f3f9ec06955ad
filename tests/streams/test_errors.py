"""The trees of errors: one file each, and the docstring shows all of it."""

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
    """And none that is gone."""
    shown = set(re.findall(r"\b([A-Z]\w*Error)\b", str(module.__doc__)))
    defined = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert shown == defined


@pytest.mark.parametrize(
    ("room", "own"),
    [
        # What a room raises and catches itself, or what belongs to a protocol of its own.
        (
            "streams",
            {
                "embedded/errors.py",
                "cli/errors.py",
                "intake/reading/registry/client.py",
                "kafka/patches/codecs.py",
                "kafka/patches/crowded.py",
                "kafka/transport/membership.py",
                "sinks/delivery.py",
                "sinks/receivers.py",
            },
        ),
        (
            "judge",
            {
                "endpoint/connection.py",
                "endpoint/completion.py",
                "metrics/replies/loose_json.py",
                "offline/request.py",
                "text/plain_yaml.py",
                "verdict/processes/child.py",
            },
        ),
    ],
)
def test_errors_are_defined_in_one_file(room: str, own: set[str]) -> None:
    """Anyone who catches an error finds all of them in one place."""
    elsewhere = {
        str(file.relative_to(ROOT / room))
        for file in (ROOT / room).rglob("*.py")
        if file.name != "errors.py" or file.parent != ROOT / room
        if _classes(file)
    }
    assert elsewhere - own == set()
