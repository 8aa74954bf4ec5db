"""Test jobs without a process, a socket or a sleep.

The same dispatcher, decisions and store contract as in production, on the in-memory store, a
virtual clock, and one worker that runs handlers right here.
"""

from shunter.store.memory import MemoryStore
from shunter.testing.clock import VirtualClock
from shunter.testing.sandbox import Sandbox, SandboxJob

__all__ = ["MemoryStore", "Sandbox", "SandboxJob", "VirtualClock"]
