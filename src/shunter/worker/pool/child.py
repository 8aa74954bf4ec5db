"""The child process: takes jobs from the queue, one at a time, until it is told or due to leave.

Started by the parent as a program of its own, with the descriptors it needs and its orders as
arguments. It dies with its parent, and prints into its run log. A handler may fork: the twin has
no part in any of this.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import socket
import sys
import traceback
from time import monotonic

import msgspec
from msgspec import Struct

from shunter.app import App, load_app
from shunter.errors import AppError
from shunter.worker.pool import frames
from shunter.worker.pool.child_queue import KEY, MESSAGE_BYTES, read_beside, read_job
from shunter.worker.pool.executor import Executor
from shunter.worker.pool.interrupts import Interrupts
from shunter.worker.pool.leftovers import end_leftovers
from shunter.worker.pool.parent_line import ParentLine
from shunter.worker.pool.run_log import RunLog
from shunter.worker.pool.run_state import SharedRunState
from shunter.worker.pool.watchdog import WatchPage
from shunter.worker.procfs import be_killed_first, die_with_parent, resident_megabytes

START_FAILED = 3
"""The exit code of a child that could not load its app."""

SETUP_FAILED = 4
"""That of one that could not open what the app sets up; the last line it printed says why."""

CLOSE_FAILED = 5
"""That of one that has done its jobs, and could not close what it had opened; likewise."""

_WEIGH_EVERY_SECONDS = 0.25
_ANCILLARY_BYTES = socket.CMSG_SPACE(4)


class Orders(Struct, frozen=True, kw_only=True):
    """What the parent tells a child when it starts it."""

    app: str
    parent: int
    queue_fd: int
    stream_fd: int
    run_state_fd: int
    watch_fd: int
    watch_cell: int
    max_jobs: int
    max_megabytes: int | None
    log_limit: int
    live_log_bytes: int
    result_limit: int | None
    is_shared: bool = False
    """Several jobs at a time, as the parent gives them: `queue_fd` is this child's own lane."""


def main(orders: Orders) -> int:
    """Be a child; return the exit code."""
    die_with_parent(orders.parent)
    _register(orders)
    be_killed_first()
    _set_up_output(is_shared=orders.is_shared)
    run_state = SharedRunState(orders.run_state_fd)
    os.close(orders.run_state_fd)
    interrupts = Interrupts(run_state)
    interrupts.install()
    queue, stream = socket.socket(fileno=orders.queue_fd), socket.socket(fileno=orders.stream_fd)
    for inherited in (queue, stream):
        inherited.set_inheritable(False)
        os.register_at_fork(after_in_child=inherited.close)
    try:
        app = load_app(orders.app)
    except BaseException:
        traceback.print_exc()
        return START_FAILED
    run_log = RunLog(os.dup(1), limit=orders.log_limit)
    line = ParentLine(stream)
    executor = Executor(app, run_state, interrupts, run_log, line, result_limit=orders.result_limit)
    try:
        executor.open()
    except AppError as error:
        sys.stdout.write(f"{error}\n")
        return SETUP_FAILED
    sys.stdout.flush()
    run_log.take()
    # A broken pipe says that the parent has gone; the kernel is about to say so too.
    with contextlib.suppress(BrokenPipeError):
        stream.sendall(frames.bare(frames.Mark.READY))
        if orders.is_shared:
            _serve_shared(app, queue, line, run_state, interrupts, executor, orders)
        else:
            _serve(queue, line, run_state, executor, orders)
    try:
        executor.close()
    except AppError as error:
        sys.stdout.write(f"{error}\n")
        return CLOSE_FAILED
    return 0


def _serve_shared(
    app: App,
    lane: socket.socket,
    line: ParentLine,
    run_state: SharedRunState,
    interrupts: Interrupts,
    executor: Executor,
    orders: Orders,
) -> None:
    from shunter.worker.pool.shared_child import SharedChild

    child = SharedChild(
        app,
        executor,
        lane,
        line,
        run_state,
        interrupts,
        log_limit=orders.log_limit,
        live_log_bytes=orders.live_log_bytes,
        max_megabytes=orders.max_megabytes,
    )
    child.serve()
    line.send(frames.bare(frames.Mark.RETIRED))
    child.close()


def _serve(
    queue: socket.socket,
    line: ParentLine,
    run_state: SharedRunState,
    executor: Executor,
    orders: Orders,
) -> None:
    receive, send, run, key_in = queue.recvmsg_into, line.send, executor.run, KEY.unpack_from
    message = bytearray(MESSAGE_BYTES)
    view = memoryview(message)
    buffers = [message]
    left, weigh_at = orders.max_jobs, 0.0
    while left > 0:
        size, ancillary, _, _ = receive(buffers, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
        if size == 0:
            return
        begun = now = monotonic()
        key = key_in(message)[0]
        run_state.begin(key, now)
        job = read_job(view[KEY.size : size])
        if ancillary:
            job = read_beside(ancillary[0][2], job)
        outcome = run(key, job, job.payload, now)
        # What a stopped run has forked must have ended before anybody hears that the run has.
        if run_state.key_to_stop == key and end_leftovers(begun):
            left = 0  # the app may miss what was just killed: let a fresh child take over
        send(outcome)
        run_state.end()
        left -= 1
        if orders.max_megabytes is not None and (now := monotonic()) >= weigh_at:
            weigh_at = now + _WEIGH_EVERY_SECONDS
            if resident_megabytes() > orders.max_megabytes:
                break
    send(frames.bare(frames.Mark.RETIRED))


def _register(orders: Orders) -> None:
    """Have the watchdog watch this process, before any of the user's code runs in it."""
    page = WatchPage(orders.watch_fd)
    os.close(orders.watch_fd)
    page.register(orders.watch_cell, os.getpid())
    page.close()


def _set_up_output(*, is_shared: bool) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    faulthandler.enable()
    if is_shared:
        from shunter.worker.pool.run_output import route_output

        route_output()
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=Orders)))
