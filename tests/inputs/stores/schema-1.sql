-- What Shunter left when its schema was of version 1: two jobs that ended, one that waits, one that is delayed.
BEGIN TRANSACTION;
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
INSERT INTO "jobs" VALUES(1,'01m7m62apfydcn5wx4sek37z0p',3,'c','add',1794900044496569,NULL,'w-host-5726-d93f7a94',NULL,1.79490004449926519392e+09,NULL,155398363733176,'{"id":"01m7m62apfydcn5wx4sek37z0p","type":"add","created":1794900044.4965687,"updated":1794900044.4992652,"status":"c","revision":3,"attempt":1,"dispatcher":{"id":"d-01m7m628vs4dwr8fww4rscepdk","date":1794900044.4965687,"expiry":1794900049.4965687},"execution":{"worker_id":"w-host-5726-d93f7a94","started":1794900044.4965687,"ended":1794900044.4992652},"reply_to":{"gateway":"zmq","address":"Yy1OABwXnrP8mPreCLg="}}',X'2A');
INSERT INTO "jobs" VALUES(2,'01m7m62apx5wt1xeb6z9rz0y7k',3,'f','fail',1794900044510120,NULL,'w-host-5726-d93f7a94',NULL,1.79490004451160645483e+09,NULL,261126083554663,'{"id":"01m7m62apx5wt1xeb6z9rz0y7k","type":"fail","created":1794900044.5101194,"updated":1794900044.5116065,"status":"f","revision":3,"attempt":1,"dispatcher":{"id":"d-01m7m628vs4dwr8fww4rscepdk","date":1794900044.5101194,"expiry":1794900049.5101194},"execution":{"worker_id":"w-host-5726-d93f7a94","started":1794900044.5101194,"ended":1794900044.5116065},"error":{"kind":"exception","message":"ValueError: as it was","traceback":"Traceback (most recent call last):\n  File \"/opt/apps/app.py\", line 8, in fail\n    raise ValueError(message)\nValueError: as it was\n"},"reply_to":{"gateway":"zmq","address":"Yy1OABwXnrP8mPreCLg="},"failures":1,"history":[{"attempt":1,"worker_id":"w-host-5726-d93f7a94","started":1794900044.5101194,"ended":1794900044.5116065,"outcome":"failed","message":"ValueError: as it was"}]}',NULL);
INSERT INTO "jobs" VALUES(3,'01m7m62bevacg26bbb7agap3fc',0,'q','add',1794900045286764,NULL,NULL,NULL,NULL,NULL,0,'{"id":"01m7m62bevacg26bbb7agap3fc","type":"add","created":1794900045.2867641,"updated":1794900045.2867641,"execution":{},"reply_to":{"gateway":"zmq","address":"Yy2GGTHpLEUz6u2h5nE="}}',NULL);
INSERT INTO "jobs" VALUES(4,'01m7m62bf8dfcvmdjw36876j04',0,'q','add',1794889245288751,1.79490004628875136375e+09,NULL,'once',NULL,NULL,0,'{"id":"01m7m62bf8dfcvmdjw36876j04","type":"add","created":1794900045.2887514,"updated":1794900045.2887514,"priority":3,"execution":{},"not_before":1794900046.2887514,"unique_key":"once","reply_to":{"gateway":"zmq","address":"Yy2GGTHpLEUz6u2h5nE="},"wait_until":1794900046.2887514}',NULL);
CREATE TABLE payloads (
    seq INTEGER PRIMARY KEY,
    body BLOB
) STRICT;
INSERT INTO "payloads" VALUES(1,X'921416');
INSERT INTO "payloads" VALUES(2,X'91A9617320697420776173');
INSERT INTO "payloads" VALUES(3,X'920102');
INSERT INTO "payloads" VALUES(4,X'920304');
CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    last_pinged TEXT NOT NULL,
    is_dead INTEGER NOT NULL,
    doc TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "workers" VALUES('w-host-5726-d93f7a94','1794900044.645227',0,'{"id":"w-host-5726-d93f7a94","kind":"full","hostname":"host","port":0,"handlers":[{"type":"add"},{"type":"fail"}],"max_jobs":1,"incarnation":1,"registered":1794900043.620923,"last_pinged":1794900044.6440883,"is_resigned":true}');
CREATE INDEX ready ON jobs (type, rank) WHERE status = 'q' AND alarm IS NULL;
CREATE INDEX alarms ON jobs (alarm, status, type) WHERE alarm IS NOT NULL;
CREATE INDEX held ON jobs (worker_id, status, type) WHERE status = 'd' OR status = 'i';
CREATE INDEX finished ON jobs (ended, status, type) WHERE ended IS NOT NULL;
CREATE UNIQUE INDEX keyed ON jobs (unique_key) WHERE unique_key IS NOT NULL;
COMMIT;
PRAGMA application_id = 1397247572;
PRAGMA user_version = 1;
