"""Several workers' shares of one budget, over a simulated log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from streams.judging.budget import Spending
from streams.judging.ledger import LEASE, Account, Entry, Ledger, parse_entry
from streams.settings.judge import BudgetSettings

CALLS = Account("all", "", "calls")
DAY = "2026-11-21"


def entry(worker: str, *, held: int = 0, ask: int = 0, limit: int = 100) -> Entry:
    return Entry(DAY, worker, CALLS, limit, held, 0, ask)


def test_the_order_of_the_log_decides() -> None:
    ledger = Ledger()
    assert ledger.apply(entry("a", ask=70)) == 70
    assert ledger.apply(entry("b", ask=70)) == 30
    assert ledger.apply(entry("c", ask=1)) == 0
    assert ledger.apply(entry("a", held=20)) == 20
    assert ledger.apply(entry("c", ask=80)) == 50
    assert (ledger.total[CALLS], ledger.others(CALLS, "c")) == (100, 50)
    ledger = Ledger()  # what exceeds a limit counts, and a lower limit grants nothing
    assert ledger.apply(entry("a", held=120)) == 120
    assert ledger.apply(entry("b", ask=5)) == 0
    assert ledger.apply(entry("b", ask=5, limit=123)) == 3


def test_an_entry_is_read_as_written() -> None:
    one = entry("a", held=3, ask=4)
    assert parse_entry(one.value) == one
    assert one.key == f'["{DAY}", "a", "all", "", "calls"]'.encode()
    with pytest.raises(ValidationError):
        parse_entry(one.value.replace(b'"ask":4', b'"ask":-4'))


@dataclass
class Log:
    """A log that can be compacted: offsets stay, and entries that later ones replace disappear."""

    records: dict[int, Entry] = field(default_factory=dict)
    end: int = 0

    def append(self, one: Entry) -> None:
        self.records[self.end] = one
        self.end += 1

    def compact(self, before: int) -> None:
        # Segments are compacted hours later: both forms of an entry that was written twice have been read.
        last = {one.key: one for offset, one in self.records.items() if offset < before}
        self.records = {
            offset: one for offset, one in self.records.items() if offset >= before or last[one.key] == one
        }


class Judge:
    """A worker with calls to spend; one that is `stopped` has lost its memory or is suspended for good."""

    def __init__(self, log: Log, limit: int) -> None:
        limits, now = BudgetSettings(calls_per_day=limit), datetime.fromisoformat(DAY)
        self.spending = Spending(limits, worker=f"w{log.end}", now=lambda: now)
        self.log, self.read = log, 0
        self.used = self.under_way = 0
        self.spending.sample()  # begins the day
        log.append(self.spending.joining())

    def hear(self, number: int) -> None:
        for offset in sorted(one for one in self.log.records if one >= self.read)[:number]:
            self.spending.heard(self.log.records[offset], offset)
            self.read = offset + 1

    def write(self, idle_seconds: float) -> None:
        for one in self.spending.entries(idle_seconds=idle_seconds):
            self.log.append(one)

    def admit(self, number: int = 1) -> None:
        admitted = sum(self.spending.admit() is None for _ in range(number))
        self.used += admitted
        self.under_way += admitted

    def settle(self) -> None:
        if self.under_way:
            self.spending.settle(usd=None, calls=1)
            self.under_way -= 1


class Group:
    """Workers of one log; a worker of which nothing is chosen for a while is one that is suspended."""

    def __init__(self, number: int, limit: int) -> None:
        self.log, self.limit, self.gone = Log(), limit, 0
        self.judges = [Judge(self.log, limit) for _ in range(number)]

    @property
    def used(self) -> int:
        return self.gone + sum(one.used for one in self.judges)

    def kill(self, number: int) -> None:
        self.gone += self.judges[number].used
        self.judges[number] = Judge(self.log, self.limit)

    def repeat(self, number: int) -> None:
        """Write a worker's last entry again, as one that was not confirmed."""
        own = [one for one in self.log.records.values() if one.worker == self.judges[number].spending.worker]
        self.log.records.update({self.log.end: own[-1]} if own else {})
        self.log.end += bool(own)

    def do(self, what: str, number: int, count: int) -> None:
        judge = self.judges[number]
        actions: dict[str, Callable[[], None]] = {
            "admit": lambda: judge.admit(count),
            "hear": lambda: judge.hear(count),
            "settle": judge.settle,
            "write": lambda: judge.write(1.0),
            "give back": lambda: judge.write(0.0),
            "kill": lambda: self.kill(number),
            "compact": lambda: self.log.compact(self.log.end * count // 6),
            "repeat": lambda: self.repeat(number),
        }
        actions[what]()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [*("admit", "hear", "write") * 4, "settle", "settle", "give back", "kill", "compact", "repeat"]
        ),
        st.integers(0, 2),
        st.integers(1, 6),
    ),
    min_size=60,
    max_size=120,
)


@settings(max_examples=150, derandomize=True)
@given(STEPS, st.sampled_from([1, 2, 3, 5, 6 * LEASE]))
def test_what_can_be_spent_never_exceeds_the_limit(steps: list[tuple[str, int, int]], limit: int) -> None:
    group = Group(3, limit)
    for what, number, count in steps:
        group.do(what, number, count)
        assert group.used <= limit


def test_a_grant_after_a_gap_is_discarded() -> None:
    """B read up to offset 2 and asked at 4; what a asked at 3 was replaced and removed before b read on.

    So b does not know that a holds the only call. Its own grant would be a second one.
    """
    group = Group(2, 1)
    (a, b), log = group.judges, group.log
    b.hear(9)
    b.admit()
    a.hear(9)
    a.admit()
    a.write(1.0)
    b.write(1.0)
    a.hear(9)
    a.admit()
    a.settle()
    a.spending.book(None)
    a.write(1.0)
    log.compact(log.end)
    b.hear(9)
    b.admit()
    assert (a.used, b.used) == (1, 0)


def test_an_entry_that_was_written_twice_is_no_answer_to_the_next() -> None:
    """It asked for more when it held 6 and had spent 5, gives the sixth back, then reads the copy."""
    group = Group(1, 6 * LEASE)
    (judge,) = group.judges
    judge.hear(9)
    for number in (1, 5):
        for _ in range(number):
            judge.admit()
            judge.settle()
        judge.write(1.0)
        judge.hear(9)
    group.repeat(0)
    judge.write(0.0)  # gives back
    judge.hear(1)
    judge.admit()
    assert judge.used == 5


@pytest.mark.parametrize("number", [1, 3, 6])
def test_all_is_spent_but_for_the_leases_of_the_killed(number: int) -> None:
    limit = 2_000
    group = Group(number, limit)
    for turn in range(10 * limit):
        for what, count in (("hear", 5), ("admit", 1), ("write", 1), ("settle", 1)):
            group.do(what, turn % number, count)
        if turn in (100, 400, 700):
            group.kill(turn % number)
    assert limit - 3 * limit // LEASE <= group.used <= limit
