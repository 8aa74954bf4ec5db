"""Which of a worker's dispatchers should have how much of its window.

While nobody uses all it has, everyone gets the same; where that is less than one place each, the
places go round, one step with each heartbeat. While somebody does use all it has, those that
don't lend it what they leave unused. A worker can't know whether a dispatcher without credit has
work, so it tries them: each that has none, and whose store nobody else brings work from, is
given one place from time to time, and keeps it if it uses it.

Dispatchers over one store see the same queue, so it is enough that one of them has credit, and
jobs cost least in few large batches, as with one dispatcher. So a busy store has a carrier, which
has the places of all. Who has not filled its places for a while is the carrier no more, and all
have places again: a job that comes alone does not wait until another dispatcher has heard of it,
and one that is stuck keeps nobody from work.
Pure: `now` is an argument. What may be given when is `credits.py`'s business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from shunter.worker.zmq.account import Account

SETTLE = 0.25
"""How long a dispatcher that knows of its credit has to use it, in heartbeats."""

REST = 3.0
"""For how long a dispatcher that did not use its credit is left without, in heartbeats."""

PLENTY = 16
"""How many places there must be for each dispatcher: with fewer, no batch is large."""

Accounts = tuple[Account, ...]


class Carriers:
    """Chooses a carrier as soon as somebody is busy, and looks at it from time to time.

    Of several that are busy, workers with different seeds choose different ones.
    """

    def __init__(self, *, look_every: float, seed: int) -> None:
        self._look_every, self._seed = look_every, seed
        self._next_look = 0.0
        self._chosen: Accounts = ()

    def choose(self, live: Sequence[Account], places: int, *, now: float) -> Accounts:
        """Return the carriers of all stores that have one."""
        is_look = now >= self._next_look
        busy = [account for account in live if account.was_filled or account.is_full]
        kept = [account for account in self._chosen if account in (busy if is_look else live)]
        first = self._seed % max(1, len(busy))
        chosen: dict[str, Account] = {}
        for account in (*kept, *busy[first:], *busy[:first]):
            chosen.setdefault(account.store, account)
        fellows = Counter(account.store for account in live)
        is_plenty = places >= PLENTY * len(live)
        self._chosen = tuple(a for a in chosen.values() if is_plenty and fellows[a.store] > 1)
        if is_look:
            self._next_look = now + self._look_every
            for account in live:
                account.was_filled = False
        return self._chosen


class Shares:
    """Decides anew with each heartbeat, and when window, carriers or those who live change."""

    def __init__(self, heartbeat: float, *, seed: int = 0) -> None:
        self._heartbeat = heartbeat
        self._carriers = Carriers(look_every=SETTLE * heartbeat, seed=seed)
        self._next_round = 0.0
        self._basis: tuple[Accounts, int, Accounts] = ((), 0, ())
        self._is_lending = False
        self._turn = 0

    def allot(self, live: Sequence[Account], places: int, *, now: float) -> None:
        """Set each account's `share`; they add up to the number of places."""
        is_round = now >= self._next_round
        carriers = self._carriers.choose(live, places, now=now)
        basis = (tuple(live), places, carriers)
        if not is_round and basis == self._basis and not self._was_tried_in_vain(live, now):
            return
        self._basis = basis
        full = [account for account in live if account.is_full]
        self._is_lending = bool(full) and len(live) > 1
        if self._is_lending:
            self._lend(live, full, places, now)
        else:
            self._spread(live, places, is_round=is_round)
        for carrier in carriers:
            _gather(carrier, live)
        if is_round:
            self._next_round = now + self._heartbeat

    # ---- nobody needs more

    def _spread(self, live: Sequence[Account], places: int, *, is_round: bool) -> None:
        order = list(live)
        if places < len(live):
            # One that has not answered since it got its turn has not had it.
            has_gone_round = all(a.told == 0 or a.tried_at is not None for a in live)
            self._turn += is_round and has_gone_round
            first = self._turn % len(live)
            order = order[first:] + order[:first]
        _level(order, places, [account.held for account in order])

    # ---- somebody does

    def _lend(
        self, live: Sequence[Account], full: Sequence[Account], places: int, now: float
    ) -> None:
        lenders = [account for account in live if account not in full]
        for account in lenders:
            account.share = self._kept(account, now)
        if not any(account.share > account.told == 0 for account in lenders):
            served = {account.store for account in full}
            self._try_one([a for a in lenders if a.store not in served], now)
        rest = max(0, places - sum(account.share for account in lenders))
        # Who has had credit the longest is the first to go without.
        _level(sorted(full, key=lambda a: -a.granted), rest, [0] * len(full))

    def _kept(self, account: Account, now: float) -> int:
        """What one keeps that does not use all it has."""
        if account.told == 0:
            return max(account.held, min(account.share, 1))
        if not self._is_settled(account, now):
            return max(account.held, account.told)
        account.rested_at = now
        return account.held

    def _try_one(self, lenders: Sequence[Account], now: float) -> None:
        """Give a place to one that has none and may have work by now, each in its turn."""
        rested = [
            account
            for account in lenders
            if account.told == account.share == 0
            and (account.rested_at is None or now - account.rested_at >= REST * self._heartbeat)
        ]
        if rested:
            min(rested, key=lambda account: account.granted).share = 1

    def _was_tried_in_vain(self, live: Sequence[Account], now: float) -> bool:
        """True if one has shown that it has no work, while another waits for its place."""
        return self._is_lending and any(
            account.held == 0 < min(account.share, account.told) and self._is_settled(account, now)
            for account in live
        )

    def _is_settled(self, account: Account, now: float) -> bool:
        tried_at = account.tried_at
        return tried_at is not None and now - tried_at >= SETTLE * self._heartbeat


def _gather(carrier: Account, live: Iterable[Account]) -> None:
    """Give a carrier all that dispatchers over its store should have."""
    fellows = [account for account in live if account.store == carrier.store]
    total = sum(account.share for account in fellows)
    for account in fellows:
        account.share = total if account is carrier else 0


def _level(order: Sequence[Account], places: int, kept: Sequence[int]) -> None:
    """Share places out so that the least get first, but nobody less than is kept.

    Where not all can be alike, those early in the order get one more.
    """
    rest = places - sum(kept)
    if rest < 0:
        rest, kept = places, [0] * len(kept)
    for account, share in zip(order, kept, strict=True):
        account.share = share
    while rest and order:
        least = min(account.share for account in order)
        lowest = [account for account in order if account.share == least]
        above = [account.share - least for account in order if account.share > least]
        rise = min([rest // len(lowest), *above])
        if rise == 0:
            for account in lowest[:rest]:
                account.share += 1
            return
        for account in lowest:
            account.share += rise
        rest -= rise * len(lowest)
