"""What one of a worker's dispatchers was told about the window, and what it may still believe.

Messages on a connection arrive in order, and a dispatcher answers a beat after it has taken note
of it and after it has sent all jobs that it chose before. So with the answer to a beat all that
was said earlier is past, and what was said with it or since is what the dispatcher may go by.
Pure: times are arguments.
"""

from __future__ import annotations

from collections import deque


class Account:
    """What one dispatcher was told, and what it may still believe of it."""

    def __init__(self) -> None:
        self.dispatcher_id = ""
        self.store = ""
        self.is_live = False  # it has answered on this connection
        self.share = 0  # what it should have
        self.told = 0  # what it was told last
        self.bound = 0  # the most that it may believe it was told
        self.held = 0  # what it gave and is not done with; never too low
        self.was_filled = False  # it has used all that it was given, not long ago
        self.tried_at: float | None = None  # when it last learnt of credit after it had none
        self.is_short = False  # it was told less than there is
        self._granted_beat: int | None = None
        self._greeted_beat: int | None = None
        self._lowered: deque[tuple[int, int]] = deque()

    @property
    def committed(self) -> int:
        """How much of the window is not to be given to anybody else."""
        return max(self.bound, self.held)

    @property
    def is_full(self) -> bool:
        """It uses all that it was given, and may have more to give."""
        return self.held > 0 and self.held >= self.told

    @property
    def is_yielding(self) -> bool:
        """It was told of its smaller share by a beat that it has not answered yet."""
        return bool(self._lowered) and self._lowered[-1][1] <= self.share

    @property
    def is_greeted(self) -> bool:
        """It was sent a READY that it has not answered: another may have taken its place."""
        return self._greeted_beat is not None

    def greeted(self, beat: int) -> None:
        self._greeted_beat = beat

    def lost(self) -> None:
        """Begin anew: nothing that was said on an older connection counts."""
        self.is_live = False
        self.told = self.bound = self.held = 0
        self.was_filled = False
        self._granted_beat = self._greeted_beat = self.tried_at = None
        self._lowered.clear()

    def took(self, jobs: int) -> None:
        """Note jobs that came from it."""
        self.held += jobs
        self.was_filled = self.was_filled or self.is_full

    def tell(self, window: int, beat: int | None) -> None:
        if self.told == 0 < window:
            self._granted_beat = self.tried_at = None
        if self._granted_beat is None and window > 0:
            self._granted_beat = beat
        self.told = window
        if window >= self.bound:
            self.bound = window
            self._lowered.clear()
        elif beat is not None:
            self._lowered.append((beat, window))
        elif self._lowered:
            since, lowered = self._lowered[-1]
            self._lowered[-1] = since, max(lowered, window)

    def answered(self, beat: int, *, now: float) -> bool:
        """Take an answer; True where there is less now that it may believe."""
        if self._granted_beat is not None and beat >= self._granted_beat:
            self._granted_beat, self.tried_at = None, self.tried_at or now
        if self._greeted_beat is not None and beat >= self._greeted_beat:
            self._greeted_beat = None
        believed = None
        while self._lowered and self._lowered[0][0] <= beat:
            believed = self._lowered.popleft()[1]
        if believed is None:
            return False
        self.held = max(self.held, self.bound)
        self.bound = max(believed, *(window for _, window in self._lowered), 0)
        return True
