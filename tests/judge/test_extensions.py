"""Readers, sinks and metrics of installed packages are found, and those that cannot be used are named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from judge import extensions
from judge.errors import ExtensionError
from judge.extensions import load, names


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    load.cache_clear()
    extensions._installed.cache_clear()
    for package, points in {
        "judgestream": "kafka = fractions:Fraction\nweb = fractions:Fraction\n",
        "acme": "file = decimal:Decimal\ntwin = decimal:Decimal\nhook = json:loads\ngone = no_module:Sink\n",
        "other": "twin = decimal:Decimal\n",
    }.items():
        folder = tmp_path / f"{package}-1.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (folder / "entry_points.txt").write_text(f"[judgestream.sinks]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    load.cache_clear()
    extensions._installed.cache_clear()


def test_ours_come_first_and_others_in_the_order_of_the_alphabet() -> None:
    assert names("judgestream.sinks") == ("kafka", "web", "file", "gone", "hook", "twin")
    assert load("judgestream.sinks", "file", object).__name__ == "Decimal"


USELESS = {
    "fil": "is not in judgestream.sinks; did you mean file? If not, install the package that provides it",
    "zebra": "is not in judgestream.sinks; there are kafka, web, file, gone, hook, twin; install the package "
    "that provides it",
    "twin": "in judgestream.sinks is provided by acme 1.2 and other 1.2; uninstall all but one",
    "gone": "in judgestream.sinks, no_module:Sink of acme 1.2, cannot be imported (ModuleNotFoundError: No "
    "module named 'no_module'); update or uninstall acme",
    "hook": "in judgestream.sinks, json:loads of acme 1.2, is not a subclass of builtins.object; update "
    "or uninstall acme",
}


@pytest.mark.parametrize("name", USELESS)
def test_what_cannot_be_used_is_named_with_its_package_and_what_to_do(name: str) -> None:
    with pytest.raises(ExtensionError) as raised:
        load("judgestream.sinks", name, object)
    assert str(raised.value) == f"{name} {USELESS[name]}"


def test_an_installation_older_than_its_code_is_named() -> None:
    with pytest.raises(ExtensionError, match=r"readers lacks judgestream's own: .* install it again"):
        names("judgestream.readers")
