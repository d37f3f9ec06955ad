from __future__ import annotations

from pathlib import Path

import pytest

from tests.streams.store.records import StoreFile


@pytest.fixture
def store(tmp_path: Path) -> StoreFile:
    return StoreFile(tmp_path / "folder" / "store.sqlite3")
