"""What a worker does with the jobs it is given.

The parent process talks to dispatchers (`connection`, `host`) and has a `crew` of child
processes, one for each slot, which run the handlers. Children start by importing this package:
it must stay small, and import nothing by itself.
"""
