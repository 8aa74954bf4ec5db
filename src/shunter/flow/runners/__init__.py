"""Where a flow runs: in this process, on engines, on Spark; `registry.py` knows them all."""
