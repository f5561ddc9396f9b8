-- The first schema. Times named *_at are integer milliseconds since 1970; docs/tables.md explains every table.

PRAGMA application_id = 1380273490;  -- "REMR"
PRAGMA user_version = 1;

-- Large tables name a source by its number. The views `items`, `revisions` and `users` show its name.
CREATE TABLE sources (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE stored_items (
  source INTEGER NOT NULL,
  id INTEGER NOT NULL,
  type TEXT,
  "by" TEXT,
  time INTEGER,
  parent INTEGER,
  score INTEGER,
  descendants INTEGER,
  dead INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  first_seen_at INTEGER NOT NULL,
  last_fetched_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  hash BLOB NOT NULL,
  content_hash BLOB NOT NULL,
  body TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX items_by_key ON stored_items (source, id);
CREATE INDEX items_by_type_and_time ON stored_items (type, time);
CREATE INDEX items_by_parent ON stored_items (parent) WHERE parent IS NOT NULL;

CREATE TABLE stored_revisions (
  source INTEGER NOT NULL,
  item_id INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  last_fetched_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (source, item_id, revision)
) STRICT;

CREATE TABLE stored_users (
  source INTEGER NOT NULL,
  name TEXT NOT NULL,
  first_seen_at INTEGER NOT NULL,
  last_fetched_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  hash BLOB NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (source, name)
) STRICT;

-- When items were last read, if nothing had changed: ranges of neighbours that were read in the same second. No range
-- crosses a hundred. The view `items` shows the later of this moment and that of the row.
CREATE TABLE reads (
  source INTEGER NOT NULL,
  first_id INTEGER NOT NULL,
  last_id INTEGER NOT NULL,
  read_at INTEGER NOT NULL,
  PRIMARY KEY (source, first_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE documents (
  source TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  listed_mark TEXT,
  listed_rank REAL,
  listed_at INTEGER,
  seen_in_walk INTEGER NOT NULL DEFAULT 0,
  vanished_at INTEGER,
  owed INTEGER NOT NULL,
  first_seen_at INTEGER NOT NULL,
  updated_at TEXT,
  fetched_at INTEGER,
  changed_at INTEGER,
  revision INTEGER NOT NULL DEFAULT 0,
  hash BLOB,
  body TEXT,
  PRIMARY KEY (source, key)
) STRICT;

CREATE TABLE document_revisions (
  source TEXT NOT NULL,
  key TEXT NOT NULL,
  revision INTEGER NOT NULL,
  updated_at TEXT,
  fetched_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (source, key, revision)
) STRICT;

CREATE UNIQUE INDEX documents_by_fingerprint ON documents (source, fingerprint);
CREATE INDEX documents_owed ON documents (source, listed_rank DESC, listed_mark DESC, key) WHERE owed = 1;

CREATE TABLE changes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  source TEXT NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  change TEXT NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT;

CREATE TABLE segments (
  segment_id INTEGER PRIMARY KEY AUTOINCREMENT,
  source TEXT NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  first_id INTEGER NOT NULL,
  last_id INTEGER NOT NULL,
  cursor INTEGER NOT NULL,
  owner TEXT,
  fence INTEGER NOT NULL DEFAULT 0,
  lease_until INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  moved_at INTEGER NOT NULL
) STRICT;

CREATE INDEX segments_unfinished ON segments (source, kind, first_id) WHERE state <> 'done';

CREATE TABLE coverage (
  source TEXT NOT NULL,
  first_id INTEGER NOT NULL,
  last_id INTEGER NOT NULL,
  PRIMARY KEY (source, first_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE gaps (
  source TEXT NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  null_count INTEGER NOT NULL,
  near_newest INTEGER NOT NULL,
  not_before_at INTEGER NOT NULL,
  first_seen_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  served_turn INTEGER NOT NULL,
  owner TEXT,
  lease_until INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (source, kind, key)
) STRICT, WITHOUT ROWID;

-- What may be served, in its order; looking for what is due reads nothing else. Absent ids are many, and for ever.
CREATE INDEX gaps_due ON gaps (
  source, served_turn, first_seen_at, not_before_at, last_seen_at, state, lease_until, reason
) WHERE state IN ('owed', 'leased', 'dead');
CREATE INDEX gaps_open ON gaps (source, kind, state, reason, first_seen_at, not_before_at) WHERE state <> 'settled';

CREATE TABLE inbox (
  ticket INTEGER PRIMARY KEY AUTOINCREMENT,
  source TEXT NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  announced_at INTEGER NOT NULL,
  UNIQUE (source, kind, key)
) STRICT;

CREATE TABLE pace (
  source TEXT PRIMARY KEY,
  record TEXT NOT NULL
) STRICT;

CREATE TABLE notes (
  source TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (source, name)
) STRICT;

CREATE TABLE heartbeat (
  runtime TEXT PRIMARY KEY,
  beat_at INTEGER NOT NULL,
  snapshot TEXT NOT NULL
) STRICT;

CREATE TABLE cursors (
  source TEXT PRIMARY KEY,
  watermark TEXT,
  walking_from TEXT,
  seen_down_to TEXT,
  position TEXT,
  walk INTEGER NOT NULL DEFAULT 0,
  full_walk INTEGER,
  moved_at INTEGER NOT NULL
) STRICT;

CREATE TABLE runs (
  run_id INTEGER PRIMARY KEY AUTOINCREMENT,
  source TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  stopped_by TEXT,
  counts TEXT NOT NULL DEFAULT '{}'
) STRICT;

CREATE INDEX runs_by_source ON runs (source, run_id);

CREATE VIEW items AS
SELECT
  s.name AS source, i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted,
  i.first_seen_at,
  max(i.last_fetched_at, coalesce((
    SELECT r.read_at FROM reads AS r
    WHERE r.source = i.source AND r.first_id BETWEEN i.id - 99 AND i.id AND r.last_id >= i.id
  ), 0)) AS last_fetched_at,
  i.changed_at, i.revision, i.hash, i.content_hash, i.body
FROM stored_items AS i JOIN sources AS s ON s.number = i.source;

CREATE VIEW revisions AS
SELECT s.name AS source, r.item_id, r.revision, r.last_fetched_at, r.changed_at, r.body
FROM stored_revisions AS r JOIN sources AS s ON s.number = r.source;

CREATE VIEW users AS
SELECT s.name AS source, u.name, u.first_seen_at, u.last_fetched_at, u.changed_at, u.hash, u.body
FROM stored_users AS u JOIN sources AS s ON s.number = u.source;

-- Every field of an item, readable: what the envelope does not promote is read from the body.
CREATE VIEW item_fields AS
SELECT
  source, id, type, "by", datetime(time, 'unixepoch') AS time, parent, score, descendants, dead, deleted,
  json_extract(readable, '$.title') AS title,
  json_extract(readable, '$.url') AS url,
  json_extract(readable, '$.text') AS text,
  json_extract(readable, '$.kids') AS kids,
  json_extract(readable, '$.parts') AS parts,
  json_extract(readable, '$.poll') AS poll,
  revision,
  strftime('%Y-%m-%d %H:%M:%f', first_seen_at / 1000.0, 'unixepoch') AS first_seen_at,
  strftime('%Y-%m-%d %H:%M:%f', last_fetched_at / 1000.0, 'unixepoch') AS last_fetched_at,
  strftime('%Y-%m-%d %H:%M:%f', changed_at / 1000.0, 'unixepoch') AS changed_at,
  body
FROM (SELECT *, CASE WHEN json_valid(body) THEN body ELSE '{}' END AS readable FROM items);

-- Documents with readable moments. `gone`: deleted upstream, the last content is kept.
CREATE VIEW document_fields AS
SELECT
  d.source, d.key, d.updated_at,
  strftime('%Y-%m-%d %H:%M:%f', d.first_seen_at / 1000.0, 'unixepoch') AS first_seen_at,
  strftime('%Y-%m-%d %H:%M:%f', d.fetched_at / 1000.0, 'unixepoch') AS fetched_at,
  strftime('%Y-%m-%d %H:%M:%f', d.changed_at / 1000.0, 'unixepoch') AS changed_at,
  strftime('%Y-%m-%d %H:%M:%f', d.vanished_at / 1000.0, 'unixepoch') AS vanished_at,
  d.owed,
  EXISTS (
    SELECT 1 FROM gaps AS g
    WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state = 'gone'
  ) AS gone,
  d.revision, d.body
FROM documents AS d;

-- Without these estimates SQLite takes a table of a few sources for one of a million rows. With them a query that names
-- an id and no source looks that id up in each source instead of reading all items.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('sources', 'sqlite_autoindex_sources_1', '4 1'),
  ('stored_items', 'items_by_key', '10000000 2500000 1'),
  ('stored_items', 'items_by_type_and_time', '10000000 2000000 2'),
  ('stored_items', 'items_by_parent', '9000000 4'),
  ('stored_revisions', 'sqlite_autoindex_stored_revisions_1', '1000000 250000 2 1'),
  ('stored_users', 'sqlite_autoindex_stored_users_1', '1000000 250000 1');
