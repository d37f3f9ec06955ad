"""The judging budget of a day: if it is spent, verdicts wait, and the backlog remains in Kafka.

Days are those of UTC. Workers share one budget: each holds leases of it, which the log of
`streams.judging.ledger` grants. A worker of its own holds the whole budget.

**Admission.** A verdict is admitted if every limit that concerns it has room in this worker's lease, with
verdicts in flight counted at the mean cost so far. So the limit on calls holds except for repair turns and
retries, and the limit on cost except for about one verdict of each worker.

**Lower rate.** Spending follows the demand: when usually half of the day's answers have come, about half may
be spent. What is spent beyond that, as a share of the rest, halves the sampling rate with each `STEP` above
`LEAD`. The factor is a power of two, and depends only on the past, not on the event.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil, inf
from typing import Final, TypeAlias

import structlog

from judge.errors import DrainingError
from schemas import Result
from streams.judging.allocation import Demand
from streams.judging.ledger import IDLE_SECONDS, JOINING, LEASE, NANO, Account, Entry, Lease, Ledger
from streams.settings.judge import SAMPLING_BUDGET, BudgetSettings, LimitSettings

_log = structlog.stdlib.get_logger(__name__)

LEAD: Final = 0.02
STEP: Final = 0.01
MOST_HALVED: Final = 10
LONGEST_SLEEP_SECONDS: Final = 30.0
"""Interval of clock checks while verdicts wait, as the clock may be set."""
MAX_VALUES: Final = 1_000
"""Values of a label with a limit of their own; further ones share one."""
SAMPLE_SECONDS: Final = 60.0
SAMPLES: Final = 30
"""The forecast is by the spending of the last half hour."""

Accounts: TypeAlias = tuple[Account, ...]
_NO_LABELS: Final[Mapping[str, str]] = {}


class Spending:
    """What one worker holds and has spent of the budget on the current day: its leases.

    Args:
        sampling: The limit of `sampling.budget`, of which a verdict is one call, whatever it took.
        worker: Its id in the log that grants leases, whose records `heard` gets; "": it holds all.
    """

    def __init__(
        self,
        limits: BudgetSettings,
        *,
        sampling: LimitSettings | None = None,
        worker: str = "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.worker = worker
        self.wake = asyncio.Event()
        """Set when there may be entries to write."""
        self._has_joined = False
        """Whether its first entry has been read, so that it knows all earlier grants."""
        self._leases: dict[Account, Lease] = {}
        self._ledgers: dict[str, Ledger] = defaultdict(Ledger)
        self._unsent: dict[Account, None] = {}
        self._due: int | None = None
        self._limits: dict[str, LimitSettings] = dict(limits.limits)
        if sampling is not None:
            self._limits[SAMPLING_BUDGET] = sampling
        self.caps = tuple(self._limits)
        self._caps = {cap.name: (cap.metric, cap.by) for cap in limits.caps}
        self._now = now
        self._demand = Demand(now())
        self._day: datetime | None = None
        self._period = ""
        self._values: dict[str, set[str]] = defaultdict(set)
        self._turns: dict[Accounts, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._samples: deque[tuple[datetime, dict[Account, int]]] = deque(maxlen=SAMPLES)
        self._waiting: Counter[str] = Counter()
        self._told: dict[str, datetime] = {}
        self._draining = False
        self._change = asyncio.Event()

    @property
    def deferring(self) -> str | None:
        """A message while tasks wait for the budget; None while none do."""
        names = sorted(cap for cap, waiting in self._waiting.items() if waiting)
        if not names:
            return None
        which = "" if "all" in names else f" of {', '.join(names)}"
        until = f"{self._today() + timedelta(days=1):%Y-%m-%d %H:%M} UTC"
        return f"the judging budget{which} is spent until {until}; tasks wait in Kafka"

    def spent_ratio(self, cap: str | None = None) -> float:
        """Return the share of the day's limit that workers hold or have spent; the largest of several."""
        self._today()
        return max(map(self._ratio, self._open(cap)), default=0.0)

    def left_seconds(self, cap: str | None = None) -> float:
        """Return the time until a limit is spent at the rate of the last half hour; `inf` if not today."""
        now, end = self._now(), self._today() + timedelta(days=1)
        found = inf
        for account in self._open(cap):
            spent = self._spent(account)
            left = self._limit(account) - spent
            since, before = next(
                ((at, of[account]) for at, of in self._samples if account in of), (now, spent)
            )
            if left <= 0:
                found = 0.0
            elif spent > before:
                found = min(found, left * (now - since).total_seconds() / (spent - before))
        return found if found < (end - now).total_seconds() else inf

    def rate_factor(self, metric: str = "", labels: Mapping[str, str] = _NO_LABELS) -> Fraction:
        """Count the demand for one verdict; return the factor for its rate: 1 or a negative power of two."""
        self._today()
        now = self._now()
        self._demand.add(now)
        lowering = [one for one in self.accounts(metric, labels) if one.cap != SAMPLING_BUDGET]
        spent = max((self._ratio(one) for one in lowering), default=0.0)
        come = self._demand.by(now)
        ahead = (spent - come) / (1 - come) - LEAD
        halved = ceil(ahead / STEP) if spent < 1 else MOST_HALVED
        return Fraction(1, 2 ** min(max(halved, 0), MOST_HALVED))

    def accounts(self, metric: str, labels: Mapping[str, str]) -> Accounts:
        found = []
        for name, limits in self._limits.items():
            of_metric, by = self._caps.get(name, (None, None))
            if of_metric not in (None, metric):
                continue
            value = "" if by is None else self._value(name, labels.get(by, ""))
            found += [Account(name, value, "usd")] if limits.usd_per_day is not None else []
            found += [Account(name, value, "calls")] if limits.calls_per_day is not None else []
        return tuple(found)

    def _value(self, cap: str, value: str) -> str:
        values = self._values[cap]
        if value not in values and len(values) >= MAX_VALUES:
            return "(others)"
        values.add(value)
        return value

    def _limit(self, account: Account) -> int:
        limits = self._limits[account.cap]
        amount = limits.calls_per_day if account.unit == "calls" else (limits.usd_per_day or 0.0) * NANO
        return round(amount or 0)

    def _open(self, cap: str | None) -> Iterator[Account]:
        known = dict.fromkeys((*self._leases, *self._ledgers[self._period].total))
        return (one for one in known if one.cap in self._limits and cap in (None, one.cap))

    def _ratio(self, account: Account) -> float:
        return self._spent(account) / self._limit(account)

    def _spent(self, account: Account) -> int:
        """Return what this worker has spent and others hold."""
        lease = self._leases.get(account)
        others = self._ledgers[self._period].others(account, self.worker)
        return others + (0 if lease is None else lease.spent)

    def _lease(self, account: Account) -> Lease:
        if account not in self._leases:
            limit = self._limit(account)
            self._leases[account] = Lease(limit, account.unit, held=0 if self.worker else limit)
        return self._leases[account]

    def _room(self, account: Account) -> int:
        """Return what may still be granted."""
        return self._limit(account) - self._ledgers[self._period].total[account] if self.worker else 0

    def _send(self, account: Account) -> None:
        if self.worker:
            self._unsent[account] = None
            self.wake.set()

    @asynccontextmanager
    async def admitted(
        self, metric: str = "", labels: Mapping[str, str] = _NO_LABELS, *, waits: bool = False
    ) -> AsyncIterator[Callable[[Result], None]]:
        """Wait until the budget admits a verdict; call the yielded function with its result, if there is one.

        One that `waits`, in a batch, does not bound the calls in flight: a lease grows by it. DrainingError:
        the worker stops or gives its partitions up. A verdict without a result counts as no spending.
        """
        accounts = self.accounts(metric, labels)
        if accounts or self._draining:
            await self._admission(accounts)
        given: list[Result] = []
        waiting = [self._lease(account) for account in accounts if waits]
        for lease in waiting:
            lease.waiting += 1
        try:
            yield given.append
        finally:
            for lease in waiting:
                lease.waiting -= 1
            if accounts:
                calls = sum(
                    one.judge.tries for one in given if one.judge is not None and not one.judge.cached
                )
                self.settle(usd=given[0].cost_usd if calls else None, calls=calls, accounts=accounts)

    def admit(self, accounts: Accounts | None = None) -> datetime | None:
        """Admit a verdict, which must then be settled; if none is admitted, return the end of the day."""
        day = self._today()
        leases = {one: self._lease(one) for one in self._all(accounts)}
        rooms = {one: self._room(one) for one in leases}
        short = [one for one, lease in leases.items() if not lease.fits(rooms[one])]
        for account, lease in leases.items():
            is_low = account in short or 2 * lease.free < lease.limit // LEASE
            if is_low and rooms[account] > 0 and lease.wanted > 0:
                self._send(account)
        if short:
            return day + timedelta(days=1)
        for lease in leases.values():
            lease.in_flight += 1
            lease.used_at = self._now().timestamp()
        return None

    def settle(self, *, usd: float | None, calls: int, accounts: Accounts | None = None) -> None:
        """Record the cost of an admitted verdict, None if unknown; 0 calls if it needed none."""
        for account in self._all(accounts):
            lease = self._lease(account)
            lease.in_flight -= 1
            if calls:
                lease.priced += round((usd or 0.0) * NANO)
                lease.verdicts += 1
        self.book(usd, calls=calls, accounts=accounts, verdicts=min(calls, 1))
        self._changed()

    def book(
        self, usd: float | None, *, calls: int = 1, accounts: Accounts | None = None, verdicts: int = 0
    ) -> None:
        """Record calls that needed no admission, with their cost; None if unknown."""
        self._today()
        for account in self._all(accounts):
            lease = self._lease(account)
            used = verdicts if account.cap == SAMPLING_BUDGET else calls
            lease.spent += used if account.unit == "calls" else round((usd or 0.0) * NANO)
            if lease.spent > lease.held:
                self._send(account)

    def drain(self, *, done: bool = False) -> None:
        """Until it is done, admit none: the next reader of the waiting tasks judges them."""
        self._draining = not done
        self._changed()

    def _all(self, accounts: Accounts | None) -> Accounts:
        return self.accounts("", _NO_LABELS) if accounts is None else accounts

    def _today(self) -> datetime:
        """Return the start of the day, which begins with no spending."""
        day = self._now().replace(hour=0, minute=0, second=0, microsecond=0)
        if self._day is None or day > self._day:
            self._period = day.date().isoformat()
            # Nothing is held; pricing and verdicts in flight go on.
            self._leases = {key: one for key, one in self._leases.items() if one.in_flight}
            for lease in self._leases.values():
                lease.held, lease.spent, lease.is_asking = (0 if self.worker else lease.limit), 0, False
            self._unsent.clear()
            ledgers = {one: ledger for one, ledger in self._ledgers.items() if one >= self._period}
            self._ledgers = defaultdict(Ledger, ledgers)
            self._demand.begin(day)
            self._values.clear()
            self._samples.clear()
            turns = {accounts: turn for accounts, turn in self._turns.items() if turn.locked()}
            self._turns = defaultdict(asyncio.Lock, turns)
        self._day = day  # a clock that is set back neither resets the budget nor extends the day
        return day

    async def _admission(self, accounts: Accounts) -> None:
        deferred: set[str] = set()
        # One waiter of the same accounts looks at each change, in turn.
        async with self._turns[accounts]:
            try:
                while not self._draining and (until := self.admit(accounts)) is not None:
                    spent = self._spent_caps(accounts)
                    for cap in sorted(one for one in spent if self._told.get(one) != until):
                        self._told[cap] = until
                        told, ratio = "judging budget spent, tasks wait in Kafka", self.spent_ratio(cap)
                        _log.warning(told, cap=cap, until=until.isoformat(), day_spent_ratio=round(ratio, 3))
                    self._waiting.update(spent - deferred)
                    deferred |= spent
                    seconds = max((until - self._now()).total_seconds(), 0.0)
                    with suppress(TimeoutError):
                        # Verdicts in flight may cost less than expected, and leases come back.
                        await asyncio.wait_for(self._change.wait(), min(seconds, LONGEST_SLEEP_SECONDS))
            finally:
                self._waiting.subtract(deferred)
            refused = self._draining
        if refused:
            raise DrainingError("the verdict waited for the budget, and the worker gives its task up")
        if [cap for cap in deferred if self._told.pop(cap, None) is not None]:
            _log.info("judging budget available again")

    def _spent_caps(self, accounts: Accounts) -> set[str]:
        """Return the limits of which nothing is left, neither here nor to be granted."""
        leases = [(one.cap, self._lease(one)) for one in accounts if self._room(one) <= 0]
        return {cap for cap, lease in leases if lease.free <= 0 and not lease.in_flight}

    def _changed(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()

    def sample(self) -> None:
        """Begin the day if it is new, and remember the spending, for the forecast."""
        self._today()
        now = self._now()
        if not self._samples or (now - self._samples[-1][0]).total_seconds() >= SAMPLE_SECONDS:
            spent = {one: self._spent(one) for one in self._open(None) if not one.value}
            self._samples.append((now, spent))

    # The log

    @property
    def holds_more(self) -> bool:
        leases = self._leases.values()
        return self._has_joined and any(one.is_asking or one.held > one.spent for one in leases)

    def joining(self) -> Entry:
        return Entry(self._period, self.worker, JOINING, limit=0, held=0, spent=0)

    def entries(self, *, idle_seconds: float = IDLE_SECONDS) -> list[Entry]:
        """Return the entries to write now: asks, and leases given back; none before it has joined."""
        if not self._has_joined:
            return []
        idle_since = self._now().timestamp() - idle_seconds
        found = []
        for account, lease in self._leases.items():
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
        lease.sent = Entry(self._period, self.worker, account, lease.limit, lease.held, lease.spent, ask)
        return lease.sent

    def heard(self, entry: Entry | None, offset: int) -> None:
        """Take the log's next record, and its entry if it has one."""
        self._today()
        if self._due not in (None, offset):
            # Records before this one are missing: a grant that is on its way may be wrong.
            for lease in self._leases.values():
                lease.is_sound = lease.is_asking = False
        self._due = offset + 1
        if entry is not None:
            self._has_joined |= entry.worker == self.worker
            if entry.period >= self._period:
                self._apply(entry)
        self._changed()

    def _apply(self, entry: Entry) -> None:
        ledger, mine = self._ledgers[entry.period], self._leases.get(entry.account)
        held = ledger.apply(entry)
        if entry.worker != self.worker:
            return
        if mine is not None and entry.period == self._period:
            if entry != mine.sent or not mine.is_sound:
                # Take back the grant: what others hold is overrated rather than what this worker may spend.
                held = ledger.apply(replace(entry, ask=0))
            if entry == mine.sent:
                mine.held, mine.is_asking, mine.used_at = held, False, self._now().timestamp()
        self.wake.set()
