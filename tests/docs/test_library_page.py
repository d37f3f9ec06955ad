"""A type checker accepts the snippets of docs/library.md and README."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.places import ROOT

SNIPPETS = [
    text
    for page in ("README.md", "docs/library.md")
    for text in re.findall(r"```python\n(from judge .*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
]


@pytest.mark.slow
def test_mypy_takes_the_snippets(tmp_path: Path) -> None:
    """The snippets pass mypy --strict in a coroutine; `events` and `frame` are the reader's."""
    assert len(SNIPPETS) == 3
    for number, snippet in enumerate(SNIPPETS):
        body = textwrap.indent(snippet, "    ")
        head = (
            "from typing import Any\n\n\nasync def main(events: list[dict[str, str]], frame: Any) -> None:\n"
        )
        (tmp_path / f"snippet_{number}.py").write_text(head + body)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout
