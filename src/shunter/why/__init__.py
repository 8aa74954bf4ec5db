"""Why a job does not run: the planner, asked about this one job on a small copy of what is."""
