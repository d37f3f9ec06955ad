"""What one worker holds of the budget: its leases, the entries to write and those that it has read. Pure."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from streams.judging.ledger import Account, Entry, Ledger, Unit

LEASE: Final = 200
"""A lease is at most the limit divided by this, or one verdict."""
UNPRICED: Final = 8
"""Verdicts in flight within a lease before the first one is priced."""
IDLE_SECONDS: Final = 5.0
"""A lease that is not used for this long is given back."""
_JOINING: Final = Account("", "", "calls")
"""The account of a worker's first entry, which asks for nothing and shows up to where the log is read."""


@dataclass(slots=True)
class Lease:
    """What this worker holds of an account; amounts are those of the account's unit."""

    limit: int
    unit: Unit
    held: int = 0
    spent: int = 0
    in_flight: int = 0
    waiting: int = 0
    """Of those in flight, verdicts that wait in a batch."""
    priced: int = 0
    verdicts: int = 0
    sent: Entry | None = None
    """The latest entry; an earlier one that comes again, written twice, is no answer to it."""
    is_asking: bool = False
    """Whether an entry is on its way: held does not change until it has been read."""
    is_sound: bool = True
    """Whether no record before that entry is missing."""
    used_at: float = 0.0

    @property
    def each(self) -> int:
        """The expected cost of a verdict."""
        if self.unit == "calls":
            return 1
        # Before one is priced, a few at a time tell the price.
        return self.priced // self.verdicts if self.verdicts else self.limit // (LEASE * UNPRICED)

    @property
    def free(self) -> int:
        return self.held - self.spent - self.in_flight * self.each

    def fits(self, room: int) -> bool:
        """Return whether one more verdict fits; the last one may exceed the limit by its cost."""
        # Otherwise an expensive one never runs.
        return self.free >= max(self.each, 1) or (self.free > 0 and room <= 0 and not self.in_flight)

    @property
    def wanted(self) -> int:
        """What to ask for: up to a full lease."""
        unused = self.held - self.spent - self.waiting * self.each
        return max(self.limit // LEASE, self.each, 1) - max(unused, 0)


class Share:
    """A worker's leases in the current period; without a `worker` id there is no log, and it holds all."""

    def __init__(self, worker: str, clock: Callable[[], float]) -> None:
        self.worker = worker
        self.period = ""
        self.leases: dict[Account, Lease] = {}
        self.has_joined = False
        """Whether its first entry has been read, so that it knows all earlier grants."""
        self.wake = asyncio.Event()
        """Set if there are entries to write."""
        self._shared, self._clock = bool(worker), clock
        self._ledgers: dict[str, Ledger] = defaultdict(Ledger)
        self._unsent: dict[Account, None] = {}
        self._due: int | None = None

    def begin(self, period: str) -> None:
        """Begin a period, in which nothing is held; pricing and verdicts in flight go on."""
        self.period = period
        self.leases = {key: one for key, one in self.leases.items() if one.in_flight}
        for lease in self.leases.values():
            lease.held, lease.spent, lease.is_asking = (0 if self._shared else lease.limit), 0, False
        self._unsent.clear()
        ledgers = {one: ledger for one, ledger in self._ledgers.items() if one >= period}
        self._ledgers = defaultdict(Ledger, ledgers)

    @property
    def accounts(self) -> tuple[Account, ...]:
        return tuple(dict.fromkeys((*self.leases, *self._ledgers[self.period].accounts)))

    def lease(self, account: Account, limit: int) -> Lease:
        lease = self.leases.get(account)
        if lease is None:
            lease = Lease(limit, account.unit, held=0 if self._shared else limit)
            self.leases[account] = lease
        return lease

    def room(self, account: Account) -> int:
        return self.leases[account].limit - self._ledgers[self.period].total(account) if self._shared else 0

    def spent(self, account: Account) -> int:
        """Return what this worker has spent and others hold."""
        lease = self.leases.get(account)
        others = self._ledgers[self.period].others(account, self.worker)
        return others + (0 if lease is None else lease.spent)

    def admit(self, account: Account) -> None:
        lease = self.leases[account]
        lease.in_flight += 1
        lease.used_at = self._clock()

    def ask(self, account: Account) -> None:
        """Ask for a full lease, if there is room."""
        if self.room(account) > 0 and self.leases[account].wanted > 0:
            self.send(account)

    def send(self, account: Account) -> None:
        if self._shared:
            self._unsent[account] = None
            self.wake.set()

    @property
    def holds_more(self) -> bool:
        """Whether it holds more than it has spent, or may."""
        return self.has_joined and any(one.is_asking or one.held > one.spent for one in self.leases.values())

    def joining(self) -> Entry:
        return Entry(self.period, self.worker, _JOINING, limit=0, held=0, spent=0)

    def entries(self, *, idle_seconds: float = IDLE_SECONDS) -> list[Entry]:
        """Return the entries to write now: asks, and leases given back; none before it has joined."""
        if not self.has_joined:
            return []
        idle_since = self._clock() - idle_seconds
        found = []
        for account, lease in self.leases.items():
            if lease.is_asking:
                continue
            if account in self._unsent:
                del self._unsent[account]
                found.append(self._entry(account, lease, max(lease.wanted, 0)))
            elif lease.held > lease.spent and not lease.in_flight and lease.used_at <= idle_since:
                lease.held = lease.spent
                found.append(self._entry(account, lease, 0))
        return found

    def _entry(self, account: Account, lease: Lease, ask: int) -> Entry:
        lease.is_asking = lease.is_sound = True
        lease.held = max(lease.held, lease.spent)
        lease.sent = Entry(self.period, self.worker, account, lease.limit, lease.held, lease.spent, ask)
        return lease.sent

    def heard(self, entry: Entry | None, offset: int) -> None:
        """Take the log's next record, and its entry if it has one."""
        if self._due not in (None, offset):
            # Records before this one are missing: a grant that is on its way may be wrong.
            for lease in self.leases.values():
                lease.is_sound = lease.is_asking = False
        self._due = offset + 1
        if entry is None:
            return
        self.has_joined |= entry.worker == self.worker
        if entry.period < self.period:
            return
        held = self._ledgers[entry.period].apply(entry)
        if entry.worker != self.worker:
            return
        mine = self.leases.get(entry.account)
        if mine is not None and entry.period == self.period:
            if entry != mine.sent or not mine.is_sound:
                held = self._ledgers[entry.period].discard(entry)
            if entry == mine.sent:
                mine.held, mine.is_asking, mine.used_at = held, False, self._clock()
        self.wake.set()
