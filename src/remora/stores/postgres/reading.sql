-- Queries for readers of the PostgreSQL mirror. Each statement is short and runs in a read-only session.

-- name: read_sources
-- Every source with something in the mirror; a listed one has a walk over its list.
SELECT name, max(is_listed) FROM (
  SELECT name, 0 AS is_listed FROM sources UNION ALL SELECT source, 1 FROM cursors
) AS held GROUP BY name ORDER BY name;

-- name: read_items
-- Items by id.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  greatest(i.last_fetched_at, (
    SELECT r.read_at FROM reads AS r
    WHERE r.source = i.source AND r.first_id BETWEEN i.id - 99 AND i.id AND r.last_id >= i.id
  )),
  i.changed_at, i.revision, i.body
FROM stored_items AS i
WHERE i.source = (SELECT number FROM sources WHERE name = %(source)s)
AND i.id = ANY(%(ids)s::bigint[]) ORDER BY i.id;

-- name: read_item_page
-- The next items by id that changed since a given time: no more rows once there are this many bytes.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  greatest(i.last_fetched_at, (
    SELECT r.read_at FROM reads AS r
    WHERE r.source = i.source AND r.first_id BETWEEN i.id - 99 AND i.id AND r.last_id >= i.id
  )),
  i.changed_at, i.revision, i.body
FROM (
  SELECT *, sum(octet_length(body)) OVER (ORDER BY id) - octet_length(body) AS before FROM (
    SELECT * FROM stored_items
    WHERE source = (SELECT number FROM sources WHERE name = %(source)s)
    AND id BETWEEN %(first)s AND %(last)s AND changed_at >= %(since)s ORDER BY id LIMIT %(limit)s
  ) AS page
) AS i WHERE before < %(bytes)s ORDER BY i.id;

-- name: read_replies
-- The direct replies to some items.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  greatest(i.last_fetched_at, (
    SELECT r.read_at FROM reads AS r
    WHERE r.source = i.source AND r.first_id BETWEEN i.id - 99 AND i.id AND r.last_id >= i.id
  )),
  i.changed_at, i.revision, i.body
FROM stored_items AS i
WHERE i.parent = ANY(%(ids)s::bigint[])
AND i.source = (SELECT number FROM sources WHERE name = %(source)s) ORDER BY i.parent, i.id LIMIT %(limit)s;

-- name: read_revisions
-- Earlier contents of an item, oldest first.
SELECT revision, body, changed_at, last_fetched_at FROM stored_revisions
WHERE source = (SELECT number FROM sources WHERE name = %(source)s) AND item_id = %(id)s ORDER BY revision;

-- name: read_revised_ids
-- The next ids of items that have earlier contents.
SELECT DISTINCT item_id FROM stored_revisions
WHERE source = (SELECT number FROM sources WHERE name = %(source)s) AND item_id > %(after)s
ORDER BY item_id LIMIT %(limit)s;

-- name: read_earlier_items
-- The next earlier contents of some items that were seen since a given time: no more rows once there are this many bytes.
SELECT item_id, revision, body, changed_at, last_fetched_at FROM (
  SELECT *, sum(octet_length(body)) OVER (ORDER BY item_id, revision) - octet_length(body) AS before
  FROM stored_revisions
  WHERE source = (SELECT number FROM sources WHERE name = %(source)s) AND item_id = ANY(%(ids)s::bigint[])
  AND changed_at >= %(since)s AND (item_id, revision) > (%(id)s, %(revision)s)
) AS r WHERE before < %(bytes)s ORDER BY item_id, revision;

-- name: read_user
-- One profile.
SELECT body, last_fetched_at, changed_at FROM users WHERE source = %(source)s AND name = %(name)s;

-- name: read_document
-- One document.
SELECT
  d.key, CASE WHEN d.body IS NULL THEN d.listed_mark ELSE d.updated_at END, d.body, d.fetched_at, d.revision,
  d.changed_at, d.vanished_at, EXISTS (
    SELECT 1 FROM gaps AS g
    WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state = 'gone'
  )
FROM documents AS d WHERE d.source = %(source)s AND d.key = %(key)s;

-- name: read_document_page
-- The next documents with a body that were fetched since a given time: no more rows once there are this many bytes.
SELECT
  d.key, d.updated_at, d.body, d.fetched_at, d.revision, d.changed_at, d.vanished_at, EXISTS (
    SELECT 1 FROM gaps AS g
    WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state = 'gone'
  )
FROM (
  SELECT *, sum(octet_length(body)) OVER (ORDER BY key) - octet_length(body) AS before FROM (
    SELECT * FROM documents
    WHERE source = %(source)s AND key > %(after)s AND body IS NOT NULL AND coalesce(fetched_at, 0) >= %(since)s
    ORDER BY key LIMIT %(limit)s
  ) AS page
) AS d WHERE before < %(bytes)s ORDER BY d.key;

-- name: read_documents_of
-- The next documents with a body of some keys: no more rows once there are this many bytes.
SELECT
  d.key, d.updated_at, d.body, d.fetched_at, d.revision, d.changed_at, d.vanished_at, EXISTS (
    SELECT 1 FROM gaps AS g
    WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state = 'gone'
  )
FROM (
  SELECT *, sum(octet_length(body)) OVER (ORDER BY key) - octet_length(body) AS before FROM documents
  WHERE source = %(source)s AND key = ANY(%(keys)s::text[]) AND key > %(after)s AND body IS NOT NULL
) AS d WHERE before < %(bytes)s ORDER BY d.key;

-- name: read_revised_keys
-- The next keys of documents that have earlier contents.
SELECT DISTINCT key FROM document_revisions WHERE source = %(source)s AND key > %(after)s ORDER BY key LIMIT %(limit)s;

-- name: read_earlier_documents
-- The next earlier contents of some documents that were seen since a given time: no more rows once there are this many bytes.
SELECT key, updated_at, body, fetched_at, revision, changed_at FROM (
  SELECT *, sum(octet_length(body)) OVER (ORDER BY key, revision) - octet_length(body) AS before
  FROM document_revisions
  WHERE source = %(source)s AND key = ANY(%(keys)s::text[]) AND changed_at >= %(since)s
  AND (key, revision) > (%(key)s, %(revision)s)
) AS r WHERE before < %(bytes)s ORDER BY key, revision;

-- name: read_changes
-- The next lines of the change feed, up to the oldest transaction that still runs.
SELECT xid::text || ':' || seq::text, source, kind, key, change, changed_at FROM changes
WHERE (xid, seq) > (%(xid)s::text::xid8, %(seq)s) AND xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY xid, seq LIMIT %(limit)s;

-- name: read_newest_position
-- The last line of the change feed that can be read now.
SELECT xid::text || ':' || seq::text FROM changes
WHERE xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY xid DESC, seq DESC LIMIT 1;

-- name: about_position
-- Whether a position has the number of a transaction that this server has not begun, and whether a named reader is there.
SELECT %(xid)s::text::xid8 >= pg_snapshot_xmax(pg_current_snapshot()),
       EXISTS (SELECT FROM change_readers WHERE position = %(position)s);

-- name: set_query_timeout
-- How long a user's query may take.
SELECT set_config('statement_timeout', %(milliseconds)s, true);

-- name: declare_query
-- A cursor accepts only a query, and refuses everything that writes.
DECLARE remora_query NO SCROLL CURSOR FOR
;

-- name: fetch_query
-- The first rows.
FETCH FORWARD {count} FROM remora_query;
