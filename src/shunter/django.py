"""Django's tasks on Shunter: `@task` functions become jobs.

In the settings, the backend; `django.tasks` is of Django 6, and the package `django-tasks` has the
same for Django 4.2 and 5:

    TASKS = {"default": {"BACKEND": "shunter.django.ShunterBackend"}}

Beside `asgi.py`, a module for workers, `shunter worker --app mysite.worker`:

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
    app = make_worker_app()

A task's jobs are of the type that its function's path names. A worker does only the tasks that its
own code declares, whatever a job says.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from shunter.app import App
from shunter.client.submit_options import SubmitOptions
from shunter.client.sync_client import Client
from shunter.context import Context
from shunter.errors import JobNotFound, SettingsError
from shunter.model.job import Job, Status
from shunter.model.spelling import did_you_mean
from shunter.payload import POSITIONAL_KEY

try:
    from django.tasks import TaskContext, TaskResult, TaskResultStatus
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskError
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued
except ModuleNotFoundError:
    from django_tasks import TaskContext, TaskResult, TaskResultStatus
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskError
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued

OPTIONS = ("dispatchers", "key_file", "retries", "timeout", "open_client")

NOT_RAISED = "shunter.errors.JobFailed"

_STATUSES = {
    Status.QUEUED: TaskResultStatus.READY,
    Status.DISPATCHING: TaskResultStatus.READY,
    Status.IN_PROGRESS: TaskResultStatus.RUNNING,
    Status.COMPLETED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
}

_declared: dict[str, Task[..., Any]] = {}
"""The tasks of this process by path. Django makes backends for each thread anew."""


class ShunterBackend(BaseTaskBackend):  # type: ignore[misc]  # Django has no types
    """Hands tasks to a dispatcher, and reads how they went.

    `OPTIONS` may have `dispatchers` (addresses), `key_file`, `retries` and `timeout` for all tasks
    of the backend, and for tests `open_client`, which returns the client to use.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        for name in self.options:
            if name not in OPTIONS:
                hint = did_you_mean(name, OPTIONS)
                where = f"TASKS[{alias!r}]['OPTIONS']"
                raise SettingsError(where, name, "no such option", f"{', '.join(OPTIONS)}{hint}")

    def validate_task(self, task: Task[..., Any]) -> None:
        """Refuse what can't be a task, and remember what can: workers do these."""
        super().validate_task(task)
        _declared.setdefault(task.module_path, task)

    def enqueue(self, task: Task[..., Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """Submit a job; when this returns, it is stored."""
        self.validate_task(task)
        options: SubmitOptions = {"priority": task.priority, "keys": {"queue": task.queue_name}}
        if task.run_after is not None:
            options["not_before"] = task.run_after.timestamp()
        client = self._client().with_options(**options)
        job = client.submit(task.module_path, *args, **kwargs)
        result = _result(task, self.alias, job.id, list(args), dict(kwargs))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """Return how a task is getting on, in whichever process it was enqueued."""
        try:
            job = self._client().job(result_id)
        except JobNotFound:
            raise TaskResultDoesNotExist(result_id) from None
        task = _declared.get(job.type)
        if task is None or task.backend != self.alias:
            raise TaskResultDoesNotExist(result_id)
        return _result_of(task, self.alias, job)

    def _client(self) -> Client:
        if opened := self.options.get("open_client"):
            client: Client = opened()
            return client
        addresses = tuple(self.options.get("dispatchers", ()))
        return _client_of(os.getpid(), addresses, self.options.get("key_file"))


@functools.cache
def _client_of(process: int, addresses: tuple[str, ...], key_file: str | None) -> Client:
    """Return the one client of this process, also in one that was forked."""
    return Client(*addresses, key_file=key_file)


def make_worker_app(*, modules: tuple[str, ...] = ("tasks",)) -> App:
    """Set Django up, import these modules of all its apps, and return an app of all their tasks."""
    import django
    from django.utils.module_loading import autodiscover_modules

    django.setup()
    autodiscover_modules(*modules)
    app = App()
    app.around(_fresh_connections)
    for task in _declared.values():
        backend = task.get_backend()
        if isinstance(backend, ShunterBackend):
            options = backend.options
            declare = app.job(
                name=task.module_path,
                retries=options.get("retries"),
                timeout=options.get("timeout"),
            )
            declare(_handler(task))
    return app


def _fresh_connections() -> Iterator[None]:
    """Drop connections to databases that are too old or broken, as around each request."""
    from django.db import close_old_connections

    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


def _handler(task: Task[..., Any]) -> Callable[..., Any]:
    """Return what does the jobs of a task."""

    def call(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if task.takes_context:
            result = _result(task, task.backend, context.job_id, list(args), kwargs)
            object.__setattr__(result, "status", TaskResultStatus.RUNNING)
            object.__setattr__(result, "worker_ids", [""] * context.attempt)  # its `attempt`
            args = (TaskContext(task_result=result), *args)
        return task.func(*args, **kwargs)

    async def run_async(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        return await call(ctx, args, kwargs)

    def run(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        return call(ctx, args, kwargs)

    return run_async if inspect.iscoroutinefunction(task.func) else run


def _result(
    task: Task[..., Any], alias: str, job_id: str, args: list[Any], kwargs: dict[str, Any]
) -> TaskResult[Any]:
    return TaskResult(
        task=task,
        id=job_id,
        status=TaskResultStatus.READY,
        enqueued_at=datetime.now(UTC),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def _result_of(task: Task[..., Any], alias: str, job: Job) -> TaskResult[Any]:
    args, kwargs = _call_of(job)
    runs = [past for past in job.history if past.worker_id]
    last = job.execution
    workers = [past.worker_id for past in runs if past.worker_id]
    if last.worker_id and job.attempt > len(runs):
        workers.append(last.worker_id)
    first = runs[0].started if runs else last.started or last.sent
    result: TaskResult[Any] = TaskResult(
        task=task,
        id=job.id,
        status=_STATUSES[job.status],
        enqueued_at=_moment(job.created),
        started_at=_moment(first),
        finished_at=_moment(last.ended) if job.status.is_final else None,
        last_attempted_at=_moment(last.started or last.sent),
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=_errors(job),
        worker_ids=workers,
    )
    object.__setattr__(result, "_return_value", job.value)
    return result


def _errors(job: Job) -> list[TaskError]:
    """Return what went wrong in the last run; its class is named at the end of a traceback."""
    if job.error is None:
        return []
    trace = job.error.traceback.strip()
    if not trace:  # a time-out, a cancel, a loss: nobody raised anything
        return [TaskError(exception_class_path=NOT_RAISED, traceback=job.error.message)]
    name = trace.splitlines()[-1].partition(":")[0]
    path = name if "." in name else f"builtins.{name}"
    return [TaskError(exception_class_path=path, traceback=job.error.traceback)]


def _call_of(job: Job) -> tuple[list[Any], dict[str, Any]]:
    call = job.arguments
    if isinstance(call, dict):
        return call.pop(POSITIONAL_KEY, []), call
    return call or [], {}


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
