"""How many jobs each of a worker's dispatchers may give it, so that all together never overdo it.

A worker has one window and may have several dispatchers, which know nothing of each other's
choices. So it divides the window: each dispatcher is told how many jobs *it* may have here. A
larger number counts from the moment it is sent. A smaller one counts only once a beat that
carried it, or a later one, was answered: until then the dispatcher may act on the older number,
and what it chose before that answer has arrived before it. What dispatchers may believe, what
they gave already, and what is left of those that are gone never add up to more than the window.
Who should have how much is `shares.py`'s business; this module says how much of it is safe.
Pure: times and counts are arguments. Spec: docs/spec/ping-pong.md, section 6.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from shunter.worker.zmq.account import Account
from shunter.worker.zmq.shares import Shares


class Credits:
    """Divides one worker's window among its dispatchers, each of which has an account."""

    def __init__(self, accounts: int, *, heartbeat: float, seed: int = 0) -> None:
        self.accounts = tuple(Account() for _ in range(accounts))
        self.is_blocked = False
        self._shares = Shares(heartbeat, seed=seed)
        self._gone = 0

    # ---- what happens

    def lost(self, account: Account) -> None:
        """Note that a connection was closed; what was on its way there never arrives."""
        self._gone += account.committed
        account.lost()

    def forgotten(self, account: Account) -> None:
        """Note that the dispatcher asks who we are: it may be another than the one before."""
        self._gone += account.committed
        account.is_live, account.held = False, 0

    def answered(
        self, account: Account, beat: int, *, dispatcher_id: str, store: str, now: float
    ) -> bool:
        """Take a PONG; True where it is worth sharing out anew."""
        is_new = not account.is_live or account.dispatcher_id != dispatcher_id
        if is_new:
            self._gone += account.held
            account.held = 0
            account.is_live, account.dispatcher_id, account.store = True, dispatcher_id, store
        return account.answered(beat, now=now) or is_new

    def took(self, account: Account, jobs: int) -> None:
        """Note jobs that came from a dispatcher."""
        if account.is_live:
            account.took(jobs)
        else:
            self._gone += jobs

    def measured(self, held: Mapping[str, int]) -> None:
        """Take note of how many jobs are here, by the dispatcher that gave them."""
        gone = sum(held.values())
        for account in self.accounts:
            account.held = held.get(account.dispatcher_id, 0) if account.is_live else 0
            gone -= account.held
        self._gone = max(0, gone)

    # ---- what follows

    def window(self, account: Account, *, limit: int, beat: int | None = None) -> int:
        """Return what a message to this dispatcher must say, as it is being sent."""
        window = self._allowed(account, limit)
        account.tell(window, beat)
        account.is_short = window < limit
        return window

    def room(self, account: Account, *, limit: int, at_work: int) -> int:
        """Return how many jobs may be taken from a dispatcher now, where so many are at work.

        One that keeps to its numbers always finds room. One that has lost track, for instance
        of a job that it declared over while it still runs here, may not.
        """
        unused = sum(max(0, a.bound - a.held) for a in self.accounts if a is not account)
        return max(0, max(limit, self.promised) - at_work - unused)

    @property
    def promised(self) -> int:
        """How many jobs may be here at a time, by all that was said and has come."""
        return self._gone + sum(account.committed for account in self.accounts)

    def share_out(self, *, limit: int, now: float) -> list[Account]:
        """Decide who should have what; return those that should hear of it now, by a beat."""
        live = [account for account in self.accounts if account.is_live]
        self._shares.allot(live, max(0, limit - self._gone), now=now)
        allowed = {account: self._allowed(account, limit) for account in live}
        self.is_blocked = any(allowed[a] < min(a.share, limit) for a in live)
        return [account for account in live if self._is_news(account, allowed[account])]

    def _is_news(self, account: Account, allowed: int) -> bool:
        if self.is_blocked and account.bound > account.share and not account.is_yielding:
            return True
        is_waiting = account.is_short and account.held >= account.told
        return is_waiting and allowed > account.told

    def _allowed(self, account: Account, limit: int) -> int:
        """Return the number that is wanted for a dispatcher, as far as it is safe."""
        others = self._gone + sum(a.committed for a in self.accounts if a is not account)
        if not account.is_live or account.is_greeted:
            # It may be a new one, in whose eyes nothing here is its own; or not be there at all.
            return max(0, limit - others) if len(self.accounts) == 1 else 0
        share = limit - self._gone if self._is_alone(account) else min(account.share, limit)
        return max(0, min(share, max(account.bound, limit - others)))

    def _is_alone(self, account: Account) -> bool:
        return not any(other.is_live for other in self.accounts if other is not account)
