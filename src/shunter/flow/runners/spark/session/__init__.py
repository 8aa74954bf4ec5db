"""The Spark session of this process, and what is asked of any session."""
