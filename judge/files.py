"""Files with texts of events belong to their owner alone."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_SIDES: Final = ("", "-wal", "-shm")


def make_private(path: Path) -> None:
    """Create an SQLite file that only its owner may read, or take the rights of others from an existing one.

    Raises:
        OSError: It cannot be created.
    """
    with suppress(FileExistsError):
        # An existing file is not opened: closing it would release SQLite's locks of this process.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    for side in _SIDES:
        with suppress(OSError):
            path.with_name(path.name + side).chmod(0o600)
