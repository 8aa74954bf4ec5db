"""What a job, a worker and a lease are, and what may happen to them. Pure."""
