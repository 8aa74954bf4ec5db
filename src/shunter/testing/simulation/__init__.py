"""The whole system in one process, on a virtual clock, under seeded faults. See docs/simulation.md."""
