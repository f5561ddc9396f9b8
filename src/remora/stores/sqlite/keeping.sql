-- Housekeeping in the SQLite file.

-- name: forget_changes
-- The oldest changes, if they are old enough and every reader has passed them.
DELETE FROM changes WHERE seq IN (
  SELECT seq FROM changes WHERE seq <= coalesce(:seq, 9223372036854775807) ORDER BY seq LIMIT :limit
) AND changed_at < :before;

-- name: forget_revisions
-- Earlier contents of items that were replaced long ago.
DELETE FROM stored_revisions WHERE rowid IN (
  SELECT r.rowid FROM stored_revisions AS r WHERE r.changed_at < :before LIMIT :limit
);

-- name: forget_document_revisions
-- Earlier contents of documents that were replaced long ago.
DELETE FROM document_revisions WHERE rowid IN (
  SELECT r.rowid FROM document_revisions AS r WHERE r.changed_at < :before LIMIT :limit
);

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
SELECT coalesce(max(seq) - min(seq) + 1, 0) FROM changes;
