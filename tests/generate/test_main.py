"""The command that writes and checks generated files."""

from __future__ import annotations

from pathlib import Path

import pytest

from generate import __main__ as generate


def test_the_committed_files_are_current() -> None:
    assert generate.main(["--check"]) == 0


def test_different_missing_and_surplus_files_are_stale(tmp_path: Path) -> None:
    made = {tmp_path / "same": "1", tmp_path / "other": "2", tmp_path / "gone": "3"}
    (tmp_path / "same").write_text("1", encoding="utf-8")
    (tmp_path / "other").write_text("old", encoding="utf-8")
    (tmp_path / "left").write_text("4", encoding="utf-8")
    assert generate.stale(made, [tmp_path]) == [tmp_path / name for name in ("gone", "left", "other")]


def test_check_names_the_remedy_and_write_applies_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--check` fails with the command to run; `--write` repairs files and creates folders."""
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "FOLDERS", ())
    monkeypatch.setattr(generate, "GENERATORS", (lambda: {tmp_path / "deep" / "page.md": "text"},))
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().err == "deep/page.md is outdated; run `make generate` and commit it\n"
    assert generate.main(["--write"]) == 0
    assert (tmp_path / "deep" / "page.md").read_text(encoding="utf-8") == "text"
