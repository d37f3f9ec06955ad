"""Deletes old data, and the oldest above the size limit: texts before verdicts."""

from __future__ import annotations

import sqlite3
from typing import Final

from streams.store.database import file_bytes, transaction, translated
from streams.store.items import searched
from streams.store.packing import unpacked
from streams.store.schema import DAY_MS, HOUR_MS
from streams.store.writer import Writer, clean

ROWS_AT_ONCE: Final = 2_000
"""Rows deleted per transaction, to bound the wait of readers and the next batch."""
_PAGES_AT_ONCE: Final = 2_000


def forget_older(writer: Writer, cut: int) -> int:
    """Delete data of answers before a time, rounded down to the hour.

    Args:
        writer: The store.
        cut: Milliseconds since 1970.

    Returns:
        Number of verdicts deleted.

    Raises:
        StoreError: The file cannot be written.
    """
    cut -= cut % HOUR_MS
    db = writer.connection
    try:
        gone = 0
        while ids := [row[0] for row in db.execute(_OLD_VERDICTS, (cut, ROWS_AT_ONCE))]:
            with transaction(db):
                _forget_marks(db, ids)
                db.executemany("DELETE FROM bodies WHERE id = ?", ((one,) for one in ids))
                db.executemany("DELETE FROM verdicts WHERE id = ?", ((one,) for one in ids))
            gone += len(ids)
        with transaction(db):
            _forget_cells(db, cut)
            db.execute("DELETE FROM alerts WHERE raised < ?", (cut,))
        while _forget_texts(db, "WHERE at < ?", (cut,)):
            pass
        _shrink(db)
    except sqlite3.Error as error:
        raise translated(error, writer.path) from error
    return gone


_OLD_VERDICTS: Final = (
    "SELECT id FROM verdicts WHERE replay IN (0, 1) AND at < ? LIMIT ?"  # the index starts with `replay`
)


def _forget_marks(db: sqlite3.Connection, ids: list[int]) -> None:
    kinds = db.execute("SELECT DISTINCT sort, kind FROM marks").fetchall()
    db.executemany(
        "DELETE FROM marks WHERE sort = ? AND kind = ? AND verdict = ?",
        ((sort, kind, one) for sort, kind in kinds for one in ids),
    )


def _forget_cells(db: sqlite3.Connection, cut: int) -> None:
    """Delete the sums before a full hour; recompute its day from the remaining hours."""
    day = cut - cut % DAY_MS
    for table, of in (("cells", "labels"), ("part_cells", "part")):
        alike = f"metric, evaluator, {of}, status, score, probability, corrected, suspected"
        db.execute(f"DELETE FROM {table} WHERE grain = ? AND bucket < ?", (HOUR_MS, cut))
        db.execute(f"DELETE FROM {table} WHERE grain = ? AND bucket <= ?", (DAY_MS, day))
        db.execute(
            f"INSERT INTO {table} (grain, bucket, {alike}, count, cost) SELECT ?, ?, {alike}, sum(count), "
            f"sum(cost) FROM {table} WHERE grain = ? AND bucket >= ? AND bucket < ? GROUP BY {alike}",
            (DAY_MS, day, HOUR_MS, day, day + DAY_MS),
        )


def _forget_texts(db: sqlite3.Connection, where: str, parameters: tuple[int, ...]) -> int:
    rows = db.execute(
        f"SELECT id, body FROM texts JOIN text_bodies USING (id) {where} ORDER BY at LIMIT ?",
        (*parameters, ROWS_AT_ONCE),
    ).fetchall()
    if not rows:
        return 0
    with transaction(db):
        # The search index has no texts, so a deletion needs the words.
        db.executemany(
            "INSERT INTO search (search, rowid, words) VALUES ('delete', ?, ?)",
            [(number, clean(searched(unpacked(body)))) for number, body in rows],
        )
        for table in ("texts", "text_bodies"):
            db.executemany(f"DELETE FROM {table} WHERE id = ?", [(number,) for number, _ in rows])
    return len(rows)


def keep_below(writer: Writer, max_bytes: int) -> int:
    """Delete the oldest data until the file is below a limit: texts, then verdicts by the hour.

    Args:
        writer: The store.
        max_bytes: The limit.

    Returns:
        Number of texts and verdicts deleted.

    Raises:
        StoreError: The file cannot be written.
    """
    db = writer.connection
    gone = 0
    try:
        while _used_bytes(writer) > max_bytes:
            some = _forget_texts(db, "", ())
            if not some:
                (oldest,) = db.execute("SELECT min(bucket) FROM cells WHERE grain = ?", (HOUR_MS,)).fetchone()
                some = 0 if oldest is None else forget_older(writer, oldest + HOUR_MS)
            if not some:
                break
            gone += some
            _shrink(db)
    except sqlite3.Error as error:
        raise translated(error, writer.path) from error
    return gone


def _used_bytes(writer: Writer) -> int:
    """Return the bytes in use, without free pages, which are returned gradually."""
    (free,) = writer.connection.execute("PRAGMA freelist_count").fetchone()
    (page,) = writer.connection.execute("PRAGMA page_size").fetchone()
    return file_bytes(writer.path) - int(free) * int(page)


def _shrink(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.execute(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})").fetchall()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
