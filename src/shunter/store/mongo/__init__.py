"""The shared store: one MongoDB replica set, for dispatchers on any number of hosts.

`connection.py` opens a database and checks that it is ours, with `indexes.py`; `faults.py` says
which errors pass by themselves and what the others mean. `documents.py` turns records into
documents and back, `blobs.py` keeps what is too big for them. `workers.py`, `replacements.py`,
`deliveries.py`, `insertions.py` and `claims.py` are the parts of a batch (`swaps.py` is how jobs
change, `front.py` where claims look), and `batch_write.py` is a batch on its way. `reads.py` reads,
`purge.py` deletes, `wake_notifier.py` listens, and `store.py` puts all of it behind the port.
"""

from shunter.store.mongo.store import MongoStore

__all__ = ["MongoStore"]
