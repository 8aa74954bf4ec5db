"""What can be done with one client can be done with the other, by the same names."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from shunter import AsyncClient, AsyncJob, AsyncUdpClient, Client, SubmittedJob, UdpClient
from shunter.client.limits import AsyncLimits, Limits
from shunter.client.runs import AsyncWorkflowRuns, WorkflowRuns
from shunter.client.schedules import AsyncSchedules, Schedules
from shunter.client.sync_udp_client import AddedTask
from shunter.client.udp_client import AsyncTask
from shunter.client.workflow import AsyncWorkflow, Workflow

PAIRS: list[tuple[type[Any], type[Any]]] = [
    (AsyncClient, Client),
    (AsyncJob, SubmittedJob),
    (AsyncSchedules, Schedules),
    (AsyncLimits, Limits),
    (AsyncWorkflowRuns, WorkflowRuns),
    (AsyncWorkflow, Workflow),
    (AsyncUdpClient, UdpClient),
    (AsyncTask, AddedTask),
]

OURS = {
    AsyncClient: {
        *("codec_for", "commit_run", "in_full", "journals", "logs", "new_id", "node_handle"),
        *("node_submission", "rerun_submission", "send_graph", "submitting", "template"),
        *("wants", "within"),
    },
    AsyncJob: {"known_outcome", "mark_lost", "settle", "when_done"},
    AsyncUdpClient: {"address", "open"},
    AsyncTask: {"abandon", "known_outcome", "settle"},
}
"""What of the asynchronous faces is for the synchronous ones and for modules of ours."""

ATTRIBUTES = {AsyncJob: {"id", "type"}, AsyncTask: {"id", "job_id"}}
"""What users read on an object and no class has."""

LEFT_OUT = {"environment", "options", "journal"}
"""Parameters that are for modules of ours."""


def public(face: type[Any]) -> set[str]:
    return {name for name in dir(face) if not name.startswith("_")} - OURS.get(face, set())


def parameters(face: type[Any], name: str) -> list[tuple[str, Any, Any]]:
    method = getattr(face, name)
    if not callable(method):
        return []
    return [
        (it.name, it.kind, it.default)
        for it in inspect.signature(method).parameters.values()
        if it.name not in LEFT_OUT
    ]


@pytest.mark.parametrize(("asynchronous", "synchronous"), PAIRS)
def test_both_faces_have_the_same_public_names(
    asynchronous: type[Any], synchronous: type[Any]
) -> None:
    assert public(asynchronous) | ATTRIBUTES.get(asynchronous, set()) == public(synchronous)
    assert OURS.get(asynchronous, set()) <= set(dir(asynchronous))


@pytest.mark.parametrize(("asynchronous", "synchronous"), PAIRS)
def test_both_faces_take_the_same_parameters(
    asynchronous: type[Any], synchronous: type[Any]
) -> None:
    for name in sorted((public(asynchronous) & public(synchronous)) | {"__init__"}):
        if name == "__init__" and asynchronous not in (AsyncClient, AsyncUdpClient):
            continue
        assert parameters(asynchronous, name) == parameters(synchronous, name), name
