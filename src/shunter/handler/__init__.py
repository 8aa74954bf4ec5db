"""What an app has around its handlers: what is open while they run, and what is told of each run.

Declared in `shunter.app`; performed by a worker's child and by `shunter.testing`.
"""
