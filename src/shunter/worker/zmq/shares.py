"""Which of a worker's dispatchers should have how much of its window.

While nobody fills its places, all have the same; where that is less than one each, the places go
round. Once somebody does, the others keep what they hold, and it has the rest. Several of
different stores share that alike. Dispatchers over one store see the same queue, and jobs cost
least in few large batches: so of those only one, the carrier, has it. Who has not filled its
places from one look to the next is not the carrier any more: a job that comes alone does not wait
until another dispatcher has heard of it.

A worker can't know whether a store from which nobody brings work has some. So a dispatcher over
such a store is its guest from time to time: it has one place until it has shown whether it uses
it. Pure: `now` is an argument. What may be given when is `credits.py`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence

from shunter.worker.zmq.account import Account

LOOK = 0.25
"""How often it is looked who fills its places, and how long a guest has for it; in heartbeats."""

REST = 3.0
"""How long no guest is tried after one that had no work, in heartbeats."""


class Shares:
    """Decides anew with each look, and when the window or those who live change.

    The first who fills its places is seen at once.

    Of several over one store that fill their places, workers with different seeds prefer
    different ones.
    """

    def __init__(self, heartbeat: float, *, seed: int = 0) -> None:
        self._heartbeat, self._seed = heartbeat, seed
        self._next_look = self._next_guest = 0.0
        self._basis: tuple[tuple[Account, ...], int] = ((), 0)
        self._carriers: dict[str, Account] = {}
        self._guest: Account | None = None
        self._turn = 0

    def allot(self, live: Sequence[Account], places: int, *, now: float) -> None:
        """Set each account's `share`; they add up to the number of places."""
        is_first = not self._carriers and any(a.was_filled or a.is_full for a in live)
        is_look, basis = is_first or now >= self._next_look, (tuple(live), places)
        if not is_look and basis == self._basis:
            return
        self._basis = basis
        if is_look:
            self._next_look = now + LOOK * self._heartbeat
            self._look(live, now)
        takers = [a for a in live if a is self._carriers.get(a.store)] or list(live)
        rest = places
        for account in live:
            if account not in takers:
                account.share = min(rest, self._kept(account))
                rest -= account.share
        first = self._turn % len(takers) if rest < len(takers) else 0
        _level(takers[first:] + takers[:first], rest)

    def _kept(self, account: Account) -> int:
        """Return what one has beside those that carry: what it holds, or a guest's place."""
        is_carried = account.store in self._carriers
        return 0 if is_carried else max(account.held, int(account is self._guest))

    def _look(self, live: Sequence[Account], now: float) -> None:
        """Choose the carriers and the guest, and go on to the next turn."""
        busy = [account for account in live if account.was_filled or account.is_full]
        kept = [account for account in self._carriers.values() if account in busy]
        first = self._seed % max(1, len(busy))
        self._carriers = {}
        for account in (*kept, *busy[first:], *busy[:first]):
            self._carriers.setdefault(account.store, account)
        self._guest = self._next_guest_of(live, now)
        # One that has not answered since it got its turn has not had it.
        self._turn += all(a.told == 0 or a.tried_at is not None for a in live)
        for account in live:
            account.was_filled = False

    def _next_guest_of(self, live: Sequence[Account], now: float) -> Account | None:
        """Return who is tried: the same until it has had its time, then who waits longest."""
        if not self._carriers:
            return None
        idle = [account for account in live if account.store not in self._carriers]
        guest = self._guest
        if guest in idle:
            since = guest.tried_at if guest.told else None
            if since is None or now - since < LOOK * self._heartbeat:
                return guest
            self._next_guest = now + REST * self._heartbeat
        waiting = [account for account in idle if account.told == 0]
        if not waiting or now < self._next_guest:
            return None
        return min(waiting, key=lambda account: account.tried_at or 0.0)


def _level(order: Sequence[Account], places: int) -> None:
    """Share places out alike; where that leaves some, those early in the order get one more."""
    for number, account in enumerate(order):
        account.share = places // len(order) + (number < places % len(order))
