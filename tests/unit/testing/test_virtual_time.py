"""Whose sleeps move a sandbox's clock."""

from __future__ import annotations

import threading
import time

from shunter.testing.clock import VirtualClock
from shunter.testing.virtual_time import virtual_sleep


def test_only_the_handlers_sleeps_move_the_clock_not_those_of_threads_that_were_there() -> None:
    clock = VirtualClock()
    before = clock()
    go, slept = threading.Event(), threading.Event()

    def driver() -> None:
        go.wait(10)
        time.sleep(0.001)
        slept.set()

    thread = threading.Thread(target=driver)
    thread.start()
    with virtual_sleep(clock, deadline=before + 60.0):
        go.set()
        assert slept.wait(10)
        assert clock() == before

        time.sleep(30.0)
        assert clock() == before + 30.0
    thread.join()
