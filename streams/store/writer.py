"""Writes batches: every result once, despite repeats, with the next offsets."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from streams.store.database import open_writer, transaction, translated
from streams.store.items import AlertItem, Batch, Item, LabelItem, TextItem, VerdictItem
from streams.store.schema import ALL_PARTS, DAY_MS, HOUR_MS, NO_SCORE, PART_KIND, STATUSES

MAX_GROUPED_VALUES: Final = 200
"""A label with more values (a user, a session) has no sums by value; filters still support it."""
_ASKED_AT_ONCE: Final = 500
_CORRECTION, _SUSPICION = 0, 1

T = TypeVar("T", bound=Item)
_Cell = tuple[Any, ...]
"""The columns of a cell's key after its bucket or part."""


class Writer:
    """The only writer of a store; not thread-safe.

    Args:
        path: The file; created if missing.

    Raises:
        StoreDamagedError: The file is damaged or has another version.
        StoreError: It cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = open_writer(path)
        self._names: dict[tuple[str, str], int] = {}
        self._evaluators: dict[tuple[int, str], int] = {}
        self._sets: dict[bytes, tuple[int, int, tuple[int, ...]]] = {}
        self._values: dict[str, set[str]] | None = None

    def _forget(self) -> None:
        """Clear the caches, which may contain rows of a failed transaction."""
        self._names.clear()
        self._evaluators.clear()
        self._sets.clear()
        self._values = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The database connection, for retention."""
        return self._db

    def close(self) -> None:
        """Merge the write-ahead log into the file and close it."""
        self._db.close()

    def positions(self) -> dict[tuple[str, int], int]:
        """Return the next offset of each partition."""
        rows = self._db.execute("SELECT topic, partition, next FROM positions")
        return {(topic, partition): following for topic, partition, following in rows}

    def write(self, batch: Batch) -> int:
        """Write a batch in one transaction.

        Returns:
            Number of new verdicts.

        Raises:
            StoreFullError: The disk is full; the same batch may be written later.
            StoreDamagedError: The file is damaged.
            StoreError: Another error.
        """
        try:
            with transaction(self._db):
                new = self._verdicts(_of(VerdictItem, batch.items))
                self._texts(_of(TextItem, batch.items))
                self._alerts(_of(AlertItem, batch.items))
                self._labels(_of(LabelItem, batch.items))
                self._db.executemany(
                    "INSERT INTO positions VALUES (?, ?, ?) "
                    "ON CONFLICT DO UPDATE SET next = max(next, excluded.next)",
                    [
                        (topic, partition, following)
                        for (topic, partition), following in batch.positions.items()
                    ],
                )
        except sqlite3.Error as error:
            self._forget()
            raise translated(error, self.path) from error
        return new

    def _verdicts(self, items: Sequence[VerdictItem]) -> int:
        fresh = self._fresh("verdicts", items)
        if not fresh:
            return 0
        (last,) = self._db.execute("SELECT coalesce(max(id), 0) FROM verdicts").fetchone()
        rows, bodies, marks = [], [], []
        sums = _Sums()
        for number, item in enumerate(fresh, start=last + 1):
            metric = self._name("metric", item.metric)
            evaluator = self._evaluator(metric, item)
            labels, grouped, parts = self._label_set(item.labels)
            status = STATUSES.index(item.status)
            corrected, suspected = len(item.corrections), len(item.suspicions)
            rows.append(
                (
                    number, item.result_id, item.event_id, int(item.replayed), metric, evaluator, labels,
                    status,
                    item.score, item.at, item.judged, item.probability, item.cost, corrected, suspected,
                    item.partition, item.offset,
                )
            )  # fmt: skip
            bodies.append((number, item.body))
            for sort, kinds in ((_CORRECTION, item.corrections), (_SUSPICION, item.suspicions)):
                marks += [(sort, self._name("kind", kind), number) for kind in set(kinds)]
            if item.replayed:
                continue
            score = _alike(item.score)
            sums.add(
                item,
                (metric, evaluator, grouped, status, score, item.probability, corrected > 0, suspected > 0),
                parts,
            )
        self._db.executemany(f"INSERT INTO verdicts VALUES ({_marks(17)})", rows)
        self._db.executemany("INSERT INTO bodies VALUES (?, ?)", bodies)
        self._db.executemany("INSERT OR IGNORE INTO marks VALUES (?, ?, ?)", marks)
        sums.write(self._db)
        return len(fresh)

    def _texts(self, items: Sequence[TextItem]) -> None:
        fresh = self._fresh("texts", items)
        if not fresh:
            return
        (last,) = self._db.execute("SELECT coalesce(max(id), 0) FROM texts").fetchone()
        numbered = list(enumerate(fresh, start=last + 1))
        self._db.executemany(
            "INSERT INTO texts VALUES (?, ?, ?)",
            [(number, item.result_id, item.at) for number, item in numbered],
        )
        self._db.executemany(
            "INSERT INTO text_bodies VALUES (?, ?)", [(number, item.body) for number, item in numbered]
        )
        self._db.executemany(
            "INSERT INTO search (rowid, words) VALUES (?, ?)",
            [(number, clean(item.words)) for number, item in numbered],
        )

    def _alerts(self, items: Sequence[AlertItem]) -> None:
        self._db.executemany(
            "INSERT OR IGNORE INTO alerts VALUES (?, ?, ?)",
            [(item.alert_id, item.raised, item.body) for item in items],
        )

    def _labels(self, items: Sequence[LabelItem]) -> None:
        self._db.executemany(
            "INSERT OR IGNORE INTO labels VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(one.label_id, one.result_id, one.at, one.score, one.note, one.who, one.body) for one in items],
        )

    def _fresh(self, table: str, items: Sequence[T]) -> list[T]:
        """Return the items not in a table yet, without duplicates: the first one stays."""
        by_id: dict[bytes, T] = {}
        for item in items:
            if not isinstance(item, AlertItem):
                by_id.setdefault(item.result_id, item)
        ids = list(by_id)
        for start in range(0, len(ids), _ASKED_AT_ONCE):
            some = ids[start : start + _ASKED_AT_ONCE]
            question = f"SELECT result_id FROM {table} WHERE result_id IN ({_marks(len(some))})"
            for (known,) in self._db.execute(question, some).fetchall():
                del by_id[known]
        return list(by_id.values())

    def _name(self, kind: str, name: str) -> int:
        key = (kind, name)
        number = self._names.get(key)
        if number is None:
            self._db.execute("INSERT INTO names (kind, name) VALUES (?, ?) ON CONFLICT DO NOTHING", key)
            (number,) = self._db.execute("SELECT id FROM names WHERE kind = ? AND name = ?", key).fetchone()
            self._names[key] = number
        return int(number)

    def _evaluator(self, metric: int, item: VerdictItem) -> int:
        key = (metric, item.fingerprint)
        number = self._evaluators.get(key)
        if number is None:
            self._db.execute(
                "INSERT INTO evaluators (metric, fingerprint, model, first_at) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (*key, item.model, item.at),
            )
            row = self._db.execute("SELECT id FROM evaluators WHERE metric = ? AND fingerprint = ?", key)
            (number,) = row.fetchone()
            self._evaluators[key] = number
        return int(number)

    def _label_set(self, labels: Mapping[str, str]) -> tuple[int, int, tuple[int, ...]]:
        """Return the id of a set of labels, the id of its set for sums, and its parts."""
        text = clean_json(labels)
        found = self._sets.get(text)
        if found is None:
            number, grouped = self._known_label_set(labels, text)
            parts = (
                self._name(PART_KIND + clean(name), clean(value))
                for name, value in labels.items()
                if self._is_grouped(name, value)
            )
            found = self._sets[text] = (number, grouped, (ALL_PARTS, *parts))
            if len(self._sets) > 100_000:
                self._sets.clear()
        return found

    def _known_label_set(self, labels: Mapping[str, str], text: bytes) -> tuple[int, int]:
        row = self._db.execute(
            "SELECT id, grouped FROM label_sets WHERE labels = ?", (text.decode(),)
        ).fetchone()
        if row is not None:
            return int(row[0]), int(row[1])
        kept = {name: value for name, value in labels.items() if self._is_grouped(name, value)}
        cursor = self._db.execute("INSERT INTO label_sets (labels, grouped) VALUES (?, 0)", (text.decode(),))
        number = int(cursor.lastrowid or 0)
        grouped = number if len(kept) == len(labels) else self._label_set(kept)[0]
        self._db.execute("UPDATE label_sets SET grouped = ? WHERE id = ?", (grouped, number))
        self._db.executemany(
            "INSERT OR IGNORE INTO label_values VALUES (?, ?, ?)",
            [(clean(name), clean(value), number) for name, value in labels.items()],
        )
        return number, grouped

    def _is_grouped(self, name: str, value: str) -> bool:
        if self._values is None:
            self._values = defaultdict(set)
            rows = self._db.execute(
                "SELECT DISTINCT name, value FROM label_values JOIN label_sets ON set_id = id "
                "WHERE id = grouped"
            )
            for known_name, known_value in rows:
                self._values[known_name].add(known_value)
        values = self._values.setdefault(clean(name), set())
        if clean(value) in values:
            return True
        if len(values) >= MAX_GROUPED_VALUES:
            return False
        values.add(clean(value))
        return True


class _Sums:
    """A batch's additions to the sums: by hour while it is read, by day from its hours."""

    def __init__(self) -> None:
        self._cells: defaultdict[_Cell, list[float]] = defaultdict(lambda: [0, 0.0])
        self._parts: defaultdict[_Cell, list[float]] = defaultdict(lambda: [0, 0.0])

    def add(self, item: VerdictItem, alike: _Cell, parts: Iterable[int]) -> None:
        """Add a verdict.

        Args:
            item: The verdict.
            alike: Metric, evaluator, set of labels, and the following columns of `cells`.
            parts: Its parts of the traffic.
        """
        hour, cost = item.at - item.at % HOUR_MS, item.cost or 0.0
        cells = [self._cells[hour, *alike]]
        rest = (hour, *alike[:2], *alike[3:])
        cells += [self._parts[part, *rest] for part in parts]
        for cell in cells:
            cell[0] += 1
            cell[1] += cost

    def write(self, db: sqlite3.Connection) -> None:
        """Add them to the file's sums."""
        for table, hours, place in (("cells", self._cells, 0), ("part_cells", self._parts, 1)):
            days: defaultdict[_Cell, list[float]] = defaultdict(lambda: [0, 0.0])
            for key, (count, cost) in hours.items():
                bucket = key[place]
                day = days[*key[:place], bucket - bucket % DAY_MS, *key[place + 1 :]]
                day[0] += count
                day[1] += cost
            rows = [
                (grain, *key, *numbers)
                for grain, cells in ((HOUR_MS, hours), (DAY_MS, days))
                for key, numbers in sorted(cells.items())
            ]
            db.executemany(
                f"INSERT INTO {table} VALUES ({_marks(12)}) "
                "ON CONFLICT DO UPDATE SET count = count + excluded.count, cost = cost + excluded.cost",
                rows,
            )


def _of(kind: type[T], items: Iterable[Item]) -> list[T]:
    return [item for item in items if isinstance(item, kind)]


def _alike(score: float | None) -> float:
    """Return the score for sums: numbers have three digits, to limit the number of sums."""
    if score is None:
        return NO_SCORE
    return score if isinstance(score, int) else float(f"{score:.3g}")


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def clean(text: str) -> str:
    """Return text that SQLite accepts: without lone surrogates and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "�")


def clean_json(labels: Mapping[str, str]) -> bytes:
    """Return labels as JSON in a canonical order."""
    return orjson.dumps({clean(name): clean(labels[name]) for name in sorted(labels)})
