-- Looking things up by author and by domain, whole threads, and what imports and named readers of changes must remember.
-- `domain` is derived from the body when it is read. Only its index takes space, and only things with an address are in it.

PRAGMA user_version = 2;

-- The address without its scheme and `www.`, with every end of a host name as a slash. Replies have no address.
ALTER TABLE stored_items ADD COLUMN address TEXT GENERATED ALWAYS AS (
  CASE WHEN parent IS NULL AND json_valid(body) AND json_extract(body, '$.url') LIKE '%://%' THEN
    replace(replace(replace(
      substr(
        replace(lower(json_extract(body, '$.url')), '://www.', '://'),
        instr(lower(json_extract(body, '$.url')), '://') + 3
      ), '?', '/'), '#', '/'), ':', '/')
  END
) VIRTUAL;

-- The host name, without a user name in front of it.
ALTER TABLE stored_items ADD COLUMN domain TEXT GENERATED ALWAYS AS (
  nullif(substr(
    substr(address, 1, instr(address || '/', '/') - 1),
    instr(substr(address, 1, instr(address || '/', '/') - 1), '@') + 1
  ), '')
) VIRTUAL;

-- In blocks of 16,384 ids: neighbours in time share pages, so that writing stays cheap (an index by author alone dirties
-- a page per item). A look-up by author goes through the blocks, which SQLite calls a skip-scan.
CREATE INDEX items_by_author ON stored_items (id >> 14, "by", time) WHERE "by" IS NOT NULL;
CREATE INDEX items_by_domain ON stored_items (domain, time) WHERE domain IS NOT NULL;

-- Files from which items were taken. What they brought is second-hand until the source itself was asked.
CREATE TABLE imports (
  import_id INTEGER PRIMARY KEY AUTOINCREMENT,
  source TEXT NOT NULL,
  file TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  rows_read INTEGER NOT NULL,
  items INTEGER NOT NULL,
  first_id INTEGER,
  last_id INTEGER,
  started_at INTEGER NOT NULL,
  moved_at INTEGER NOT NULL,
  ended_at INTEGER,
  UNIQUE (source, fingerprint)
) STRICT;

-- How far each named reader of the change feed has come. No change is deleted before all of them have read it.
CREATE TABLE change_readers (
  name TEXT PRIMARY KEY,
  position TEXT NOT NULL,
  read_at INTEGER NOT NULL
) STRICT;

DROP VIEW item_fields;
DROP VIEW items;

CREATE VIEW items AS
SELECT
  s.name AS source, i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted,
  i.first_seen_at,
  max(i.last_fetched_at, coalesce((
    SELECT r.read_at FROM reads AS r
    WHERE r.source = i.source AND r.first_id BETWEEN i.id - 99 AND i.id AND r.last_id >= i.id
  ), 0)) AS last_fetched_at,
  i.changed_at, i.revision, i.hash, i.content_hash, i.body, i.domain
FROM stored_items AS i JOIN sources AS s ON s.number = i.source;

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
  CASE WHEN last_fetched_at > 0 THEN
    strftime('%Y-%m-%d %H:%M:%f', last_fetched_at / 1000.0, 'unixepoch')
  END AS last_fetched_at,
  strftime('%Y-%m-%d %H:%M:%f', changed_at / 1000.0, 'unixepoch') AS changed_at,
  body, domain, last_fetched_at = 0 AS second_hand
FROM (SELECT *, CASE WHEN json_valid(body) THEN body ELSE '{}' END AS readable FROM items);

-- Which story an item belongs to: the highest ancestor that the mirror holds, and how far below it the item is. Items
-- that name each other as parents belong to none.
CREATE VIEW threads AS
SELECT
  source, id, parent, "by", time,
  CASE WHEN top < '1000' THEN CAST(substr(top, 5) AS INTEGER) END AS root,
  CASE WHEN top < '1000' THEN CAST(substr(top, 1, 4) AS INTEGER) END AS depth
FROM (
  SELECT s.name AS source, i.id, i.parent, i."by", i.time, (
    WITH RECURSIVE up (id, parent, depth) AS (
      SELECT i.id, i.parent, 0
      UNION ALL
      SELECT p.id, p.parent, up.depth + 1 FROM up CROSS JOIN stored_items AS p
      ON p.source = i.source AND p.id = up.parent WHERE up.depth < 1000
    )
    SELECT max(printf('%04d', depth) || id) FROM up
  ) AS top
  FROM stored_items AS i JOIN sources AS s ON s.number = i.source
);

-- Profiles with their usual fields. `created` is the provider's own time.
CREATE VIEW user_fields AS
SELECT
  source, name,
  json_extract(readable, '$.karma') AS karma,
  datetime(json_extract(readable, '$.created'), 'unixepoch') AS created,
  json_extract(readable, '$.about') AS about,
  strftime('%Y-%m-%d %H:%M:%f', first_seen_at / 1000.0, 'unixepoch') AS first_seen_at,
  strftime('%Y-%m-%d %H:%M:%f', last_fetched_at / 1000.0, 'unixepoch') AS last_fetched_at,
  strftime('%Y-%m-%d %H:%M:%f', changed_at / 1000.0, 'unixepoch') AS changed_at,
  body
FROM (SELECT *, CASE WHEN json_valid(body) THEN body ELSE '{}' END AS readable FROM users);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('stored_items', 'items_by_author', '9500000 14000 2 1'),
  ('stored_items', 'items_by_domain', '1000000 20 1');
