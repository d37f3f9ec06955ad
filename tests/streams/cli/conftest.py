from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.streams.cli.processes import Ended, call, is_ours

Command = Callable[..., Ended]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """A function that runs the command in this process, with a clean environment."""

    def run_here(*arguments: object, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Ended:
        with monkeypatch.context() as patch:
            for name in filter(is_ours, list(os.environ)):
                patch.delenv(name)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            capsys.readouterr()
            code = call(*map(str, arguments))
        return Ended(code, *capsys.readouterr())

    return run_here


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes settings to a file, by sections."""

    def write(name: str = "settings.yaml", /, **sections: Any) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(sections))  # JSON is YAML
        return path

    return write
