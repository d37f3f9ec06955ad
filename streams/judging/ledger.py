"""The leases of a budget that several workers share: a log, and what all who read it conclude. Pure.

A worker writes one entry at a time for an account: what it holds, how much of that is spent, and what more it
asks for. The log's order decides: an ask is granted as far as the account has room at that place. So each
reader of the log knows every grant, and there is no owner that could fail.

**Never above the limit.** A worker counts a grant only after it has read its own entry, and all before it.
What a killed worker holds counts as spent until the period ends; so leases are small.

**Compaction** keeps the last entry of each worker and account, which says what it holds. A reader may miss
entries that later ones replace, and then overrates what others hold, never what itself may spend: it asks
first when it has read its own first entry, and discards a grant if offsets are missing before it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import Field, TypeAdapter

Unit: TypeAlias = Literal["usd", "calls"]
NANO: Final = 1_000_000_000
"""Units of an account in dollars; amounts are whole, so that sums are exact."""
_Amount = Annotated[int, Field(ge=0)]


class Account(NamedTuple):
    """What a limit counts: all, a metric's or a label value's share, in dollars (of 1e-9) or calls."""

    cap: str
    value: str
    unit: Unit


@dataclass(frozen=True, slots=True)
class Entry:
    period: str
    """The day, in ISO form."""
    worker: str
    account: Account
    limit: _Amount
    held: _Amount
    """Granted and not given back, spent included."""
    spent: _Amount
    ask: _Amount = 0

    @property
    def key(self) -> bytes:
        return json.dumps([self.period, self.worker, *self.account]).encode()

    @property
    def value(self) -> bytes:
        return _ENTRY.dump_json(self)


_ENTRY: Final = TypeAdapter(Entry)


def parse_entry(value: bytes) -> Entry:
    return _ENTRY.validate_json(value)


@dataclass(slots=True)
class Ledger:
    total: Counter[Account] = field(default_factory=Counter)
    _held: dict[Account, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    def apply(self, entry: Entry) -> int:
        """Apply the log's next entry; return what its worker holds from here on."""
        holders = self._held[entry.account]
        others = self.others(entry.account, entry.worker)
        granted = max(0, min(entry.ask, entry.limit - others - entry.held))
        holders[entry.worker] = entry.held + granted
        self.total[entry.account] = others + entry.held + granted
        return entry.held + granted

    def others(self, account: Account, worker: str) -> int:
        return self.total[account] - self._held.get(account, {}).get(worker, 0)


# One worker's leases

LEASE: Final = 200
"""A lease is at most the limit divided by this, or one verdict."""
UNPRICED: Final = 8
"""Verdicts in flight within a lease before the first one is priced."""
IDLE_SECONDS: Final = 5.0
"""A lease that is not used for this long is given back."""
JOINING: Final = Account("", "", "calls")
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
