-- Housekeeping in PostgreSQL.

-- name: forget_changes
-- The oldest changes, if they are old enough and every reader has passed them.
DELETE FROM changes WHERE seq IN (
  SELECT seq FROM changes
  WHERE (%(xid)s::text IS NULL OR (xid, seq) <= (%(xid)s::xid8, %(seq)s::bigint)) ORDER BY xid, seq LIMIT %(limit)s
) AND changed_at < %(before)s;

-- name: forget_revisions
-- Earlier contents of items that were replaced long ago.
DELETE FROM stored_revisions WHERE ctid = ANY (ARRAY(
  SELECT r.ctid FROM stored_revisions AS r WHERE r.changed_at < %(before)s LIMIT %(limit)s
));

-- name: forget_document_revisions
-- Earlier contents of documents that were replaced long ago.
DELETE FROM document_revisions WHERE ctid = ANY (ARRAY(
  SELECT r.ctid FROM document_revisions AS r WHERE r.changed_at < %(before)s LIMIT %(limit)s
));

-- name: table_sizes
-- The bytes of each table with its indexes, and the planner's estimate of its rows, if it has one yet.
SELECT
  c.relname::text, pg_total_relation_size(c.oid), CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint END
FROM pg_class AS c
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace ORDER BY 2 DESC;

-- name: compact_changes
-- Space of deleted rows can be used again. The lock lets readers and writers go on.
VACUUM changes;

-- name: compact_revisions
-- The same for earlier contents.
VACUUM stored_revisions;

-- name: count_rows
-- How many items, earlier contents of items and changes there are.
SELECT
  (SELECT count(*) FROM stored_items) AS stored_items, (SELECT count(*) FROM stored_revisions) AS stored_revisions,
  (SELECT count(*) FROM changes) AS changes;

-- name: changes_within
-- How many changes of each sort are in some blocks of numbers.
SELECT c.kind, c.change, count(*) FROM unnest(%(starts)s::bigint[]) AS b (first_seq)
JOIN changes AS c ON c.seq >= b.first_seq AND c.seq < b.first_seq + %(size)s
WHERE c.changed_at >= %(since)s GROUP BY c.kind, c.change ORDER BY c.kind, c.change;
