-- A new item takes some 18 bytes less: what nearly all items have alike is written as nothing. No row is touched, so this takes
-- as long as one index does; what is stored means what it meant.

PRAGMA user_version = 5;

DROP VIEW threads;
DROP VIEW item_fields;
DROP VIEW items;

-- An empty mark is the type 'comment'. A type that is itself empty has a NUL as its mark, which no type contains.
UPDATE stored_items SET type = char(0) WHERE type = '';
DROP INDEX items_by_type_and_time;
ALTER TABLE stored_items RENAME COLUMN type TO type_mark;
ALTER TABLE stored_items ADD COLUMN type TEXT GENERATED ALWAYS AS (
  CASE type_mark WHEN '' THEN 'comment' WHEN char(0) THEN '' ELSE type_mark END
) VIRTUAL;

-- A mark below 0 counts milliseconds back: -1 is the moment when the item was first seen. 0: never read from its source.
ALTER TABLE stored_items RENAME COLUMN last_fetched_at TO fetched_mark;
ALTER TABLE stored_items ADD COLUMN last_fetched_at INTEGER GENERATED ALWAYS AS (
  CASE WHEN fetched_mark < 0 THEN first_seen_at + fetched_mark + 1 ELSE fetched_mark END
) VIRTUAL;

-- The mark 0: it has not changed since it was first seen.
ALTER TABLE stored_items RENAME COLUMN changed_at TO changed_mark;
ALTER TABLE stored_items ADD COLUMN changed_at INTEGER GENERATED ALWAYS AS (
  CASE changed_mark WHEN 0 THEN first_seen_at ELSE changed_mark END
) VIRTUAL;

CREATE INDEX items_by_type_and_time ON stored_items (type, time);

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

-- The estimates of an index go with it.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('stored_items', 'items_by_type_and_time', '10000000 2000000 2');
