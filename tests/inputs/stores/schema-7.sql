-- What Shunter left when its schema was of version 7: two jobs that ended, one that waits, one that is delayed.
BEGIN TRANSACTION;
CREATE TABLE dispatchers (
    id TEXT PRIMARY KEY,
    clock REAL NOT NULL,
    doc TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "dispatchers" VALUES('d-01m7m64t6c497czx6fcrhbd0xe',1.79490012611081862451e+09,'{"dispatcher_id":"d-01m7m64t6c497czx6fcrhbd0xe","clock":1794900126.1108186,"host":"1fd16370-7ed3-4827-9044-a77bbf75af5a","uptime":14926.508197614}');
CREATE TABLE edges (
    parent TEXT NOT NULL,
    child TEXT NOT NULL,
    outcome TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
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
, place TEXT, deadline REAL, namespace TEXT NOT NULL DEFAULT '', lane TEXT, limit_place TEXT, total_place TEXT, run TEXT) STRICT;
INSERT INTO "jobs" VALUES(1,'01m7m64txk32smajpydk6q9eav',3,'c','add',1794900126645610,NULL,'w-host-14565-d6fe09f8',NULL,1.79490012666017699242e+09,NULL,93656732219727,'{"id":"01m7m64txk32smajpydk6q9eav","type":"add","created":1794900126.6456094,"updated":1794900126.660177,"status":"c","revision":3,"attempt":1,"dispatcher":{"id":"d-01m7m64t6c497czx6fcrhbd0xe","date":1794900126.6456094,"expiry":1794900131.6456094},"execution":{"worker_id":"w-host-14565-d6fe09f8","started":1794900126.6456094,"ended":1794900126.660177},"reply_to":{"gateway":"zmq","address":"Yy1JpwQzke1aDbc8MEY="}}',X'2A',NULL,NULL,'',NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(2,'01m7m64ty61xbgdp8arrc39zcg',3,'f','fail',1794900126662357,NULL,'w-host-14565-d6fe09f8',NULL,1.79490012666444277763e+09,NULL,155348008113303,'{"id":"01m7m64ty61xbgdp8arrc39zcg","type":"fail","created":1794900126.6623569,"updated":1794900126.6644428,"status":"f","revision":3,"attempt":1,"dispatcher":{"id":"d-01m7m64t6c497czx6fcrhbd0xe","date":1794900126.6623569,"expiry":1794900131.6623569},"execution":{"worker_id":"w-host-14565-d6fe09f8","started":1794900126.6623569,"ended":1794900126.6644428},"error":{"kind":"exception","message":"ValueError: as it was","traceback":"Traceback (most recent call last):\n  File \"/opt/apps/app.py\", line 8, in fail\n    raise ValueError(message)\nValueError: as it was\n"},"reply_to":{"gateway":"zmq","address":"Yy1JpwQzke1aDbc8MEY="},"failures":1,"history":[{"attempt":1,"worker_id":"w-host-14565-d6fe09f8","started":1794900126.6623569,"ended":1794900126.6644428,"outcome":"failed","message":"ValueError: as it was"}]}',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,'01m7m64vzd3vppq771w7gxxxz3',0,'q','add',1794900127729085,NULL,NULL,NULL,NULL,NULL,0,'{"id":"01m7m64vzd3vppq771w7gxxxz3","type":"add","created":1794900127.729085,"updated":1794900127.729085,"execution":{},"reply_to":{"gateway":"zmq","address":"Yy0qosm/vOKJDUi+giU="}}',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(4,'01m7m64vzv9vp2qxwb6bvt9tj7',0,'q','add',1794889327743241,1.79490012874324083333e+09,NULL,'once',NULL,NULL,0,'{"id":"01m7m64vzv9vp2qxwb6bvt9tj7","type":"add","created":1794900127.7432408,"updated":1794900127.7432408,"priority":3,"execution":{},"not_before":1794900128.7432408,"unique_key":"once","reply_to":{"gateway":"zmq","address":"Yy0qosm/vOKJDUi+giU="},"wait_until":1794900128.7432408}',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL);
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
INSERT INTO "records" VALUES('secret','system',1,'"5555555555555555555555555555555555555555555555555555555555555555"');
CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    last_pinged TEXT NOT NULL,
    is_dead INTEGER NOT NULL,
    doc TEXT NOT NULL
, revision INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
INSERT INTO "workers" VALUES('w-host-14565-d6fe09f8','1794900126.7490928',0,'{"id":"w-host-14565-d6fe09f8","kind":"full","hostname":"host","port":0,"handlers":[{"type":"add"},{"type":"fail"}],"max_jobs":1,"incarnation":1,"registered":1794900126.109952,"last_pinged":1794900126.7490928,"is_resigned":true}',0);
CREATE INDEX alarms ON jobs (alarm, status, type) WHERE alarm IS NOT NULL;
CREATE INDEX held ON jobs (worker_id, status, type) WHERE status = 'd' OR status = 'i';
CREATE INDEX finished ON jobs (ended, status, type) WHERE ended IS NOT NULL;
CREATE UNIQUE INDEX places ON jobs (place) WHERE place IS NOT NULL;
CREATE INDEX deadlines ON jobs (deadline) WHERE deadline IS NOT NULL;
CREATE UNIQUE INDEX keyed ON jobs (unique_key, namespace) WHERE unique_key IS NOT NULL;
CREATE INDEX namespaces ON jobs (namespace) WHERE namespace <> '';
CREATE INDEX outcomes ON jobs (status) WHERE ended IS NOT NULL;
CREATE INDEX ready ON jobs (type, rank) WHERE status = 'q' AND alarm IS NULL AND lane IS NULL;
CREATE INDEX lanes ON jobs (type, lane, rank)
    WHERE status = 'q' AND alarm IS NULL AND lane IS NOT NULL;
CREATE UNIQUE INDEX limit_places ON jobs (limit_place) WHERE limit_place IS NOT NULL;
CREATE UNIQUE INDEX total_places ON jobs (total_place) WHERE total_place IS NOT NULL;
CREATE INDEX standings ON edges (child, outcome);
CREATE INDEX parked ON jobs (type) WHERE status = 'w';
CREATE INDEX runs ON jobs (run) WHERE run IS NOT NULL;
COMMIT;
PRAGMA application_id = 1397247572;
PRAGMA user_version = 7;
