"""Queries of the store from any thread, each with its own connection."""

from __future__ import annotations

import queue
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from streams.errors import StoreError, TooSlowError
from streams.store.database import LONGEST_QUERY_SECONDS, open_reader, translated

CONNECTIONS: Final = 4
_STEPS: Final = 20_000
"""SQLite instructions between two checks of the clock: a few milliseconds."""


class Reader:
    """Reads a store, also while another connection writes it.

    Args:
        path: The file.
        longest_seconds: Time limit of a query.
    """

    def __init__(self, path: Path, *, longest_seconds: float = LONGEST_QUERY_SECONDS) -> None:
        self.path = path
        self._longest_seconds = longest_seconds
        self._idle: queue.LifoQueue[tuple[tuple[int, int], sqlite3.Connection]] = queue.LifoQueue(CONNECTIONS)

    def close(self) -> None:
        """Close the idle connections."""
        while True:
            try:
                self._idle.get_nowait()[1].close()
            except queue.Empty:
                return

    @contextmanager
    def asking(self) -> Iterator[Asking]:
        """Open a consistent snapshot for queries by one thread.

        Raises:
            StoreMissingError: There is no store yet.
            TooSlowError: A query took too long.
            StoreError: The file cannot be read.
        """
        kept, db = self._connection()
        deadline = time.monotonic() + self._longest_seconds
        db.set_progress_handler(lambda: int(time.monotonic() > deadline), _STEPS)
        healthy = False
        try:
            db.execute("BEGIN")
            yield Asking(db)
            healthy = True
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_INTERRUPT:
                healthy = True
                raise TooSlowError(
                    f"the query took longer than {self._longest_seconds:g} s; choose a shorter time or "
                    "fewer words"
                ) from error
            raise translated(error, self.path) from error
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        except StoreError:
            healthy = True
            raise
        finally:
            db.set_progress_handler(None, 0)
            if db.in_transaction:
                db.execute("ROLLBACK")
            self._give_back(kept, db, healthy=healthy)

    def _connection(self) -> tuple[tuple[int, int], sqlite3.Connection]:
        now = self._identity()
        while True:
            try:
                kept, db = self._idle.get_nowait()
            except queue.Empty:
                db = open_reader(self.path)
                return self._identity(), db
            if kept == now:
                return kept, db
            db.close()  # the file was rebuilt: this connection uses the renamed one

    def _identity(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except OSError:
            return (0, 0)
        return found.st_dev, found.st_ino

    def _give_back(self, kept: tuple[int, int], db: sqlite3.Connection, *, healthy: bool) -> None:
        try:
            if healthy:
                self._idle.put_nowait((kept, db))
                return
        except queue.Full:
            pass
        db.close()


class Asking:
    """Queries of one snapshot of the store."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.matches: dict[tuple[str, ...], list[int]] = {}
        """Cached ids of the texts with some words."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Return all rows of a query."""
        return self._db.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Row | None:
        """Return the first row of a query."""
        found: sqlite3.Row | None = self._db.execute(sql, parameters).fetchone()
        return found

    def each(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[sqlite3.Row]:
        """Iterate over the rows of a query, for results that exceed memory."""
        for row in self._db.execute(sql, parameters):  # noqa: UP028 - delegation would close the cursor after its database
            yield row
