-- The schema of the embedded store, as the steps that lead to it. A step that was released is
-- never edited: what comes later is a new one. `PRAGMA user_version` holds the last step taken.

-- version 1

-- One row a job. `doc` is the record as JSON, without payload and result; the columns beside it
-- are those that a query needs. A claim writes columns only, and `claim` then says what `doc`
-- does not know yet. `stamp` marks the operation that wrote the row last.
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL,
    status TEXT NOT NULL,
    type TEXT NOT NULL,
    rank INTEGER NOT NULL,
    alarm REAL,
    worker_id TEXT,
    unique_key TEXT,
    ended REAL,
    claim TEXT,
    stamp INTEGER,
    doc TEXT NOT NULL,
    result BLOB
) STRICT;

-- Apart, because a job's row is written anew on each transition and its payload never is.
CREATE TABLE payloads (
    seq INTEGER PRIMARY KEY,
    body BLOB
) STRICT;

-- Each index holds only the rows somebody looks for, and each ends with the seq. Together they
-- know type and status of every job, so that counting jobs touches no table.
CREATE INDEX ready ON jobs (type, rank) WHERE status = 'q' AND alarm IS NULL;
CREATE INDEX alarms ON jobs (alarm, status, type) WHERE alarm IS NOT NULL;
CREATE INDEX held ON jobs (worker_id, status, type) WHERE status = 'd' OR status = 'i';
CREATE INDEX finished ON jobs (ended, status, type) WHERE ended IS NOT NULL;
CREATE UNIQUE INDEX keyed ON jobs (unique_key) WHERE unique_key IS NOT NULL;

-- `last_pinged` and `is_dead` count where `doc` says otherwise: a renewal writes only them.
-- The time is text as JSON writes it, since SQLite's own text of a REAL is not exact.
CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    last_pinged TEXT NOT NULL,
    is_dead INTEGER NOT NULL,
    doc TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- version 2

-- A place on a worker that several dispatchers give jobs to: no two jobs in progress have the same.
ALTER TABLE jobs ADD COLUMN place TEXT;
CREATE UNIQUE INDEX places ON jobs (place) WHERE place IS NOT NULL;

-- Until when a queued job may wait for a worker.
ALTER TABLE jobs ADD COLUMN deadline REAL;
CREATE INDEX deadlines ON jobs (deadline) WHERE deadline IS NOT NULL;

-- Counts the writes of a worker's record where they are compared and swapped.
ALTER TABLE workers ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;

-- version 3

-- The dispatchers that were here lately, and what their clocks showed: JSON of `model.presence`.
CREATE TABLE dispatchers (
    id TEXT PRIMARY KEY,
    clock REAL NOT NULL,
    doc TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- version 4

-- Small documents that dispatchers share (`model.record`): keys, the audit log, a secret.
CREATE TABLE records (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    doc TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- version 5

-- Whose job it is; '' is nobody's in particular. Keys are unique within a namespace. Jobs that
-- have one are listed by it, newest first; a job without one costs that index nothing.
ALTER TABLE jobs ADD COLUMN namespace TEXT NOT NULL DEFAULT '';
DROP INDEX keyed;
CREATE UNIQUE INDEX keyed ON jobs (unique_key, namespace) WHERE unique_key IS NOT NULL;
CREATE INDEX namespaces ON jobs (namespace) WHERE namespace <> '';

-- version 6

-- Ended jobs are listed by how they ended, newest first, however many others there are.
CREATE INDEX outcomes ON jobs (status) WHERE ended IS NOT NULL;

-- Where a waiting job of a limited type stands (`model.job_limits`); NULL for all other jobs, and
-- for those that nobody has sorted yet. A claim jumps from lane to lane in their index.
ALTER TABLE jobs ADD COLUMN lane TEXT;
DROP INDEX ready;
CREATE INDEX ready ON jobs (type, rank) WHERE status = 'q' AND alarm IS NULL AND lane IS NULL;
CREATE INDEX lanes ON jobs (type, lane, rank)
    WHERE status = 'q' AND alarm IS NULL AND lane IS NOT NULL;

-- The places under the limits of a key and of a type: no two jobs under way have the same.
ALTER TABLE jobs ADD COLUMN limit_place TEXT;
ALTER TABLE jobs ADD COLUMN total_place TEXT;
CREATE UNIQUE INDEX limit_places ON jobs (limit_place) WHERE limit_place IS NOT NULL;
CREATE UNIQUE INDEX total_places ON jobs (total_place) WHERE total_place IS NOT NULL;

-- version 7

-- Which jobs wait for which (`model.workflow`): a row for each edge. An outcome is '' until the
-- parent has ended. One index has the dependents of a parent, the other what a child waits for.
CREATE TABLE edges (
    parent TEXT NOT NULL,
    child TEXT NOT NULL,
    outcome TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
CREATE INDEX standings ON edges (child, outcome);

-- Parked jobs, so that counting touches no table; and the jobs of a run.
CREATE INDEX parked ON jobs (type) WHERE status = 'w';
ALTER TABLE jobs ADD COLUMN run TEXT;
CREATE INDEX runs ON jobs (run) WHERE run IS NOT NULL;
UPDATE jobs SET run = doc ->> '$.run' WHERE doc LIKE '%"run":"%' AND json_valid(doc);

-- What jobs keep beside their records (`model.journal`): steps, signals, chunks of streams. Under
-- the job's id, since a copied step is written before its job is.
CREATE TABLE journal (
    job TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    at REAL NOT NULL,
    seconds REAL NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (job, kind, key)
) STRICT, WITHOUT ROWID;

-- version 8

-- Which of its parents an edge is, in the order in which the child names them.
ALTER TABLE edges ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
