-- What Shunter left when its schema was of version 3: two jobs that ended, one that waits, one that is delayed.
BEGIN TRANSACTION;
CREATE TABLE dispatchers (
    id TEXT PRIMARY KEY,
    clock REAL NOT NULL,
    doc TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "dispatchers" VALUES('d-01m7m632ncdh5v9f51szmhh2h7',1.7949000691121973992e+09,'{"dispatcher_id":"d-01m7m632ncdh5v9f51szmhh2h7","clock":1794900069.1121974,"host":"1fd16370-7ed3-4827-9044-a77bbf75af5a","uptime":14869.509576472}');
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
INSERT INTO "jobs" VALUES(1,'01m7m633nn22y95zagvpa5dt7s',3,'c','add',1794900070072321,NULL,'w-host-6595-dfe04ae9',NULL,1.7949000700765631199e+09,NULL,63333346032621,'{"id":"01m7m633nn22y95zagvpa5dt7s","type":"add","created":1794900070.0723207,"updated":1794900070.0765631,"status":"c","revision":3,"attempt":1,"dispatcher":{"id":"d-01m7m632ncdh5v9f51szmhh2h7","date":1794900070.0723207,"expiry":1794900075.0723207},"execution":{"worker_id":"w-host-6595-dfe04ae9","started":1794900070.0723207,"ended":1794900070.0765631},"reply_to":{"gateway":"zmq","address":"Yy3BOE8gwLk1kSY3yZU="}}',X'2A',NULL,NULL);
INSERT INTO "jobs" VALUES(2,'01m7m633nzt08bczv3kgn0ewxv',3,'f','fail',1794900070079553,NULL,'w-host-6595-dfe04ae9',NULL,1.79490007008216428756e+09,NULL,150683432099173,'{"id":"01m7m633nzt08bczv3kgn0ewxv","type":"fail","created":1794900070.079553,"updated":1794900070.0821643,"status":"f","revision":3,"attempt":1,"dispatcher":{"id":"d-01m7m632ncdh5v9f51szmhh2h7","date":1794900070.079553,"expiry":1794900075.079553},"execution":{"worker_id":"w-host-6595-dfe04ae9","started":1794900070.079553,"ended":1794900070.0821643},"error":{"kind":"exception","message":"ValueError: as it was","traceback":"Traceback (most recent call last):\n  File \"/opt/apps/app.py\", line 8, in fail\n    raise ValueError(message)\nValueError: as it was\n"},"reply_to":{"gateway":"zmq","address":"Yy3BOE8gwLk1kSY3yZU="},"failures":1,"history":[{"attempt":1,"worker_id":"w-host-6595-dfe04ae9","started":1794900070.079553,"ended":1794900070.0821643,"outcome":"failed","message":"ValueError: as it was"}]}',NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,'01m7m63540grd3mnr68t4d43cf',0,'q','add',1794900071559624,NULL,NULL,NULL,NULL,NULL,0,'{"id":"01m7m63540grd3mnr68t4d43cf","type":"add","created":1794900071.5596237,"updated":1794900071.5596237,"execution":{},"reply_to":{"gateway":"zmq","address":"Yy284QusKSvsm7j1bo8="}}',NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(4,'01m7m6354ppbv30kv59axqaqfw',0,'q','add',1794889271575069,1.79490007257506871225e+09,NULL,'once',NULL,NULL,0,'{"id":"01m7m6354ppbv30kv59axqaqfw","type":"add","created":1794900071.5750687,"updated":1794900071.5750687,"priority":3,"execution":{},"not_before":1794900072.5750687,"unique_key":"once","reply_to":{"gateway":"zmq","address":"Yy284QusKSvsm7j1bo8="},"wait_until":1794900072.5750687}',NULL,NULL,NULL);
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
, revision INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
INSERT INTO "workers" VALUES('w-host-6595-dfe04ae9','1794900070.1376545',0,'{"id":"w-host-6595-dfe04ae9","kind":"full","hostname":"host","port":0,"handlers":[{"type":"add"},{"type":"fail"}],"max_jobs":1,"incarnation":1,"registered":1794900069.3859434,"last_pinged":1794900070.1376545,"is_resigned":true}',0);
CREATE INDEX ready ON jobs (type, rank) WHERE status = 'q' AND alarm IS NULL;
CREATE INDEX alarms ON jobs (alarm, status, type) WHERE alarm IS NOT NULL;
CREATE INDEX held ON jobs (worker_id, status, type) WHERE status = 'd' OR status = 'i';
CREATE INDEX finished ON jobs (ended, status, type) WHERE ended IS NOT NULL;
CREATE UNIQUE INDEX keyed ON jobs (unique_key) WHERE unique_key IS NOT NULL;
CREATE UNIQUE INDEX places ON jobs (place) WHERE place IS NOT NULL;
CREATE INDEX deadlines ON jobs (deadline) WHERE deadline IS NOT NULL;
COMMIT;
PRAGMA application_id = 1397247572;
PRAGMA user_version = 3;
