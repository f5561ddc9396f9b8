-- How a whole mirror is read from SQLite and written into it. Rows are in the order of their key, which comes first.
-- A lease belongs to a process that is not copied: what is claimed or leased is exported as pending or owed.

-- name: import_sources
-- Sources.
INSERT OR REPLACE INTO sources (number, name) VALUES (?, ?);

-- name: export_items
-- Items after one.
SELECT
  source, id, type, "by", time, parent, score, descendants, dead, deleted, first_seen_at, last_fetched_at, changed_at,
  revision, hash, content_hash, CAST(body AS BLOB)
FROM whole_items WHERE (source, id) > (:k0, :k1) ORDER BY source, id LIMIT :limit;

-- name: import_items
-- Items; idempotent. The marks are those of `stores/sqlite/item_rows.py`.
INSERT OR REPLACE INTO stored_items (
  source, id, type_mark, "by", time, parent, score, descendants, dead, deleted, first_seen_at, fetched_mark, changed_mark,
  revision, hash, content_hash, body, body_form
)
VALUES (
  ?1, ?2, CASE ?3 WHEN 'comment' THEN '' WHEN '' THEN char(0) ELSE ?3 END, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
  ?11, CASE WHEN ?12 <> 0 AND ?12 <= ?11 THEN ?12 - ?11 - 1 ELSE ?12 END, CASE ?13 WHEN ?11 THEN 0 ELSE ?13 END,
  ?14, ?15, ?16, CAST(?17 AS TEXT), ?18
);

-- name: export_revisions
-- Earlier contents after one.
SELECT source, item_id, revision, last_fetched_at, changed_at, CAST(body AS BLOB) FROM stored_revisions
WHERE (source, item_id, revision) > (:k0, :k1, :k2) ORDER BY source, item_id, revision LIMIT :limit;

-- name: import_revisions
-- Earlier contents.
INSERT OR REPLACE INTO stored_revisions (source, item_id, revision, last_fetched_at, changed_at, body)
VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT));

-- name: import_reads
-- When items were last read.
INSERT OR REPLACE INTO reads (source, first_id, last_id, read_at) VALUES (?, ?, ?, ?);

-- name: export_users
-- Profiles after one.
SELECT source, name, first_seen_at, last_fetched_at, changed_at, hash, CAST(body AS BLOB) FROM stored_users
WHERE (source, name) > (:k0, :k1) ORDER BY source, name LIMIT :limit;

-- name: import_users
-- Profiles.
INSERT OR REPLACE INTO stored_users (source, name, first_seen_at, last_fetched_at, changed_at, hash, body)
VALUES (?, ?, ?, ?, ?, ?, CAST(? AS TEXT));

-- name: export_documents
-- Documents after one.
SELECT
  source, key, fingerprint, listed_mark, listed_rank, listed_at, seen_in_walk, vanished_at, owed, first_seen_at,
  updated_at, fetched_at, changed_at, revision, hash, CAST(body AS BLOB)
FROM documents WHERE (source, key) > (:k0, :k1) ORDER BY source, key LIMIT :limit;

-- name: import_documents
-- Documents.
INSERT OR REPLACE INTO documents (
  source, key, fingerprint, listed_mark, listed_rank, listed_at, seen_in_walk, vanished_at, owed, first_seen_at,
  updated_at, fetched_at, changed_at, revision, hash, body
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT));

-- name: export_document_revisions
-- Earlier contents of documents after one.
SELECT source, key, revision, updated_at, fetched_at, changed_at, CAST(body AS BLOB) FROM document_revisions
WHERE (source, key, revision) > (:k0, :k1, :k2) ORDER BY source, key, revision LIMIT :limit;

-- name: import_document_revisions
-- Earlier contents of documents.
INSERT OR REPLACE INTO document_revisions (source, key, revision, updated_at, fetched_at, changed_at, body)
VALUES (?, ?, ?, ?, ?, ?, CAST(? AS TEXT));

-- name: import_changes
-- The change feed, with its numbers: its readers continue where they were.
INSERT OR REPLACE INTO changes (seq, source, kind, key, change, changed_at)
VALUES (?, ?, ?, ?, ?, ?);

-- name: import_segments
-- Segments.
INSERT OR REPLACE INTO segments (
  segment_id, source, kind, state, first_id, last_id, cursor, fence, created_at, moved_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: export_coverage
-- Covered ranges after one.
SELECT source, first_id, last_id FROM coverage
WHERE (source, first_id) > (:k0, :k1) ORDER BY source, first_id LIMIT :limit;

-- name: import_coverage
-- Covered ranges.
INSERT OR REPLACE INTO coverage (source, first_id, last_id)
VALUES (?, ?, ?);

-- name: import_gaps
-- Gaps.
INSERT OR REPLACE INTO gaps (
  source, kind, key, state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at,
  served_turn
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: import_inbox
-- The inbox.
INSERT OR REPLACE INTO inbox (ticket, source, kind, key, announced_at)
VALUES (?, ?, ?, ?, ?);

-- name: import_pace
-- The learned paces.
INSERT OR REPLACE INTO pace (source, record)
VALUES (?, ?);

-- name: import_notes
-- Small facts.
INSERT OR REPLACE INTO notes (source, name, value)
VALUES (?, ?, ?);

-- name: import_cursors
-- How far lists are walked.
INSERT OR REPLACE INTO cursors (source, watermark, walking_from, seen_down_to, position, walk, full_walk, moved_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: import_runs
-- Runs.
INSERT OR REPLACE INTO runs (run_id, source, started_at, ended_at, stopped_by, counts)
VALUES (?, ?, ?, ?, ?, ?);

-- name: import_imports
-- Files that items were taken from.
INSERT OR REPLACE INTO imports (
  import_id, source, file, fingerprint, rows_read, items, first_id, last_id, started_at, moved_at, ended_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: export_change_readers
-- Named readers after one, and the last number before what each has not read. A position that the feed never had is none.
SELECT
  r.name,
  coalesce(
    (SELECT min(c.seq) - 1 FROM stored_changes AS c WHERE c.seq > CAST(r.position AS INTEGER)),
    (SELECT c.seq FROM stored_changes AS c WHERE c.seq = CAST(r.position AS INTEGER)), 0
  ),
  r.read_at
FROM change_readers AS r WHERE r.name > :k0 ORDER BY r.name LIMIT :limit;

-- name: import_change_readers
-- Named readers.
INSERT OR REPLACE INTO change_readers (name, position, read_at)
VALUES (?, CAST(? AS TEXT), ?);
