"""A worker and its dispatchers, as far as windows go, with everything between them made visible.

Messages wait on both ways of a connection until they are delivered; a dispatcher's turn has two
halves, since more may arrive while it writes. A connection that the worker has opened anew loses
what was on its way to the worker; what was on its way to the dispatcher may still be read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from shunter.worker.zmq.account import Account
from shunter.worker.zmq.credits import Credits
from shunter.worker.zmq.origins import Origins

HEARTBEAT = 1.0


@dataclass
class Said:
    """A message from the worker."""

    what: str
    window: int
    beat: int = 0
    jobs: tuple[str, ...] = ()
    is_known: bool = False  # it gives back what was here, not what was refused


@dataclass
class Answer:
    """A message to the worker; `line` is the connection on whose word jobs were chosen."""

    what: str
    beat: int = 0
    jobs: tuple[str, ...] = ()
    line: Line | None = None
    dispatcher_id: str = ""


@dataclass
class Line:
    """One connection."""

    out: deque[Said] = field(default_factory=deque)
    back: deque[Answer] = field(default_factory=deque)


class Station:
    """One dispatcher. It has as much work as `backlog` says."""

    ids = count(1)

    def __init__(self, place: int, store: str) -> None:
        self.place, self.store = place, store
        self.backlog = 0
        self.given = 0
        self.begin()

    def begin(self) -> None:
        """Start with nothing in mind."""
        self.id = f"d-{next(self.ids)}"
        self.line: Line | None = None  # as whose READY it has read
        self.known_line: Line | None = None  # as whose READY it has acted on
        self.window: int | None = None
        self.held: set[str] = set()
        self.inbox: list[Said] = []
        self.pending: list[Answer] | None = None

    def hear(self, line: Line, said: Said) -> None:
        """Take a message in, as `gateway.backend` and `dispatcher.resize` do."""
        if said.what == "READY":
            self.line = line
            self.inbox = [m for m in self.inbox if m.what != "PING"]
        elif line is not self.line:
            line.back.append(Answer("ERROR"))
            return
        if said.what in ("RESULTS", "RETURN") and self.window is not None:
            self.window = said.window
        self.inbox.append(said)

    def plan(self, new_job: count[int], lost: Callable[[str], bool]) -> None:
        """Decide on all that has arrived, in the order of `planner.plan`.

        A beat shows what was lost on the way; how that is found out is not this model's subject.
        """
        assert self.pending is None
        inbox, self.inbox = self.inbox, []
        self.pending = []
        for said in inbox:
            if said.what == "READY":
                self.window, self.known_line = said.window, self.line
                self.pending.append(Answer("PONG", said.beat, dispatcher_id=self.id))
        for said in inbox:
            if said.what in ("RESULTS", "RETURN"):
                self.held -= set(said.jobs)
        beats = [said for said in inbox if said.what == "PING"]
        if beats and self.window is not None:
            self.window = beats[-1].window
            self.pending.append(Answer("PONG", beats[-1].beat, dispatcher_id=self.id))
            self.held = {job for job in self.held if not lost(job)}
        room = max(0, (self.window or 0) - len(self.held))
        jobs = tuple(f"j-{next(new_job)}" for _ in range(min(room, self.backlog)))
        self.backlog -= len(jobs)
        self.held |= set(jobs)
        self.given += len(jobs)
        if jobs:
            self.pending.append(Answer("JOBS", jobs=jobs, line=self.known_line))
        taken = tuple(job for said in inbox if said.what == "RESULTS" for job in said.jobs)
        if taken:
            self.pending.append(Answer("TAKEN", jobs=taken))

    def perform(self) -> None:
        """Send what was decided, to wherever the worker is by now."""
        assert self.pending is not None
        if self.line is not None:
            self.line.back.extend(self.pending)
        self.pending = None


class World:
    """One worker with some dispatchers."""

    def __init__(self, stores: str, limit: int, *, seed: int = 0) -> None:
        self.limit = limit
        self.now = 0.0
        self.credits = Credits(len(stores), heartbeat=HEARTBEAT, seed=seed)
        self.origins = Origins()
        self.stations = [Station(place, store) for place, store in enumerate(stores)]
        self.lines = [Line() for _ in stores]
        self.old_lines: list[tuple[Station, Line]] = []
        self.beat = 0
        self.beaten_at = [0.0] * len(stores)
        self.at_work: dict[str, int] = {}
        self.unconfirmed: dict[str, int] = {}
        self.refused = 0
        self.may_refuse = False
        self.extra_beats = 0
        self.new_job = count(1)
        for place in range(len(stores)):
            self.open(place)

    # ---- the worker

    def account(self, place: int) -> Account:
        return self.credits.accounts[place]

    def open(self, place: int) -> None:
        """Open a connection anew: nothing that is still on its way to us on the old one comes."""
        old = self.lines[place]
        old.back.clear()
        self.old_lines.append((self.stations[place], old))
        self.lines[place] = Line()
        for said in self.stations[place].inbox:
            said.is_known = False  # it counts on nobody's having read it
        was_live = self.account(place).is_live
        self.credits.lost(self.account(place))
        self.origins.lost(self.account(place))
        for fellow in self.stations if was_live else ():
            is_same_store = fellow.store == self.stations[place].store
            if is_same_store and self.account(fellow.place).is_live:
                self.say_ready(fellow.place)
        self.say_ready(place)

    def say_ready(self, place: int) -> None:
        self.credits.measured(self.origins.counts())
        self.beat += 1
        self.account(place).greeted(self.beat)
        self.say("READY", place, beat=self.beat)
        for job in [job for job, home in self.unconfirmed.items() if home == place]:
            self.say("RESULTS", place, jobs=(job,))

    def say(
        self, what: str, place: int, *, beat: int | None = None, jobs: tuple[str, ...] = ()
    ) -> None:
        window = self.credits.window(self.account(place), limit=self.limit, beat=beat)
        self.lines[place].out.append(Said(what, window, beat or 0, jobs))

    def ping(self, place: int) -> None:
        self.beat += 1
        self.say("PING", place, beat=self.beat)

    def tick(self, seconds: float) -> None:
        self.now += seconds
        for place, at in enumerate(self.beaten_at):
            if self.now - at >= HEARTBEAT:
                self.beaten_at[place] = self.now
                self.ping(place)
        self.share_out()

    def share_out(self) -> None:
        self.credits.measured(self.origins.counts())
        news = self.credits.share_out(limit=self.limit, now=self.now)
        for place, account in enumerate(self.credits.accounts):
            if account in news:
                self.extra_beats += 1
                self.ping(place)

    def end(self, job: str) -> None:
        """A job is done; its report goes out."""
        place = self.at_work.pop(job)
        self.origins.reported([job])
        self.unconfirmed[job] = place
        self.say("RESULTS", place, jobs=(job,))

    def give_back(self, job: str) -> None:
        place = self.at_work.pop(job)
        self.say("RETURN", place, jobs=(job,))
        self.lines[place].out[-1].is_known = True
        self.origins.returned([job], self.account(place), after=self.beat)

    def hear(self, place: int) -> None:
        """Read the next message of a dispatcher."""
        answer, account = self.lines[place].back.popleft(), self.account(place)
        match answer.what:
            case "ERROR":
                self.credits.forgotten(account)
                self.say_ready(place)
            case "PONG":
                self.origins.answered(account, answer.beat)
                if self.credits.answered(
                    account,
                    answer.beat,
                    dispatcher_id=answer.dispatcher_id,
                    store=self.stations[place].store,
                    now=self.now,
                ):
                    self.share_out()
            case "TAKEN":
                self.origins.confirmed(answer.jobs)
                for job in answer.jobs:
                    self.unconfirmed.pop(job, None)
                if self.credits.is_blocked:
                    self.share_out()
            case "JOBS":
                room = self.credits.room(account, limit=self.limit, at_work=len(self.at_work))
                if answer.line is self.lines[place] and not self.may_refuse:
                    assert room >= len(answer.jobs), "a dispatcher that kept to its number"
                taken, surplus = answer.jobs[:room], answer.jobs[room:]
                self.credits.took(account, len(taken))
                self.origins.took(taken, account)
                self.at_work.update(dict.fromkeys(taken, place))
                if surplus:
                    self.refused += len(surplus)
                    window = self.credits.window(account, limit=0)
                    self.lines[place].out.append(Said("RETURN", window, jobs=surplus))

    # ---- the dispatchers

    def read(self, place: int) -> None:
        """Let a dispatcher read the next message on its present connection."""
        line = self.lines[place]
        self.stations[place].hear(line, line.out.popleft())

    def read_old(self, index: int) -> None:
        """Let a dispatcher read the next message on a connection that was given up."""
        station, line = self.old_lines[index]
        station.hear(line, line.out.popleft())
        line.back.clear()

    def restart(self, place: int) -> None:
        """A dispatcher dies, and another begins at its address. What it had not read is lost."""
        self.lines[place].out.clear()
        self.old_lines = [(s, line) for s, line in self.old_lines if s.place != place]
        station = self.stations[place]
        station.begin()

    def begin_turn(self, place: int) -> None:
        self.stations[place].plan(self.new_job, self.is_lost)

    # ---- what may be at the worker

    def is_lost(self, job: str) -> bool:
        """True if a job is neither here nor on any way."""
        on_the_way: list[Said | Answer] = []
        for station, line in zip(self.stations, self.lines, strict=True):
            on_the_way += [*line.out, *station.inbox, *line.back, *(station.pending or ())]
        is_seen = any(job in message.jobs for message in on_the_way)
        return not is_seen and job not in self.at_work and job not in self.unconfirmed

    def may_come(self) -> int:
        """How many jobs are here, or on their way, by choices that their connection allows."""
        here = self.at_work.keys() | self.unconfirmed.keys()
        for station, line in zip(self.stations, self.lines, strict=True):
            for said in (*line.out, *station.inbox):
                if said.what == "RETURN" and said.is_known:
                    here = here | set(said.jobs)
            answers = [*line.back, *(station.pending or () if station.line is line else ())]
            for answer in answers:
                if answer.what == "TAKEN":
                    here = here - set(answer.jobs)
                elif answer.what == "JOBS" and answer.line is line:
                    here = here | set(answer.jobs)
        return len(here)

    # ---- when nothing goes wrong

    def flow(self) -> None:
        """Deliver everything and let everybody decide, until nothing moves."""
        for _ in range(500):
            moved = False
            for place, station in enumerate(self.stations):
                while self.lines[place].out:
                    self.read(place)
                    moved = True
                if station.pending is not None:
                    station.perform()
                before = station.given
                self.begin_turn(place)
                moved = moved or station.given > before
                station.perform()
                while self.lines[place].back:
                    self.hear(place)
                    moved = True
            if not moved:
                return
        raise AssertionError("it does not come to rest")

    def run(self, seconds: float, *, job_seconds: float = 0.0) -> None:
        """Let time pass, with jobs that take so long."""
        began: dict[str, float] = {}
        until = self.now + seconds
        while self.now < until:
            self.flow()
            self.tick(0.1)
            self.flow()
            for job in list(self.at_work):
                if self.now - began.setdefault(job, self.now) >= job_seconds:
                    self.end(job)
