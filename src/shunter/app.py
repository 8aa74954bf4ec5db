"""The handlers that a user declares, and how a worker finds them.

An app decides which types of job exist here, with which defaults, and which function does
each. Must not know processes, sockets or event loops: it calls functions, and an `async def`
gives the caller an awaitable. How arguments travel is in `payload.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from msgspec.structs import replace

from shunter.codec import Codec, CodecContext, SealedField, seal
from shunter.context import Context, Terminated
from shunter.errors import AppError
from shunter.handler.arounds import Around
from shunter.handler.final_failure import FinalFailureHook
from shunter.handler.setups import Setup
from shunter.job_function import Anything, CallableJob, JobDecorator, JobFunction
from shunter.model.identity import NAME_RULE, RESERVED, is_name, is_reserved
from shunter.model.job_limits import JobLimits, Limit, Rate, limit_faults
from shunter.model.limits import concurrency_fault, option_faults
from shunter.model.option_types import option_type_faults
from shunter.model.retry import Retry
from shunter.model.schedule import (
    DEFAULT_CATCH_UP_SECONDS,
    Overlap,
    ScheduleTerms,
    terms_faults,
)
from shunter.model.spelling import did_you_mean
from shunter.model.timing import Timing
from shunter.model.worker import DeclaredSchedule, Handler
from shunter.payload import Parameters, payload_of, result_of

__all__ = [
    "App",
    "Context",
    "JobFunction",
    "Limit",
    "Rate",
    "Retry",
    "Terminated",
    "load_app",
    "payload_of",
    "result_of",
]

NO_SCHEDULE = {"overlap": Overlap.SKIP, "catch_up": DEFAULT_CATCH_UP_SECONDS, "jitter": 0.0}

P = ParamSpec("P")
R = TypeVar("R")


class App:
    """A set of handlers, each the one function for its type of job.

    With a `codec`, arguments, results and all that handlers say are encoded between clients and
    handlers; payloads that came without are refused, unless `accept_plain`. A `version` is shown
    with its workers and the jobs that they did, and all workers of one can be drained.
    """

    def __init__(
        self, *, codec: Codec | None = None, accept_plain: bool = False, version: str = ""
    ) -> None:
        if version and not (isinstance(version, str) and is_name(version)):
            raise AppError(f"version={version!r} names no version; write {NAME_RULE}")
        if codec is not None and not isinstance(codec, Codec):
            raise AppError(
                f"codec={type(codec).__name__} is no codec; a codec has label, encode and decode, "
                "such as AesCodec"
            )
        self.codec, self.accept_plain, self.version = codec, accept_plain, version
        self._functions: dict[str, JobFunction[..., Any]] = {}
        self._provided: dict[Any, Setup] = {}
        self.setups: list[Setup] = []
        self.arounds: list[Around] = []
        self.final_failure_hooks: list[FinalFailureHook] = []

    # As JobDecorator has them: a bare @app.job is the same.
    @overload
    def job(
        self, function: Callable[Concatenate[Anything, ...], Coroutine[Any, Any, R]], /
    ) -> CallableJob[..., R, ..., Coroutine[Any, Any, R]]: ...

    @overload
    def job(
        self, function: Callable[Concatenate[Anything, ...], R], /
    ) -> CallableJob[..., R, ..., R]: ...

    @overload
    def job(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> CallableJob[P, R, Concatenate[Context, P], Coroutine[Any, Any, R]]: ...

    @overload
    def job(
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> CallableJob[P, R, Concatenate[Context, P], R]: ...

    @overload
    def job(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> CallableJob[P, R, P, Coroutine[Any, Any, R]]: ...

    @overload
    def job(self, function: Callable[P, R], /) -> CallableJob[P, R, P, R]: ...

    @overload
    def job(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        retries: int | None = None,
        timeout: float | None = None,
        priority: int = 0,
        retry: Retry | None = None,
        effects: str | None = None,
        concurrency: int = 1,
        schedule: Timing | None = None,
        overlap: str = Overlap.SKIP,
        catch_up: float = DEFAULT_CATCH_UP_SECONDS,
        jitter: float = 0.0,
        limit: Limit | None = None,
        rate: Rate | None = None,
        fair: str = "",
    ) -> JobDecorator: ...

    def job(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        retries: int | None = None,
        timeout: float | None = None,
        priority: int = 0,
        retry: Retry | None = None,
        effects: str | None = None,
        concurrency: int = 1,
        schedule: Timing | None = None,
        overlap: str = Overlap.SKIP,
        catch_up: float = DEFAULT_CATCH_UP_SECONDS,
        jitter: float = 0.0,
        limit: Limit | None = None,
        rate: Rate | None = None,
        fair: str = "",
        **misspelt: Any,
    ) -> Any:
        """Declare a handler, as `@app.job` or `@app.job(...)`.

        `retries` is the limit of `retry`; what a job itself brings along goes before both. With
        `effects="at_most_once"` a run that is lost is not repeated: the job ends as lost.
        `concurrency` is how many jobs may be in one process of a worker while one of these is: an
        `async def` shares the process's event loop, a plain function has a thread of its own. With
        a `schedule`, Cron(...) or Every(...), jobs without arguments are made by themselves, and
        `overlap`, `catch_up` and `jitter` say how; the schedule has the handler's name.
        `limit` says how many of these jobs run at once and `rate` how many start in a while, on
        all workers together; `fair` is the key by whose values waiting jobs take turns.
        """

        def declare(function: Callable[..., Any]) -> CallableJob[..., Any, ..., Any]:
            if isinstance(function, JobFunction):
                function = function.function
            type_name = self._new_name(function, name)
            for option in misspelt:
                known = list(inspect.signature(App.job).parameters)[2:-1]
                raise AppError(
                    f"{_named(type_name, function)}: {option}: no such option; there are "
                    f"{', '.join(known)}{did_you_mean(option, known)}"
                )
            if retry is not None and not isinstance(retry, Retry):
                raise AppError(
                    f"{_named(type_name, function)}: retry: found {retry!r}; write "
                    f"retries={retry!r}, or retry=Retry(limit=...)"
                )
            if retries is not None and type(retries) is not int:
                where = _named(type_name, function)
                raise AppError(f"{where}: retries: found {retries!r}; pass a whole number")
            policy = retry if retries is None else replace(retry or Retry(), limit=retries)
            limits = _declared_limits(limit, rate, fair, where=_named(type_name, function))
            handler = Handler(
                type_name,
                priority=priority,
                timeout=timeout,
                retry=None if policy is None else policy.without_classes,
                effects=effects,
                concurrency=concurrency,
                limits=limits,
            )
            _check_options(handler, policy, function)
            how = {"overlap": overlap, "catch_up": catch_up, "jitter": jitter}
            if schedule is not None:
                terms = _checked_terms(type_name, function, schedule, how, self._provided)
                handler = replace(handler, schedule=DeclaredSchedule(terms))
            elif how != NO_SCHEDULE:
                raise AppError(
                    f"{_named(type_name, function)}: overlap, catch_up and jitter belong to a "
                    "schedule; pass schedule=Cron(...) or Every(...), or leave them out"
                )
            declared: CallableJob[..., Any, ..., Any] = CallableJob(
                function, handler, self.codec, policy
            )
            if self._provided:
                declared.provide(self._provided)
            if fault := concurrency_fault(concurrency, is_async=declared.is_async):
                raise AppError(f"{_named(type_name, function)}: concurrency: {fault}")
            self._functions[type_name] = declared
            return declared

        return declare if function is None else declare(function)

    def setup(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Declare what each of a worker's processes opens before its first job, and closes at last.

        `function` yields once, or returns a context manager, and is annotated with what that gives,
        such as `Iterator[Database]`. A handler's parameter with that annotation receives it.
        """
        setup = Setup(function, self._provided)
        self.setups.append(setup)
        if setup.provides is not None:
            self._provided[setup.provides] = setup
            for declared in self._functions.values():
                declared.provide(self._provided)
        return function

    def around(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Declare what is done around each call of a handler; the first is the outermost.

        `function` is a generator, plain or async, and yields once, which gives it what the handler
        returned, or raises what that raised. Parameters are filled in by annotation: `Context`,
        and what setups yield.
        """
        self.arounds.append(Around(function, self._provided))
        return function

    def on_final_failure(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Declare what is called, at least once, when a job has failed and is not tried again.

        If its own run could not call it (a time-out, a loss, nobody took it in time), a job of its
        own does, and the error is a `JobFailed` of that kind.
        Parameters are filled in by annotation: `Context`, `BaseException`, and what setups yield.
        """
        self.final_failure_hooks.append(FinalFailureHook(function, self._provided))
        return function

    def handlers(self) -> tuple[Handler, ...]:
        """Return what this app can do, in the order of declaration."""
        has_hooks = bool(self.final_failure_hooks)
        return tuple(
            replace(function.handler, has_hooks=has_hooks) for function in self._functions.values()
        )

    def declared_handlers(self, started: float) -> tuple[Handler, ...]:
        """Return the same for dispatchers, with what jobs of schedules bring along.

        `started` is when the worker's process began.
        """
        sees_all = any(around.takes_context for around in self.arounds)
        declared: list[Handler] = []
        for handler in self.handlers():
            if (schedule := handler.schedule) is not None:
                schedule = replace(
                    schedule, payload=self._empty_call(handler.type), started=started
                )
            sees = sees_all or self._functions[handler.type].takes_context
            declared.append(replace(handler, schedule=schedule, sees_parents=sees))
        return tuple(declared)

    def _empty_call(self, job_type: str) -> bytes:
        """Return the payload of a call without arguments, sealed for any job of the type."""
        payload = payload_of()
        if self.codec is None:
            return payload
        return seal(self.codec, payload, CodecContext(SealedField.PAYLOAD, "", job_type))

    def find(self, job_type: str) -> JobFunction[..., Any]:
        """Return the function for this type, or raise an AppError that lists what there is."""
        try:
            return self._functions[job_type]
        except KeyError:
            known = ", ".join(sorted(self._functions)) or "none at all"
            raise AppError(
                f"no handler for jobs of type {job_type!r}; this app has: {known}"
                + did_you_mean(job_type, self._functions)
            ) from None

    def only(self, types: Sequence[str]) -> App:
        """Return an app that does only these types, or raise an AppError that lists what there is.

        `shunter worker --types` serves it.
        """
        functions = {job_type: self.find(job_type) for job_type in dict.fromkeys(types)}
        some = App.__new__(App)
        some.__dict__ = {**self.__dict__, "_functions": functions}
        return some

    def run(self, job_type: str, payload: bytes, context: Context) -> Any:
        """Do one job: return what its function returns, which for `async def` is awaitable."""
        function = self.find(job_type)
        args, kwargs = function.arguments(payload, context)
        return function.function(*args, **kwargs)

    def _new_name(self, function: Callable[..., Any], name: str | None) -> str:
        if not callable(function):
            raise AppError(f"{function!r} can't be a handler; decorate a function")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise AppError(
                f"{function!r}{_place_of(function)} is a generator; a handler returns its result "
                "once: return a list, or submit a job for each part"
            )
        name = name if name is not None else getattr(function, "__name__", "")
        if not isinstance(name, str) or not is_name(name):
            raise AppError(
                f"{name!r}{_place_of(function)} can't name a handler: a name is {NAME_RULE}; "
                "pass name=…"
            )
        if is_reserved(name):
            raise AppError(f"{name!r}{_place_of(function)} can't name a handler: {RESERVED}")
        if name in self._functions:
            taken = self._functions[name].function
            where = f"{taken.__module__}.{getattr(taken, '__qualname__', name)}"
            raise AppError(
                f"two handlers are named {name!r}{_place_of(function)}, the first is "
                f"{where}{_place_of(taken)}; give one another name=…"
            )
        return name


def _place_of(function: Callable[..., Any]) -> str:
    """Say where a function is written, if that is known."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""


def _check_options(handler: Handler, retry: Retry | None, function: Callable[..., Any]) -> None:
    options = {
        "priority": handler.priority,
        "timeout": handler.timeout,
        "retry": retry,
        "effects": handler.effects,
    }
    for faults in (option_type_faults, lambda given: option_faults(**given)):
        for field, reason in faults(options):
            raise AppError(f"{_named(handler.type, function)}: {field}: {reason}")


def _checked_terms(
    job_type: str,
    function: Callable[..., Any],
    timing: Timing,
    how: dict[str, Any],
    provided: Collection[Any],
) -> ScheduleTerms:
    """Return the terms of a schedule, or raise an AppError that names the handler and its line."""
    terms = ScheduleTerms(timing=timing, **how)
    for field, reason in terms_faults(terms):
        path = field if field == "schedule" else f"schedule: {field}"
        raise AppError(f"{_named(job_type, function)}: {path}: {reason}")
    if needed := Parameters(job_type, function, provided).required:
        raise AppError(
            f"{_named(job_type, function)}: schedule: its jobs come without arguments, and "
            f"{', '.join(needed)} would be missing; give defaults, or have a client put a "
            "schedule with arguments: client.schedules.put"
        )
    return replace(terms, overlap=Overlap(terms.overlap))


def _named(job_type: str, function: Callable[..., Any]) -> str:
    """Name a handler and its line."""
    return f"handler {job_type!r}{_place_of(function)}"


def _declared_limits(
    limit: Limit | None, rate: Rate | None, fair: str, *, where: str
) -> JobLimits | None:
    """Return what a handler declares, or raise an AppError that says where it does."""
    for field, found, wanted in (
        ("limit", limit, Limit),
        ("rate", rate, Rate),
        ("fair", fair, str),
    ):
        if found is not None and not isinstance(found, wanted):
            example = {"limit": "Limit(5)", "rate": "Rate(60, per=60)", "fair": '"tenant"'}[field]
            raise AppError(f"{where}: {field}: found {found!r}; pass such as {example}")
    if limit is None and rate is None and not fair:
        return None
    limits = JobLimits(limit=limit, rate=rate, fair=fair)
    for field, reason in limit_faults(limits):
        raise AppError(f"{where}: {field}: {reason}")
    return limits


def load_app(spec: str) -> App:
    """Import the app that `module:attribute` or `path/to/file.py:attribute` names.

    Without the attribute it is `app`, or else the only App in there. The current folder is put
    on `sys.path` for a module, the file's folder for a file.
    """
    place, _, attribute = spec.rpartition(":") if ":" in spec else (spec, "", "")
    if not place or spec.endswith(":"):
        raise AppError(
            f"{spec!r} names no app; write module:attribute or path/to/file.py:attribute"
        )
    is_file = place.endswith(".py") or "/" in place
    module = _import_file(Path(place)) if is_file else _import_module(place)
    return _app_in(module, place, attribute)


def _import_module(name: str) -> ModuleType:
    _put_on_path(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise AppError(
                f"there is no module {name!r} in {Path.cwd()} or on sys.path; "
                "check the name, or name a file: path/to/file.py"
            ) from None
        raise _import_failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _import_failed(name, error) from error


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise AppError(f"there is no file {path}; check the path of the app")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    _put_on_path(path.parent)
    name = path.stem if known is None else f"shunter_app_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise AppError(f"{path} is not a Python file; name one that ends in .py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_failed(str(path), error) from error
    return module


def _import_failed(place: str, error: BaseException) -> AppError:
    line = _line_of(error)
    where = f" at {line}" if line and line not in str(error) else ""
    return AppError(
        f"importing {place} raised {type(error).__name__}: {error}{where}; correct it there"
    )


def _line_of(error: BaseException) -> str:
    """Return file and line that raised while a module was imported: the innermost of the user's."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and not frame.filename.startswith("<frozen")
    ]
    libraries = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    own = [*libraries, str(Path(__file__).parent)]
    users = [
        frame
        for frame in frames
        if not any(Path(frame.filename).is_relative_to(folder) for folder in own)
    ]
    # An app that is itself installed has no other frames than those of a library.
    return next((f"{it.filename}:{it.lineno}" for it in reversed(users or frames)), "")


def _put_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _app_in(module: ModuleType, place: str, attribute: str) -> App:
    apps = {name: value for name, value in vars(module).items() if isinstance(value, App)}
    there = f"apps in there: {', '.join(apps)}" if apps else "there is no App in there"
    if attribute:
        found = getattr(module, attribute, None)
        if isinstance(found, App):
            return found
        fact = "is missing" if found is None else f"is a {type(found).__name__}, not an App"
        raise AppError(f"{place}: {attribute!r} {fact}; {there}")
    if "app" in apps:
        return apps["app"]
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps.values()))
    remedy = f"say which: {place}:{next(iter(apps))}" if apps else "write app = shunter.App()"
    raise AppError(f"{place}: {there}; {remedy}")
