"""The leases of a budget that several workers share: a log, and what all who read it conclude. Pure.

A worker writes one entry at a time for an account: what it holds, how much of that is spent, and what more it
asks for. The log's order decides: an ask is granted as far as the account has room at that place. So there is
no owner that could fail, be cut off or be replaced: each reader of the log knows every grant, and its own.

**Never above the limit.** A worker counts a grant only after it has read its own entry, and all before it.
What a killed or stopped worker holds counts as spent until the period ends; so leases are small.

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
    """What a worker writes about an account."""

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
    """What every worker holds of each account, in one period."""

    _held: dict[Account, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    _total: Counter[Account] = field(default_factory=Counter)

    def apply(self, entry: Entry) -> int:
        """Apply the log's next entry; return what its worker holds from here on."""
        holders = self._held[entry.account]
        others = self._total[entry.account] - holders.get(entry.worker, 0)
        granted = max(0, min(entry.ask, entry.limit - others - entry.held))
        holders[entry.worker] = entry.held + granted
        self._total[entry.account] = others + entry.held + granted
        return entry.held + granted

    def discard(self, entry: Entry) -> int:
        """Take back what the entry was granted: what others hold is overrated rather, than what it may."""
        self._total[entry.account] += entry.held - self._held[entry.account][entry.worker]
        self._held[entry.account][entry.worker] = entry.held
        return entry.held

    def total(self, account: Account) -> int:
        return self._total[account]

    def others(self, account: Account, worker: str) -> int:
        return self._total[account] - self._held.get(account, {}).get(worker, 0)

    @property
    def accounts(self) -> tuple[Account, ...]:
        return tuple(self._total)
