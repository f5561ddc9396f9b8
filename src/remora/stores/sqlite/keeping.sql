-- Housekeeping in the SQLite file.

-- name: keep_position
-- How far a named reader has come. If two processes read for it, the one that is behind takes nothing back.
INSERT INTO change_readers (name, position, read_at) VALUES (:name, :position, :now)
ON CONFLICT (name) DO UPDATE SET position = excluded.position, read_at = excluded.read_at
WHERE CAST(excluded.position AS INTEGER) >= CAST(change_readers.position AS INTEGER);

-- name: forget_changes
-- The oldest changes, up to the first that is too young. Readers are asked here, too: one may have come meanwhile.
DELETE FROM stored_changes WHERE seq < (
  SELECT coalesce(min(CASE WHEN changed_at >= :before THEN seq END), max(seq) + 1) FROM (
    SELECT seq, changed_at FROM stored_changes
    WHERE seq <= coalesce(:seq, 9223372036854775807)
    AND seq <= coalesce((SELECT min(CAST(position AS INTEGER)) FROM change_readers), 9223372036854775807)
    ORDER BY seq LIMIT :limit
  )
);

-- name: next_revisions
-- The last of the next earlier contents of items, as they are in the file.
SELECT r.rowid FROM (
  SELECT rowid FROM stored_revisions WHERE rowid > :k0 ORDER BY rowid LIMIT :limit
) AS r ORDER BY r.rowid DESC LIMIT 1;

-- name: forget_revisions
-- Those of them that were first seen long ago.
DELETE FROM stored_revisions WHERE rowid > :k0 AND rowid <= :e0 AND changed_at < :before;

-- name: next_document_revisions
-- The same for documents.
SELECT r.rowid FROM (
  SELECT rowid FROM document_revisions WHERE rowid > :k0 ORDER BY rowid LIMIT :limit
) AS r ORDER BY r.rowid DESC LIMIT 1;

-- name: forget_document_revisions
-- Those of them that were first seen long ago.
DELETE FROM document_revisions WHERE rowid > :k0 AND rowid <= :e0 AND changed_at < :before;

-- name: table_sizes
-- The bytes of each table with its indexes.
SELECT coalesce(s.tbl_name, d.name), sum(d.pgsize), NULL
FROM dbstat AS d LEFT JOIN sqlite_schema AS s ON s.name = d.name
WHERE d.aggregate = TRUE GROUP BY 1 ORDER BY 2 DESC;

-- name: count_items
-- How many items there are.
SELECT count(*) FROM stored_items;

-- name: count_revisions
-- How many earlier contents of items there are.
SELECT count(*) FROM stored_revisions;

-- name: count_changes
-- How many changes are kept: their numbers have no holes but at the beginning.
SELECT coalesce(max(seq) - min(seq) + 1, 0) FROM stored_changes;

-- name: page_count
-- How many pages the file has.
PRAGMA page_count;

-- name: list_trees
-- Every table and index with its root page.
SELECT 'sqlite_schema', 'sqlite_schema', 1
UNION ALL
SELECT name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0;

-- name: changes_within
-- How many changes of each sort are in some blocks of numbers.
SELECT c.kind, c.change, count(*) FROM json_each(:starts) AS b
CROSS JOIN changes AS c ON c.seq >= b.value AND c.seq < b.value + :size
WHERE c.changed_at >= :since GROUP BY c.kind, c.change ORDER BY c.kind, c.change;
