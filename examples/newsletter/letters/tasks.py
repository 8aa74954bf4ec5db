"""Django tasks; with Django 6 it is `from django.tasks import task`."""

from typing import Any

from django_tasks import TaskContext, task


@task(priority=10)
def greet(name: str, *, greeting: str = "Hello") -> str:
    """Write to one subscriber."""
    return f"{greeting} {name}"


@task(queue_name="bulk")
async def count_readers(issue: int) -> int:
    """Stand for something that waits for a server."""
    return issue * 100


@task(takes_context=True)
def deliver(context: TaskContext, address: str) -> dict[str, Any]:
    """Fail twice, as a mail server would."""
    if context.attempt < 3:
        raise ConnectionError("the server is busy")
    return {"address": address, "attempt": context.attempt}


@task
def refuse() -> None:
    """Fail for good."""
    raise ValueError("no such list")
