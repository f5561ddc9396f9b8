-- Lists for people who browse the PostgreSQL mirror.
-- The moment of the last fetch is that of the row: lists do not show it.

-- name: browse_by_score
-- Stories of some time, the highest score first.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  i.last_fetched_at, i.changed_at, i.revision, i.body
FROM stored_items AS i
WHERE i.type = %(type)s AND i.time >= %(since)s AND i.time < %(until)s
AND i.source = (SELECT number FROM sources WHERE name = %(source)s) AND NOT i.dead AND NOT i.deleted
AND (%(prefix)s::text IS NULL OR readable_body(i.body) ->> 'title' ILIKE %(prefix)s)
ORDER BY i.score DESC NULLS LAST, i.time DESC, i.id DESC LIMIT %(limit)s OFFSET %(skip)s;

-- name: browse_by_time
-- Stories of some time, the newest first.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  i.last_fetched_at, i.changed_at, i.revision, i.body
FROM stored_items AS i
WHERE i.type = %(type)s AND i.time >= %(since)s AND i.time < %(until)s
AND i.source = (SELECT number FROM sources WHERE name = %(source)s) AND NOT i.dead AND NOT i.deleted
AND (%(prefix)s::text IS NULL OR readable_body(i.body) ->> 'title' ILIKE %(prefix)s)
ORDER BY i.time DESC, i.id DESC LIMIT %(limit)s OFFSET %(skip)s;

-- name: browse_newest
-- The items with the highest ids.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  i.last_fetched_at, i.changed_at, i.revision, i.body
FROM stored_items AS i
WHERE i.source = (SELECT number FROM sources WHERE name = %(source)s) AND i.id < %(before)s
ORDER BY i.id DESC LIMIT %(limit)s;

-- name: browse_comments_by
-- The comments of one author, the newest first; then those without a time. Each half is read in the order of the index.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  i.last_fetched_at, i.changed_at, i.revision, i.body
FROM (
  (
    SELECT i.* FROM stored_items AS i
    WHERE i.source = (SELECT number FROM sources WHERE name = %(source)s) AND i."by" = %(author)s
    AND i.type = 'comment' AND i.time IS NOT NULL
    ORDER BY i.time DESC, i.id DESC LIMIT %(limit)s::bigint + %(skip)s
  )
  UNION ALL
  (
    SELECT i.* FROM stored_items AS i
    WHERE i.source = (SELECT number FROM sources WHERE name = %(source)s) AND i."by" = %(author)s
    AND i.type = 'comment' AND i.time IS NULL
    ORDER BY i.id DESC LIMIT %(limit)s::bigint + %(skip)s
  )
) AS i
ORDER BY i.time DESC NULLS LAST, i.id DESC LIMIT %(limit)s OFFSET %(skip)s;

-- name: browse_stories_by
-- What else an author wrote, the newest first; then those without a time. Each half is read in the order of the index.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  i.last_fetched_at, i.changed_at, i.revision, i.body
FROM (
  (
    SELECT i.* FROM stored_items AS i
    WHERE i.source = (SELECT number FROM sources WHERE name = %(source)s) AND i."by" = %(author)s
    AND i.type IS DISTINCT FROM 'comment' AND i.time IS NOT NULL
    ORDER BY i.time DESC, i.id DESC LIMIT %(limit)s::bigint + %(skip)s
  )
  UNION ALL
  (
    SELECT i.* FROM stored_items AS i
    WHERE i.source = (SELECT number FROM sources WHERE name = %(source)s) AND i."by" = %(author)s
    AND i.type IS DISTINCT FROM 'comment' AND i.time IS NULL
    ORDER BY i.id DESC LIMIT %(limit)s::bigint + %(skip)s
  )
) AS i
ORDER BY i.time DESC NULLS LAST, i.id DESC LIMIT %(limit)s OFFSET %(skip)s;

-- name: browse_roots
-- The highest ancestor of some items. Items that name each other as parents have none.
SELECT id, root FROM threads WHERE source = %(source)s AND id = ANY(%(ids)s::bigint[]) AND root IS NOT NULL;

-- name: browse_gaps
-- Gaps of one state, by reason and age.
SELECT g.key, d.key, g.reason, g.attempts, g.first_seen_at, g.last_seen_at, g.not_before_at
FROM gaps AS g LEFT JOIN documents AS d ON g.kind = 'document' AND d.source = g.source AND d.fingerprint = g.key
WHERE g.source = %(source)s AND g.kind = %(kind)s AND g.state = %(state)s AND g.state <> 'settled'
ORDER BY g.reason, g.first_seen_at, g.not_before_at, g.key LIMIT %(limit)s;

-- name: browse_owed_documents
-- Documents whose detail is owed.
SELECT key, listed_mark FROM documents WHERE source = %(source)s AND owed
ORDER BY listed_rank DESC NULLS LAST, listed_mark DESC NULLS LAST, key LIMIT %(limit)s;

-- name: browse_waiting_ids
-- What unfinished walks have still to ask for. A cursor is the last id that is durable.
SELECT kind, greatest(first_id, cursor + 1), last_id FROM segments
WHERE source = %(source)s AND state <> 'done' AND cursor < last_id ORDER BY kind, first_id LIMIT %(limit)s;

-- name: browse_announced
-- Announced changes that are not fetched yet.
SELECT kind, key, announced_at FROM inbox WHERE source = %(source)s ORDER BY kind, key LIMIT %(limit)s;

-- name: browse_changes
-- The newest lines of the change feed, of one source.
SELECT c.xid::text || ':' || c.seq::text, c.kind, c.key, c.change, c.changed_at
FROM (SELECT * FROM changes ORDER BY xid DESC, seq DESC LIMIT 10000) AS c
WHERE c.source = %(source)s ORDER BY c.xid DESC, c.seq DESC LIMIT %(limit)s;

-- name: browse_document
-- What the ledger knows about a document.
SELECT d.first_seen_at, d.changed_at, d.vanished_at, d.revision, d.owed, EXISTS (
  SELECT 1 FROM gaps AS g
  WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state = 'gone'
)
FROM documents AS d WHERE d.source = %(source)s AND d.key = %(key)s;

-- name: browse_document_revisions
-- Earlier contents of a document, oldest first.
SELECT revision, body, changed_at, fetched_at FROM document_revisions
WHERE source = %(source)s AND key = %(key)s ORDER BY revision;
