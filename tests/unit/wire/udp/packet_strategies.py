"""Params of every method, for hypothesis."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from shunter.model.queue_order import PRIORITY_LIMIT
from shunter.wire.udp.methods import (
    AddTask,
    CompletedTask,
    Heartbeat,
    NotifyTask,
    Packed,
    Params,
    PerformTask,
    TaskLog,
)

NUMBERS = st.integers(-(2**63), 2**64 - 1)
SCALARS = st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text() | st.binary()
KEYS = st.text() | st.sampled_from(["$bytes", "$map", "$float", "$msgpack"]) | NUMBERS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=8
)
# A document of null is as good as none, so it would come back as None.
DOCUMENTS = VALUES.filter(lambda value: value is not None).map(
    lambda value: Packed(msgspec.msgpack.encode(value))
)
TASK_IDS = st.integers(-(2**63) + 1, 2**63 - 1) | st.text(min_size=1, max_size=128)
IDS = st.integers(0, 2**63 - 1) | st.text(min_size=1, max_size=64)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:@/-]{0,20}", fullmatch=True)
ATTEMPTS = st.integers(0, 2**31 - 1)
TEXTS = st.text(max_size=100)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


PARAMS: st.SearchStrategy[Params] = st.one_of(
    st.builds(
        AddTask,
        task_id=TASK_IDS,
        type=maybe(NAMES),
        payload=maybe(DOCUMENTS),
        priority=maybe(st.integers(-PRIORITY_LIMIT, PRIORITY_LIMIT)),
    ),
    st.builds(
        NotifyTask,
        status=st.sampled_from(["success", "error", "failed_post"]),
        task_id=TASK_IDS,
        result=maybe(DOCUMENTS),
        job_id=maybe(NAMES),
        error=maybe(TEXTS),
    ),
    st.builds(
        PerformTask,
        task_id=TASK_IDS,
        type=maybe(NAMES),
        payload=maybe(DOCUMENTS),
        attempt=maybe(ATTEMPTS),
        timeout=maybe(st.floats(0.001, 1e6)),
    ),
    st.builds(
        CompletedTask,
        task_id=TASK_IDS,
        result=maybe(DOCUMENTS),
        attempt=maybe(ATTEMPTS),
        error=maybe(TEXTS),
        log=maybe(TEXTS),
        start=maybe(st.integers(0, 2**53)),
    ),
    st.builds(
        TaskLog,
        task_id=TASK_IDS,
        attempt=maybe(ATTEMPTS),
        log=TEXTS,
        start=maybe(st.integers(0, 2**53)),
    ),
    st.builds(
        Heartbeat,
        status=st.sampled_from(["ready", "busy"]),
        handlers=maybe(st.lists(NAMES, min_size=1, max_size=4).map(tuple)),
    ),
)
