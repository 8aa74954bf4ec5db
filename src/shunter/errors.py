"""Every error Shunter raises, in one tree.

    ShunterError
    ├── SettingsError            a setting or config file is wrong       (the user's fault)
    ├── AppError                 a handler is declared or called wrongly (the user's fault)
    ├── FlowError                a flow is described wrongly; nothing ran (the user's fault)
    │   └── FlowFailed           a run began and failed: a function raised, a disk is full
    ├── CodecError               what is encrypted can't be opened, or a key can't be used
    ├── Unreachable              no dispatcher answers
    │   ├── StoreUnavailable     one does, but its store fails
    │   └── KeyRejected          one is there, but wants a key, or another one
    ├── ProtocolError            a peer sent what the protocol forbids   (the peer's fault)
    ├── Forbidden                a key may not do what was asked with it
    ├── KeyRefused               a key can't be made or revoked          (the user's fault)
    ├── LimitsRefused            a type's limits can't be changed so     (the user's fault)
    ├── PauseRefused             this can't be held back, or let go on   (the user's fault)
    ├── ScheduleError            about one schedule
    │   ├── ScheduleRefused      it can't be so                          (the user's fault)
    │   └── ScheduleNotFound
    ├── StoreError               the store can't do what was asked
    ├── StagingError             a result can't be staged or published so (the user's fault)
    │   └── Superseded           another attempt has taken over what this one staged
    └── JobError                 about one job
        ├── JobRefused           a submission was not accepted
        │   ├── UniqueKeyTaken   its key belongs to a different job
        │   └── DispatcherBusy   too much is under way; the same may be accepted later
        ├── JobNotFound
        │   └── RunNotFound      no job belongs to this run of a workflow
        ├── InvalidTransition    the transition table has no such step
        │   └── JobFinal         the job has ended; ended jobs never change
        ├── StaleAttempt         the report is about a run that is no longer the current one
        ├── LeaseLost            the reporter does not hold the job
        ├── StepError            about one step, wait or stream of a run
        │   ├── StepRefused      it can't be used or kept so              (the user's fault)
        │   ├── StaleStep        its run is no longer the current one
        │   ├── SignalTimeout    the signal did not come in time
        │   └── ChildFailed      a job that it waited for did not complete
        ├── StreamRestarted      what was read of a stream came from a run that was repeated
        ├── JobFailed            raised to a client that asked for the result
        │   └── NotPlaced        no worker took it in time, so it was given up
        ├── JobCancelled         likewise
        └── ResultTimeout        likewise, the job is still under way

A message says subject, fact and remedy, and its parts stay available as attributes.
"""

from __future__ import annotations

import re


class ShunterError(Exception):
    """The root of all errors that Shunter raises on purpose."""


class SettingsError(ShunterError):
    """A setting is unknown, has the wrong type or is out of range."""

    def __init__(self, source: str, key: str, found: str, allowed: str) -> None:
        super().__init__(f"{source}: {key}: found {found}; allowed: {allowed}")
        self.source, self.key, self.found, self.allowed = source, key, found, allowed


class AppError(ShunterError):
    """An app can't be loaded, or a handler was declared or called wrongly."""


class CodecError(ShunterError):
    """Data can't be opened here: the key is missing or another, or the data was altered or moved.

    `label` names the key, where it is known.
    """

    def __init__(self, message: str, *, label: str = "") -> None:
        super().__init__(message)
        self.label = label


class FlowError(ShunterError):
    """A flow can't be loaded, or one of its stages can't be or can't do what it was asked for.

    `place` is the user's line, as file:line.
    """

    def __init__(self, message: str, *, stage: str = "", place: str = "") -> None:
        subject = f"stage {stage!r}" if stage else ""
        super().__init__(": ".join(filter(None, [place, subject, message])))
        self.stage, self.place = stage, place


class FlowFailed(FlowError):
    """A run began and failed: a function of the flow's raised, its output could not be written,
    or what it ran on was lost.
    """

    @classmethod
    def of(cls, error: FlowError) -> FlowFailed:
        """Return what a source or sink found wrong as the end of a run that had begun."""
        failed = cls(str(error))
        failed.stage, failed.place = error.stage, error.place
        return failed


class Unreachable(ShunterError):
    """No dispatcher answered in time."""

    def __init__(self, addresses: str, waited: float) -> None:
        super().__init__(
            f"no dispatcher answered at {addresses} within {waited:g} s; "
            "start one with 'shunter up' or 'shunter dispatcher', or name another address"
        )
        self.addresses, self.waited = addresses, waited


class StoreUnavailable(Unreachable):
    """A dispatcher answered, and said each time that its store fails."""

    def __init__(self, addresses: str, waited: float, reason: str) -> None:
        ShunterError.__init__(
            self,
            f"the dispatcher at {addresses} answers, but its store has failed for {waited:g} s: "
            f"{reason}; what was asked for may or may not be done, ask again once it is mended",
        )
        self.addresses, self.waited, self.reason = addresses, waited, reason


class KeyRejected(Unreachable):
    """Somebody listens there, and does not talk to us."""

    def __init__(self, addresses: str, waited: float, *, has_key: bool) -> None:
        fact, remedy = (
            ("does not know the key that was shown", "it may be revoked, or another system's")
            if has_key
            else ("talks only to those who show a key", "name yours: key_file=, or auth.key_file")
        )
        ShunterError.__init__(self, f"the dispatcher at {addresses} {fact}; {remedy}")
        self.addresses, self.waited, self.has_key = addresses, waited, has_key


class ProtocolError(ShunterError):
    """A peer sent something that the protocol does not allow."""


class Forbidden(ShunterError):
    """A key may not do what was asked with it."""


class KeyRefused(ShunterError):
    """A key can't be made or revoked."""

    def __init__(self, name: str, fact: str, remedy: str) -> None:
        super().__init__(f"key {name!r}: {fact}; {remedy}")
        self.name, self.fact, self.remedy = name, fact, remedy


class LimitsRefused(ShunterError):
    """The limits of a type of jobs can't be changed so; nothing was."""

    def __init__(self, job_type: str, field: str, reason: str) -> None:
        super().__init__(f"limits of {job_type}: {field}: {reason}")
        self.job_type, self.field, self.reason = job_type, field, reason


class PauseRefused(ShunterError):
    """This can't be held back, or is not held back."""

    def __init__(self, target: str, name: str, message: str) -> None:
        super().__init__(f"{target} {name!r}: {message}")
        self.target, self.name, self.reason = target, name, message


class ScheduleError(ShunterError):
    """Something about one schedule."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"schedule {name!r}: {message}")
        self.name = name


class ScheduleRefused(ScheduleError):
    """A schedule can't be so; `field` names what is wrong, `reason` what to send instead."""

    def __init__(self, name: str, field: str, reason: str) -> None:
        super().__init__(name[:64], f"{field}: {reason}")
        self.field, self.reason = field, reason


class ScheduleNotFound(ScheduleError):
    """There is no schedule of that name, or it is another namespace's."""

    def __init__(self, name: str) -> None:
        super().__init__(name[:128], "there is none; `shunter schedule ls` lists all")


class StoreError(ShunterError):
    """The store can't be opened, or refused an operation."""


class StagingError(ShunterError):
    """A result can't be staged, published or upserted in the way that was asked for."""


class Superseded(StagingError):
    """What this attempt staged was dropped, or a newer attempt stages the same; nothing changed."""

    def __init__(self, target: str, attempt: int, fact: str) -> None:
        super().__init__(
            f"{target}: attempt {attempt} published nothing, {fact}; let this run end, "
            "the newer one publishes"
        )
        self.target, self.attempt = target, attempt


class JobError(ShunterError):
    """Something about one job."""

    def __init__(self, job_id: str, message: str) -> None:
        super().__init__(f"job {job_id}: {message}")
        self.job_id = job_id


class JobRefused(JobError):
    """A submission was not accepted; nothing was stored."""

    def __init__(self, job_id: str, field: str, message: str) -> None:
        super().__init__(job_id, f"{field}: {message}")
        self.field, self.reason = field, message


class UniqueKeyTaken(JobRefused):
    """The unique key, or the id, already belongs to a job with other contents.

    `holder` is empty where that job is none of the client's business.
    """

    def __init__(self, job_id: str, field: str, key: str, holder: str = "") -> None:
        fault = f"{key!r} is taken; send another one"
        if holder:
            fault = (
                f"{key!r} belongs to job {holder}, whose type or payload differs; "
                "send the same contents, or another key"
            )
        super().__init__(job_id, field, fault)
        self.key, self.holder = key, holder

    @staticmethod
    def holder_in(reason: str) -> str | None:
        """Return whose the key is, of the words above as they came over the wire."""
        found = re.search(r" belongs to job (\S+), whose type or payload differs; ", reason)
        return found[1] if found else None


class DispatcherBusy(JobRefused):
    """The dispatcher has too much to do, altogether or for this client; nothing was stored."""

    def __init__(self, job_id: str, message: str) -> None:
        super().__init__(
            job_id,
            "busy",
            message or "too much is under way; wait for some of it to end, then send it again",
        )


class JobNotFound(JobError):
    """No job has this id; it may have been purged after its retention."""

    REASON = "not found; it never existed or its retention has passed"

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, self.REASON)


class RunNotFound(JobNotFound):
    """No job belongs to this run; they may have been purged after their retention."""

    def __init__(self, run_id: str) -> None:
        ShunterError.__init__(
            self, f"run {run_id}: not found; it has no jobs, or their retention has passed"
        )
        self.job_id = self.run_id = run_id


class InvalidTransition(JobError):
    """The transition table has no such step."""

    def __init__(self, job_id: str, status: str, event: str) -> None:
        super().__init__(job_id, f"'{event}' can't happen to a job that is {status}")
        self.status, self.event = status, event


class JobFinal(InvalidTransition):
    """The job has ended, and but for their callbacks ended jobs never change."""


class StaleAttempt(JobError):
    """A report about a run that is no longer the job's current one."""

    def __init__(self, job_id: str, reported: int, current: int) -> None:
        super().__init__(
            job_id,
            f"a report on attempt {reported} is refused, the job is at attempt {current}; "
            "drop the result, the current attempt will report its own",
        )
        self.reported, self.current = reported, current


class StepError(JobError):
    """Something about one step of a job, by its name."""

    def __init__(self, job_id: str, step: str, message: str) -> None:
        super().__init__(job_id, f"step {step!r}: {message}")
        self.step = step


class StepRefused(StepError):
    """A step can't be used or kept so; another try of the same code would not help."""


class StaleStep(StepError):
    """A step of a run that is no longer the job's current one."""

    def __init__(self, job_id: str, step: str, attempt: int) -> None:
        super().__init__(
            job_id,
            step,
            f"stale: attempt {attempt} is no longer the current one, so its result is not kept; "
            "return, the current attempt goes on from the steps that were kept",
        )
        self.attempt = attempt


class SignalTimeout(StepError):
    """The signal that a job waited for did not come in time."""

    def __init__(self, job_id: str, step: str, signal: str) -> None:
        super().__init__(
            job_id,
            step,
            f"signal {signal!r} did not come in time; catch SignalTimeout to go on without it",
        )
        self.signal = signal


class ChildFailed(StepError):
    """A job that was waited for failed or was cancelled."""

    def __init__(self, job_id: str, step: str, child_id: str, message: str) -> None:
        super().__init__(job_id, step, f"job {child_id} did not complete: {message}")
        self.child_id = child_id


class StreamRestarted(JobError):
    """Chunks that were read came from a run that was repeated, and emits anew."""

    def __init__(self, job_id: str, number: int) -> None:
        super().__init__(
            job_id,
            f"chunks from number {number} on came from a run that was repeated; throw them away, "
            "and read with stream(on_restart=...) to be told",
        )
        self.number = number


class RunNotProven(StaleAttempt):
    """A report without the secret of the run that it speaks of: anybody may have sent it."""

    def __init__(self, job_id: str, attempt: int) -> None:
        JobError.__init__(
            self,
            job_id,
            f"a report on attempt {attempt} is refused, it does not show the secret that came with "
            "that run; drop it, the worker that has the run will report its own",
        )
        self.reported = self.current = attempt


class LeaseLost(JobError):
    """A worker reported on a job that another worker holds."""

    def __init__(self, job_id: str, reporter: str, holder: str) -> None:
        super().__init__(
            job_id,
            f"a report from {reporter} is refused, the job is held by {holder}; "
            f"drop the result, {holder} will report its own",
        )
        self.reporter, self.holder = reporter, holder


class JobFailed(JobError):
    """The job failed; `kind`, `message` and `traceback` say how."""

    def __init__(self, job_id: str, kind: str, message: str, traceback: str = "") -> None:
        super().__init__(job_id, f"failed ({kind}): {message}")
        self.kind, self.message, self.traceback = kind, message, traceback


class NotPlaced(JobFailed):
    """Nobody took the job within the time that it had for that, so it was given up, not begun."""

    def __init__(self, job_id: str, message: str) -> None:
        super().__init__(
            job_id,
            "unplaced",
            message or "no worker took it in time; start one that does its type, and send it again",
        )


class JobCancelled(JobError):
    """The job was cancelled before it could complete."""

    def __init__(self, job_id: str, message: str = "cancelled") -> None:
        super().__init__(job_id, message)


class ResultTimeout(JobError, TimeoutError):
    """The job did not end in the time the caller gave it; it goes on regardless."""

    def __init__(self, job_id: str, waited: float, hint: str = "") -> None:
        fact = f"no result within {waited:g} s; it goes on, ask again later"
        super().__init__(job_id, f"{fact}; {hint}" if hint else fact)
        self.waited, self.hint = waited, hint
