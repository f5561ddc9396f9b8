-- Queries for readers of the SQLite file. Each statement is short: an open read holds up the writer's checkpoints.

-- name: read_sources
-- Every source with something in the mirror; a listed one has a walk over its list.
SELECT name, max(is_listed) FROM (
  SELECT name, 0 AS is_listed FROM sources UNION ALL SELECT source, 1 FROM cursors
) GROUP BY name ORDER BY name;

-- name: read_items
-- Items by id.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  max(i.last_fetched_at, coalesce((
    SELECT r.read_at FROM reads AS r
    WHERE r.source = i.source AND r.first_id BETWEEN i.id - 99 AND i.id AND r.last_id >= i.id
  ), 0)),
  i.changed_at, i.revision, CAST(i.body AS BLOB)
FROM whole_items AS i
WHERE i.source = (SELECT number FROM sources WHERE name = :source)
AND i.id IN (SELECT value FROM json_each(:ids)) ORDER BY i.id;

-- name: read_item_page
-- The next items by id that changed since a given time.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  max(i.last_fetched_at, coalesce((
    SELECT r.read_at FROM reads AS r
    WHERE r.source = i.source AND r.first_id BETWEEN i.id - 99 AND i.id AND r.last_id >= i.id
  ), 0)),
  i.changed_at, i.revision, CAST(i.body AS BLOB)
FROM whole_items AS i
WHERE i.source = (SELECT number FROM sources WHERE name = :source)
AND i.id BETWEEN :first AND :last AND i.changed_at >= :since ORDER BY i.id LIMIT :limit;

-- name: read_item_sizes
-- The ids of the same page and the sizes of the bodies, each as one JSON array.
SELECT json_group_array(id), json_group_array(size) FROM (
  SELECT i.id, length(CAST(i.body AS BLOB)) AS size FROM whole_items AS i
  WHERE i.source = (SELECT number FROM sources WHERE name = :source)
  AND i.id BETWEEN :first AND :last AND i.changed_at >= :since ORDER BY i.id LIMIT :limit
);

-- name: read_item_columns
-- The same page by columns, each as one JSON array, and the bodies one after the other. A row for each item takes twice
-- the time, and holds up every other thread of Python.
SELECT
  json_group_array(i.id), json_group_array(i.type), json_group_array(i."by"), json_group_array(i.time),
  json_group_array(i.parent), json_group_array(i.score), json_group_array(i.descendants), json_group_array(i.dead),
  json_group_array(i.deleted), json_group_array(i.first_seen_at),
  json_group_array(max(i.last_fetched_at, coalesce((
    SELECT r.read_at FROM reads AS r
    WHERE r.source = i.source AND r.first_id BETWEEN i.id - 99 AND i.id AND r.last_id >= i.id
  ), 0))),
  json_group_array(i.changed_at), json_group_array(i.revision),
  CAST(group_concat(i.body, '') AS BLOB)
FROM whole_items AS i
WHERE i.source = (SELECT number FROM sources WHERE name = :source)
AND i.id BETWEEN :first AND :last AND i.changed_at >= :since;

-- name: read_replies
-- The direct replies to some items. The plus keeps SQLite from the index by source, which would read the whole table.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  max(i.last_fetched_at, coalesce((
    SELECT r.read_at FROM reads AS r
    WHERE r.source = i.source AND r.first_id BETWEEN i.id - 99 AND i.id AND r.last_id >= i.id
  ), 0)),
  i.changed_at, i.revision, CAST(i.body AS BLOB)
FROM whole_items AS i
WHERE i.parent IN (SELECT value FROM json_each(:ids))
AND +i.source = (SELECT number FROM sources WHERE name = :source) ORDER BY i.parent, i.id LIMIT :limit;

-- name: read_revisions
-- Earlier contents of an item, oldest first.
SELECT revision, CAST(body AS BLOB), changed_at, last_fetched_at FROM stored_revisions
WHERE source = (SELECT number FROM sources WHERE name = :source) AND item_id = :id ORDER BY revision;

-- name: read_revised_ids
-- The next ids of items that have earlier contents.
SELECT DISTINCT item_id FROM stored_revisions
WHERE source = (SELECT number FROM sources WHERE name = :source) AND item_id > :after ORDER BY item_id LIMIT :limit;

-- name: read_earlier_items
-- The next earlier contents of some items that were seen since a given time.
SELECT item_id, revision, CAST(body AS BLOB), changed_at, last_fetched_at FROM stored_revisions
WHERE source = (SELECT number FROM sources WHERE name = :source) AND item_id IN (SELECT value FROM json_each(:ids))
AND changed_at >= :since AND (item_id, revision) > (:id, :revision) ORDER BY item_id, revision;

-- name: read_user
-- One profile.
SELECT CAST(body AS BLOB), last_fetched_at, changed_at FROM users WHERE source = :source AND name = :name;

-- name: read_document
-- One document.
SELECT
  d.key, CASE WHEN d.body IS NULL THEN d.listed_mark ELSE d.updated_at END, CAST(d.body AS BLOB), d.fetched_at, d.revision,
  d.changed_at, d.vanished_at, EXISTS (
    SELECT 1 FROM gaps AS g
    WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state = 'gone'
  )
FROM documents AS d WHERE d.source = :source AND d.key = :key;

-- name: read_document_page
-- The next documents with a body that were fetched since a given time.
SELECT
  d.key, d.updated_at, CAST(d.body AS BLOB), d.fetched_at, d.revision, d.changed_at, d.vanished_at, EXISTS (
    SELECT 1 FROM gaps AS g
    WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state = 'gone'
  )
FROM documents AS d
WHERE d.source = :source AND d.key > :after AND d.body IS NOT NULL AND coalesce(d.fetched_at, 0) >= :since
ORDER BY d.key LIMIT :limit;

-- name: read_documents_of
-- The next documents with a body of some keys.
SELECT
  d.key, d.updated_at, CAST(d.body AS BLOB), d.fetched_at, d.revision, d.changed_at, d.vanished_at, EXISTS (
    SELECT 1 FROM gaps AS g
    WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state = 'gone'
  )
FROM documents AS d
WHERE d.source = :source AND d.key IN (SELECT value FROM json_each(:keys)) AND d.key > :after AND d.body IS NOT NULL
ORDER BY d.key;

-- name: read_revised_keys
-- The next keys of documents that have earlier contents.
SELECT DISTINCT key FROM document_revisions WHERE source = :source AND key > :after ORDER BY key LIMIT :limit;

-- name: read_earlier_documents
-- The next earlier contents of some documents that were seen since a given time.
SELECT key, updated_at, CAST(body AS BLOB), fetched_at, revision, changed_at FROM document_revisions
WHERE source = :source AND key IN (SELECT value FROM json_each(:keys)) AND changed_at >= :since
AND (key, revision) > (:key, :revision) ORDER BY key, revision;

-- name: read_changes
-- The next lines of the change feed.
SELECT CAST(seq AS TEXT), source, kind, key, change, changed_at FROM changes
WHERE seq > :seq ORDER BY seq LIMIT :limit;

-- name: read_newest_position
-- The last line of the change feed.
SELECT CAST(seq AS TEXT) FROM changes ORDER BY seq DESC LIMIT 1;
