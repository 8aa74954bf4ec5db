"""The whole system in one process, on a virtual clock, under seeded faults.

How to use it: docs/simulation.md.
"""
