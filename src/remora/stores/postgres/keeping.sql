-- Housekeeping in PostgreSQL.

-- name: keep_position
-- How far a named reader has come. If two processes read for it, the one that is behind takes nothing back.
INSERT INTO change_readers AS r (name, position, read_at) VALUES (%(name)s, %(position)s, %(now)s)
ON CONFLICT (name) DO UPDATE SET position = excluded.position, read_at = excluded.read_at
WHERE (%(xid)s::text::xid8, %(seq)s::bigint) >= (
  split_part(r.position, ':', 1)::xid8, coalesce(nullif(split_part(r.position, ':', 2), ''), '0')::bigint
);

-- name: forget_changes
-- The oldest changes, up to the first that is too young. Readers are asked here, too: one may have come meanwhile.
DELETE FROM changes WHERE seq IN (
  SELECT o.seq FROM (
    SELECT f.seq, bool_or(f.changed_at >= %(before)s) OVER (ORDER BY f.xid, f.seq) AS is_kept FROM (
      SELECT c.xid, c.seq, c.changed_at FROM changes AS c
      WHERE (%(xid)s::text IS NULL OR (c.xid, c.seq) <= (%(xid)s::xid8, %(seq)s::bigint))
      AND (c.xid, c.seq) <= ALL (
        SELECT split_part(position, ':', 1)::xid8, coalesce(nullif(split_part(position, ':', 2), ''), '0')::bigint
        FROM change_readers
      )
      ORDER BY c.xid, c.seq LIMIT %(limit)s
    ) AS f
  ) AS o WHERE NOT o.is_kept
);

-- name: lock_readers
-- Nobody becomes a reader, or moves on, until this transaction ends.
LOCK TABLE change_readers IN SHARE MODE;

-- name: next_revisions
-- The last of the next earlier contents of items, by their key.
SELECT r.source, r.item_id, r.revision FROM (
  SELECT source, item_id, revision FROM stored_revisions
  WHERE (source, item_id, revision) > (%(k0)s, %(k1)s, %(k2)s) ORDER BY source, item_id, revision LIMIT %(limit)s
) AS r ORDER BY r.source DESC, r.item_id DESC, r.revision DESC LIMIT 1;

-- name: forget_revisions
-- Those of them that were first seen long ago.
DELETE FROM stored_revisions
WHERE (source, item_id, revision) > (%(k0)s, %(k1)s, %(k2)s) AND (source, item_id, revision) <= (%(e0)s, %(e1)s, %(e2)s)
AND changed_at < %(before)s;

-- name: next_document_revisions
-- The same for documents.
SELECT r.source, r.key, r.revision FROM (
  SELECT source, key, revision FROM document_revisions
  WHERE (source, key, revision) > (%(k0)s, %(k1)s, %(k2)s) ORDER BY source, key, revision LIMIT %(limit)s
) AS r ORDER BY r.source DESC, r.key DESC, r.revision DESC LIMIT 1;

-- name: forget_document_revisions
-- Those of them that were first seen long ago.
DELETE FROM document_revisions
WHERE (source, key, revision) > (%(k0)s, %(k1)s, %(k2)s) AND (source, key, revision) <= (%(e0)s, %(e1)s, %(e2)s)
AND changed_at < %(before)s;

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

-- name: compact_document_revisions
-- The same for earlier contents of documents.
VACUUM document_revisions;

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
