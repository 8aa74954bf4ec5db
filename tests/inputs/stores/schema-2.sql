-- What Shunter left when its schema was of version 2: two jobs that ended, one that waits, one that is delayed.
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
, place TEXT, deadline REAL) STRICT;
INSERT INTO "jobs" VALUES(1,'01m7m62x7pt166j9zrhadwg08f',3,'c','add',1794900063486102,NULL,'w-host-6318-3ce4b9bb',NULL,1.79490006349792027471e+09,NULL,224976833139988,'{"id":"01m7m62x7pt166j9zrhadwg08f","type":"add","created":1794900063.4861026,"updated":1794900063.4979203,"status":"c","revision":3,"attempt":1,"dispatcher":{"id":"d-01m7m62vfwr5y2eqvawnf5sg0r","date":1794900063.4861026,"expiry":1794900068.4861026},"execution":{"worker_id":"w-host-6318-3ce4b9bb","started":1794900063.4861026,"ended":1794900063.4979203},"reply_to":{"gateway":"zmq","address":"Yy2iQicedptDAwGiiqI="}}',X'2A',NULL,NULL);
INSERT INTO "jobs" VALUES(2,'01m7m62x8c01bwbq9s5ghngne6',3,'f','fail',1794900063500442,NULL,'w-host-6318-3ce4b9bb',NULL,1.7949000635030655861e+09,NULL,65710951365859,'{"id":"01m7m62x8c01bwbq9s5ghngne6","type":"fail","created":1794900063.5004423,"updated":1794900063.5030656,"status":"f","revision":3,"attempt":1,"dispatcher":{"id":"d-01m7m62vfwr5y2eqvawnf5sg0r","date":1794900063.5004423,"expiry":1794900068.5004423},"execution":{"worker_id":"w-host-6318-3ce4b9bb","started":1794900063.5004423,"ended":1794900063.5030656},"error":{"kind":"exception","message":"ValueError: as it was","traceback":"Traceback (most recent call last):\n  File \"/opt/apps/app.py\", line 8, in fail\n    raise ValueError(message)\nValueError: as it was\n"},"reply_to":{"gateway":"zmq","address":"Yy2iQicedptDAwGiiqI="},"failures":1,"history":[{"attempt":1,"worker_id":"w-host-6318-3ce4b9bb","started":1794900063.5004423,"ended":1794900063.5030656,"outcome":"failed","message":"ValueError: as it was"}]}',NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,'01m7m62ybpac8ptp8b8x1mxf7b',0,'q','add',1794900064637491,NULL,NULL,NULL,NULL,NULL,0,'{"id":"01m7m62ybpac8ptp8b8x1mxf7b","type":"add","created":1794900064.637491,"updated":1794900064.637491,"execution":{},"reply_to":{"gateway":"zmq","address":"Yy3pmTP4bELtOUNa2h8="}}',NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(4,'01m7m62yc7gfs2f89fkfndgwm4',0,'q','add',1794889264647553,1.79490006564755320544e+09,NULL,'once',NULL,NULL,0,'{"id":"01m7m62yc7gfs2f89fkfndgwm4","type":"add","created":1794900064.6475532,"updated":1794900064.6475532,"priority":3,"execution":{},"not_before":1794900065.6475532,"unique_key":"once","reply_to":{"gateway":"zmq","address":"Yy3pmTP4bELtOUNa2h8="},"wait_until":1794900065.6475532}',NULL,NULL,NULL);
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
INSERT INTO "workers" VALUES('w-host-6318-3ce4b9bb','1794900063.6699235',0,'{"id":"w-host-6318-3ce4b9bb","kind":"full","hostname":"host","port":0,"handlers":[{"type":"add"},{"type":"fail"}],"max_jobs":1,"incarnation":1,"registered":1794900061.8201525,"last_pinged":1794900063.6699235,"is_resigned":true}',0);
CREATE INDEX ready ON jobs (type, rank) WHERE status = 'q' AND alarm IS NULL;
CREATE INDEX alarms ON jobs (alarm, status, type) WHERE alarm IS NOT NULL;
CREATE INDEX held ON jobs (worker_id, status, type) WHERE status = 'd' OR status = 'i';
CREATE INDEX finished ON jobs (ended, status, type) WHERE ended IS NOT NULL;
CREATE UNIQUE INDEX keyed ON jobs (unique_key) WHERE unique_key IS NOT NULL;
CREATE UNIQUE INDEX places ON jobs (place) WHERE place IS NOT NULL;
CREATE INDEX deadlines ON jobs (deadline) WHERE deadline IS NOT NULL;
COMMIT;
PRAGMA application_id = 1397247572;
PRAGMA user_version = 2;
