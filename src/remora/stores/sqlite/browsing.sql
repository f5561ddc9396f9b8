-- Lists for people who browse the SQLite file. A plus before a column keeps SQLite from using an index on it.
-- The moment of the last fetch is that of the row: lists do not show it.

-- name: browse_by_score
-- Stories of some time, the highest score first.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  i.last_fetched_at, i.changed_at, i.revision, CAST(i.body AS BLOB)
FROM whole_items AS i
WHERE i.type = :type AND i.time >= :since AND i.time < :until
AND +i.source = (SELECT number FROM sources WHERE name = :source) AND i.dead = 0 AND i.deleted = 0
AND (:prefix IS NULL OR CASE WHEN json_valid(i.body) THEN json_extract(i.body, '$.title') END LIKE :prefix)
ORDER BY i.score DESC, i.time DESC, i.id DESC LIMIT :limit OFFSET :skip;

-- name: browse_by_time
-- Stories of some time, the newest first.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  i.last_fetched_at, i.changed_at, i.revision, CAST(i.body AS BLOB)
FROM whole_items AS i
WHERE i.type = :type AND i.time >= :since AND i.time < :until
AND +i.source = (SELECT number FROM sources WHERE name = :source) AND i.dead = 0 AND i.deleted = 0
AND (:prefix IS NULL OR CASE WHEN json_valid(i.body) THEN json_extract(i.body, '$.title') END LIKE :prefix)
ORDER BY i.time DESC, i.id DESC LIMIT :limit OFFSET :skip;

-- name: browse_newest
-- The items with the highest ids.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  i.last_fetched_at, i.changed_at, i.revision, CAST(i.body AS BLOB)
FROM whole_items AS i
WHERE i.source = (SELECT number FROM sources WHERE name = :source) AND i.id < :before
ORDER BY i.id DESC LIMIT :limit;

-- name: browse_comments_by
-- The comments of one author, the newest first.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  i.last_fetched_at, i.changed_at, i.revision, CAST(i.body AS BLOB)
FROM whole_items AS i
WHERE +i.source = (SELECT number FROM sources WHERE name = :source) AND i."by" = :author
AND +i.type = 'comment'
ORDER BY i.time DESC, i.id DESC LIMIT :limit OFFSET :skip;

-- name: browse_stories_by
-- What else an author wrote, the newest first.
SELECT
  i.id, i.type, i."by", i.time, i.parent, i.score, i.descendants, i.dead, i.deleted, i.first_seen_at,
  i.last_fetched_at, i.changed_at, i.revision, CAST(i.body AS BLOB)
FROM whole_items AS i
WHERE +i.source = (SELECT number FROM sources WHERE name = :source) AND i."by" = :author
AND +i.type IS NOT 'comment'
ORDER BY i.time DESC, i.id DESC LIMIT :limit OFFSET :skip;

-- name: browse_roots
-- The highest ancestor of some items. Items that name each other as parents have none.
SELECT id, root FROM threads WHERE source = :source AND id IN (SELECT value FROM json_each(:ids)) AND root IS NOT NULL;

-- name: browse_gaps
-- Gaps of one state, by reason and age. The index is named because absent ids may be millions.
SELECT g.key, d.key, g.reason, g.attempts, g.first_seen_at, g.last_seen_at, g.not_before_at
FROM gaps AS g INDEXED BY gaps_open LEFT JOIN documents AS d ON g.kind = 'document' AND d.source = g.source AND d.fingerprint = g.key
WHERE g.source = :source AND g.kind = :kind AND g.state = :state AND g.state <> 'settled'
ORDER BY g.reason, g.first_seen_at, g.not_before_at, g.key LIMIT :limit;

-- name: browse_owed_documents
-- Documents whose detail is owed.
SELECT key, listed_mark FROM documents WHERE source = :source AND owed = 1
ORDER BY listed_rank DESC, listed_mark DESC, key LIMIT :limit;

-- name: browse_waiting_ids
-- What unfinished walks have still to ask for. A cursor is the last id that is durable.
SELECT kind, max(first_id, cursor + 1), last_id FROM segments
WHERE source = :source AND state <> 'done' AND cursor < last_id ORDER BY kind, first_id LIMIT :limit;

-- name: browse_announced
-- Announced changes that are not fetched yet.
SELECT kind, key, announced_at FROM inbox WHERE source = :source ORDER BY kind, key LIMIT :limit;

-- name: browse_changes
-- The newest lines of the change feed, of one source.
SELECT CAST(c.seq AS TEXT), c.kind, c.key, c.change, c.changed_at
FROM (SELECT * FROM changes ORDER BY seq DESC LIMIT 10000) AS c
WHERE c.source = :source ORDER BY c.seq DESC LIMIT :limit;

-- name: browse_document
-- What the ledger knows about a document.
SELECT d.first_seen_at, d.changed_at, d.vanished_at, d.revision, d.owed, EXISTS (
  SELECT 1 FROM gaps AS g
  WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state = 'gone'
)
FROM documents AS d WHERE d.source = :source AND d.key = :key;

-- name: browse_document_revisions
-- Earlier contents of a document, oldest first.
SELECT revision, CAST(body AS BLOB), changed_at, fetched_at FROM document_revisions
WHERE source = :source AND key = :key ORDER BY revision;
