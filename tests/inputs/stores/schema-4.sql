-- What Shunter left when its schema was of version 4: two jobs that ended, one that waits, one that is delayed.
BEGIN TRANSACTION;
CREATE TABLE dispatchers (
    id TEXT PRIMARY KEY,
    clock REAL NOT NULL,
    doc TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "dispatchers" VALUES('d-01m7m63ca5c6tgj0qj2r1m524y',1.79490007906336307527e+09,'{"dispatcher_id":"d-01m7m63ca5c6tgj0qj2r1m524y","clock":1794900079.063363,"host":"1fd16370-7ed3-4827-9044-a77bbf75af5a","uptime":14879.460742455}');
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
, place TEXT, deadline REAL) STRICT;
INSERT INTO "jobs" VALUES(1,'01m7m63bqdrv2ehsmfajv5pepz',2,'c','add',1794900079175415,NULL,'w-host-7084-10d10e9b',NULL,1.79490007918442964554e+09,NULL,190152507462842,'{"id":"01m7m63bqdrv2ehsmfajv5pepz","type":"add","created":1794900079.1754148,"updated":1794900079.1844296,"status":"c","revision":2,"attempt":1,"dispatcher":{"id":"d-01m7m63ca5c6tgj0qj2r1m524y","date":1794900079.1754148,"expiry":1794900084.1754148},"execution":{"worker_id":"w-host-7084-10d10e9b","started":1794900079.1754148,"ended":1794900079.1844296},"reply_to":{"gateway":"zmq","address":"Yy16DLt6Eak6pPeFN/U="}}',X'2A',NULL,NULL);
INSERT INTO "jobs" VALUES(2,'01m7m63cknj7z065k93a4dkvb2',3,'f','fail',1794900079221766,NULL,'w-host-7084-10d10e9b',NULL,1.79490007923540353775e+09,NULL,427831252202,'{"id":"01m7m63cknj7z065k93a4dkvb2","type":"fail","created":1794900079.221766,"updated":1794900079.2354035,"status":"f","revision":3,"attempt":1,"dispatcher":{"id":"d-01m7m63ca5c6tgj0qj2r1m524y","date":1794900079.221766,"expiry":1794900084.221766},"execution":{"worker_id":"w-host-7084-10d10e9b","started":1794900079.221766,"ended":1794900079.2354035},"error":{"kind":"exception","message":"ValueError: as it was","traceback":"Traceback (most recent call last):\n  File \"/opt/apps/app.py\", line 8, in fail\n    raise ValueError(message)\nValueError: as it was\n"},"reply_to":{"gateway":"zmq","address":"Yy16DLt6Eak6pPeFN/U="},"failures":1,"history":[{"attempt":1,"worker_id":"w-host-7084-10d10e9b","started":1794900079.221766,"ended":1794900079.2354035,"outcome":"failed","message":"ValueError: as it was"}]}',NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,'01m7m63ej0zvfkxe9sd0jhhpsh',0,'q','add',1794900081219186,NULL,NULL,NULL,NULL,NULL,0,'{"id":"01m7m63ej0zvfkxe9sd0jhhpsh","type":"add","created":1794900081.2191865,"updated":1794900081.2191865,"execution":{},"reply_to":{"gateway":"zmq","address":"Yy16dTAn7JZwukTQbGM="}}',NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(4,'01m7m63ejfbrh4d26e6gc6xpg2',0,'q','add',1794889281231872,1.79490008223187160491e+09,NULL,'once',NULL,NULL,0,'{"id":"01m7m63ejfbrh4d26e6gc6xpg2","type":"add","created":1794900081.2318716,"updated":1794900081.2318716,"priority":3,"execution":{},"not_before":1794900082.2318716,"unique_key":"once","reply_to":{"gateway":"zmq","address":"Yy16dTAn7JZwukTQbGM="},"wait_until":1794900082.2318716}',NULL,NULL,NULL);
CREATE TABLE payloads (
    seq INTEGER PRIMARY KEY,
    body BLOB
) STRICT;
INSERT INTO "payloads" VALUES(1,X'921416');
INSERT INTO "payloads" VALUES(2,X'91A9617320697420776173');
INSERT INTO "payloads" VALUES(3,X'920102');
INSERT INTO "payloads" VALUES(4,X'920304');
CREATE TABLE records (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    doc TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
INSERT INTO "records" VALUES('secret','system',1,'"37bef72bb393b80bc69f28e53d6b069773c8fc640140e8aae23d62735f1de45f"');
CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    last_pinged TEXT NOT NULL,
    is_dead INTEGER NOT NULL,
    doc TEXT NOT NULL
, revision INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
INSERT INTO "workers" VALUES('w-host-7084-10d10e9b','1794900079.5702753',0,'{"id":"w-host-7084-10d10e9b","kind":"full","hostname":"host","port":0,"handlers":[{"type":"add"},{"type":"fail"}],"max_jobs":1,"incarnation":1,"registered":1794900079.1735833,"last_pinged":1794900079.5702753,"is_resigned":true}',0);
CREATE INDEX ready ON jobs (type, rank) WHERE status = 'q' AND alarm IS NULL;
CREATE INDEX alarms ON jobs (alarm, status, type) WHERE alarm IS NOT NULL;
CREATE INDEX held ON jobs (worker_id, status, type) WHERE status = 'd' OR status = 'i';
CREATE INDEX finished ON jobs (ended, status, type) WHERE ended IS NOT NULL;
CREATE UNIQUE INDEX keyed ON jobs (unique_key) WHERE unique_key IS NOT NULL;
CREATE UNIQUE INDEX places ON jobs (place) WHERE place IS NOT NULL;
CREATE INDEX deadlines ON jobs (deadline) WHERE deadline IS NOT NULL;
COMMIT;
PRAGMA application_id = 1397247572;
PRAGMA user_version = 4;
