"""The embedded store: one SQLite file, shared by all dispatchers of one host.

`schema.sql` says what is in the file, and `connection.py` opens and migrates it. `rows.py` turns
records into rows and back, `statements.py` holds the SQL and why it is shaped so, `reads.py` and
`writes.py` are what is done with it. `connection_thread.py` and `writer.py` are the threads;
`file_monitor.py` and `inspector.py` watch that the file stays where and what it is. `doctor.py`
examines and repairs one, and `store.py` puts all of it behind the port.
"""

from shunter.store.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
