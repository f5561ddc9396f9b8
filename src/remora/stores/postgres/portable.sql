-- How a whole mirror is read from PostgreSQL and written into it. Rows are in the order of their key, which comes first.
-- A lease belongs to a process that is not copied: what is claimed or leased is exported as pending or owed.

-- name: import_sources
-- Sources.
INSERT INTO sources (number, name) SELECT * FROM unnest(%(c0)b::bigint[], %(c1)s::text[])
ON CONFLICT (number) DO UPDATE SET name = excluded.name;

-- name: export_items
-- Items after one.
SELECT
  source, id, type, "by", time, parent, score, descendants, dead, deleted, first_seen_at, last_fetched_at, changed_at,
  revision, hash, content_hash, body
FROM stored_items WHERE (source, id) > (%(k0)s, %(k1)s) ORDER BY source, id LIMIT %(limit)s;

-- name: import_items
-- Items; idempotent.
INSERT INTO stored_items (
  source, id, type, "by", time, parent, score, descendants, dead, deleted, first_seen_at, last_fetched_at, changed_at,
  revision, hash, content_hash, body
)
SELECT * FROM unnest(
  %(c0)b::bigint[], %(c1)b::bigint[], %(c2)s::text[], %(c3)s::text[], %(c4)b::bigint[], %(c5)b::bigint[],
  %(c6)b::bigint[], %(c7)b::bigint[], %(c8)b::boolean[], %(c9)b::boolean[], %(c10)b::bigint[], %(c11)b::bigint[],
  %(c12)b::bigint[], %(c13)b::bigint[], %(c14)b::bytea[], %(c15)b::bytea[], %(c16)b::bytea[]
)
ON CONFLICT (source, id) DO UPDATE SET
  type = excluded.type, "by" = excluded."by", time = excluded.time, parent = excluded.parent, score = excluded.score,
  descendants = excluded.descendants, dead = excluded.dead, deleted = excluded.deleted,
  first_seen_at = excluded.first_seen_at, last_fetched_at = excluded.last_fetched_at,
  changed_at = excluded.changed_at, revision = excluded.revision, hash = excluded.hash,
  content_hash = excluded.content_hash, body = excluded.body;

-- name: export_revisions
-- Earlier contents after one.
SELECT source, item_id, revision, last_fetched_at, changed_at, body FROM stored_revisions
WHERE (source, item_id, revision) > (%(k0)s, %(k1)s, %(k2)s) ORDER BY source, item_id, revision LIMIT %(limit)s;

-- name: import_revisions
-- Earlier contents.
INSERT INTO stored_revisions (source, item_id, revision, last_fetched_at, changed_at, body)
SELECT * FROM unnest(
  %(c0)b::bigint[], %(c1)b::bigint[], %(c2)b::bigint[], %(c3)b::bigint[], %(c4)b::bigint[], %(c5)b::bytea[]
)
ON CONFLICT (source, item_id, revision) DO UPDATE SET
  last_fetched_at = excluded.last_fetched_at, changed_at = excluded.changed_at, body = excluded.body;

-- name: import_reads
-- When items were last read.
INSERT INTO reads (source, first_id, last_id, read_at)
SELECT * FROM unnest(%(c0)b::bigint[], %(c1)b::bigint[], %(c2)b::bigint[], %(c3)b::bigint[])
ON CONFLICT (source, first_id) DO UPDATE SET last_id = excluded.last_id, read_at = excluded.read_at;

-- name: export_users
-- Profiles after one.
SELECT source, name, first_seen_at, last_fetched_at, changed_at, hash, body FROM stored_users
WHERE (source, name) > (%(k0)s, %(k1)s) ORDER BY source, name LIMIT %(limit)s;

-- name: import_users
-- Profiles.
INSERT INTO stored_users (source, name, first_seen_at, last_fetched_at, changed_at, hash, body)
SELECT * FROM unnest(
  %(c0)b::bigint[], %(c1)s::text[], %(c2)b::bigint[], %(c3)b::bigint[], %(c4)b::bigint[], %(c5)b::bytea[],
  %(c6)b::bytea[]
)
ON CONFLICT (source, name) DO UPDATE SET
  first_seen_at = excluded.first_seen_at, last_fetched_at = excluded.last_fetched_at,
  changed_at = excluded.changed_at, hash = excluded.hash, body = excluded.body;

-- name: export_documents
-- Documents after one.
SELECT
  source, key, fingerprint, listed_mark, listed_rank, listed_at, seen_in_walk, vanished_at, owed, first_seen_at,
  updated_at, fetched_at, changed_at, revision, hash, body
FROM documents WHERE (source, key) > (%(k0)s, %(k1)s) ORDER BY source, key LIMIT %(limit)s;

-- name: import_documents
-- Documents.
INSERT INTO documents (
  source, key, fingerprint, listed_mark, listed_rank, listed_at, seen_in_walk, vanished_at, owed, first_seen_at,
  updated_at, fetched_at, changed_at, revision, hash, body
)
SELECT * FROM unnest(
  %(c0)s::text[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)s::double precision[], %(c5)b::bigint[],
  %(c6)b::bigint[], %(c7)b::bigint[], %(c8)b::boolean[], %(c9)b::bigint[], %(c10)s::text[], %(c11)b::bigint[],
  %(c12)b::bigint[], %(c13)b::bigint[], %(c14)b::bytea[], %(c15)b::bytea[]
)
ON CONFLICT (source, key) DO UPDATE SET
  fingerprint = excluded.fingerprint, listed_mark = excluded.listed_mark, listed_rank = excluded.listed_rank,
  listed_at = excluded.listed_at, seen_in_walk = excluded.seen_in_walk, vanished_at = excluded.vanished_at,
  owed = excluded.owed, first_seen_at = excluded.first_seen_at, updated_at = excluded.updated_at,
  fetched_at = excluded.fetched_at, changed_at = excluded.changed_at, revision = excluded.revision,
  hash = excluded.hash, body = excluded.body;

-- name: export_document_revisions
-- Earlier contents of documents after one.
SELECT source, key, revision, updated_at, fetched_at, changed_at, body FROM document_revisions
WHERE (source, key, revision) > (%(k0)s, %(k1)s, %(k2)s) ORDER BY source, key, revision LIMIT %(limit)s;

-- name: import_document_revisions
-- Earlier contents of documents.
INSERT INTO document_revisions (source, key, revision, updated_at, fetched_at, changed_at, body)
SELECT * FROM unnest(
  %(c0)s::text[], %(c1)s::text[], %(c2)b::bigint[], %(c3)s::text[], %(c4)b::bigint[], %(c5)b::bigint[], %(c6)b::bytea[]
)
ON CONFLICT (source, key, revision) DO UPDATE SET
  updated_at = excluded.updated_at, fetched_at = excluded.fetched_at, changed_at = excluded.changed_at,
  body = excluded.body;

-- name: import_changes
-- The change feed, with its numbers: its readers continue where they were.
INSERT INTO changes (seq, source, kind, key, change, changed_at)
SELECT * FROM unnest(
  %(c0)b::bigint[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)s::text[], %(c5)b::bigint[]
)
ON CONFLICT (seq) DO NOTHING;

-- name: import_segments
-- Segments.
INSERT INTO segments (segment_id, source, kind, state, first_id, last_id, cursor, fence, created_at, moved_at)
SELECT * FROM unnest(
  %(c0)b::bigint[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)b::bigint[], %(c5)b::bigint[],
  %(c6)b::bigint[], %(c7)b::bigint[], %(c8)b::bigint[], %(c9)b::bigint[]
)
ON CONFLICT (segment_id) DO UPDATE SET
  source = excluded.source, kind = excluded.kind, state = excluded.state, first_id = excluded.first_id,
  last_id = excluded.last_id, cursor = excluded.cursor, fence = excluded.fence, created_at = excluded.created_at,
  moved_at = excluded.moved_at, owner = NULL, lease_until = 0;

-- name: export_coverage
-- Covered ranges, which may overlap; they are merged before they are exported.
SELECT source, first_id, last_id FROM coverage ORDER BY source, first_id;

-- name: import_coverage
-- Covered ranges.
INSERT INTO coverage (source, first_id, last_id)
SELECT * FROM unnest(%(c0)s::text[], %(c1)b::bigint[], %(c2)b::bigint[])
ON CONFLICT (source, first_id) DO UPDATE SET last_id = excluded.last_id;

-- name: import_gaps
-- Gaps.
INSERT INTO gaps (
  source, kind, key, state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at, served_turn
)
SELECT * FROM unnest(
  %(c0)s::text[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)s::text[], %(c5)b::bigint[], %(c6)b::bigint[],
  %(c7)b::boolean[], %(c8)b::bigint[], %(c9)b::bigint[], %(c10)b::bigint[], %(c11)b::bigint[]
)
ON CONFLICT (source, kind, key) DO UPDATE SET
  state = excluded.state, reason = excluded.reason, attempts = excluded.attempts, null_count = excluded.null_count,
  near_newest = excluded.near_newest, not_before_at = excluded.not_before_at, first_seen_at = excluded.first_seen_at,
  last_seen_at = excluded.last_seen_at, served_turn = excluded.served_turn, owner = NULL, lease_until = 0;

-- name: import_inbox
-- The inbox.
INSERT INTO inbox (ticket, source, kind, key, announced_at)
SELECT * FROM unnest(%(c0)b::bigint[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)b::bigint[])
ON CONFLICT (source, kind, key) DO UPDATE SET ticket = excluded.ticket, announced_at = excluded.announced_at;

-- name: import_pace
-- The learned paces.
INSERT INTO pace AS kept (source, record) SELECT * FROM unnest(%(c0)s::text[], %(c1)s::text[])
ON CONFLICT (source) DO UPDATE SET record = excluded.record, version = kept.version + 1;

-- name: import_notes
-- Small facts.
INSERT INTO notes (source, name, value) SELECT * FROM unnest(%(c0)s::text[], %(c1)s::text[], %(c2)s::text[])
ON CONFLICT (source, name) DO UPDATE SET value = excluded.value;

-- name: import_cursors
-- How far lists are walked.
INSERT INTO cursors (source, watermark, walking_from, seen_down_to, position, walk, full_walk, moved_at)
SELECT * FROM unnest(
  %(c0)s::text[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)s::text[], %(c5)b::bigint[], %(c6)b::bigint[],
  %(c7)b::bigint[]
)
ON CONFLICT (source) DO UPDATE SET
  watermark = excluded.watermark, walking_from = excluded.walking_from, seen_down_to = excluded.seen_down_to,
  position = excluded.position, walk = excluded.walk, full_walk = excluded.full_walk, moved_at = excluded.moved_at;

-- name: import_runs
-- Runs.
INSERT INTO runs (run_id, source, started_at, ended_at, stopped_by, counts)
SELECT * FROM unnest(
  %(c0)b::bigint[], %(c1)s::text[], %(c2)b::bigint[], %(c3)b::bigint[], %(c4)s::text[], %(c5)s::text[]
)
ON CONFLICT (run_id) DO UPDATE SET
  started_at = excluded.started_at, ended_at = excluded.ended_at, stopped_by = excluded.stopped_by,
  counts = excluded.counts;

-- name: import_imports
-- Files that items were taken from.
INSERT INTO imports (
  import_id, source, file, fingerprint, rows_read, items, first_id, last_id, started_at, moved_at, ended_at
)
SELECT * FROM unnest(
  %(c0)b::bigint[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)b::bigint[], %(c5)b::bigint[],
  %(c6)b::bigint[], %(c7)b::bigint[], %(c8)b::bigint[], %(c9)b::bigint[], %(c10)b::bigint[]
)
ON CONFLICT (import_id) DO UPDATE SET
  rows_read = excluded.rows_read, items = excluded.items, first_id = excluded.first_id, last_id = excluded.last_id,
  moved_at = excluded.moved_at, ended_at = excluded.ended_at;

-- name: export_change_readers
-- Named readers after one, and the last number before what each has not read. A position that the feed never had is none.
SELECT
  r.name,
  coalesce(
    (SELECT min(c.seq) - 1 FROM changes AS c WHERE (c.xid, c.seq) > (r.xid, r.seq)),
    (SELECT max(c.seq) FROM changes AS c WHERE EXISTS (SELECT FROM changes AS l WHERE l.xid = r.xid AND l.seq = r.seq)),
    0
  ),
  r.read_at
FROM (
  SELECT
    name, split_part(position, ':', 1)::xid8 AS xid, coalesce(nullif(split_part(position, ':', 2), ''), '0')::bigint AS seq, read_at
  FROM change_readers
) AS r WHERE r.name > %(k0)s ORDER BY r.name LIMIT %(limit)s;

-- name: import_change_readers
-- Named readers. The changes are imported in the order of their numbers, so their transactions have the same order.
INSERT INTO change_readers (name, position, read_at)
SELECT
  n.name,
  coalesce(
    (SELECT c.xid::text || ':' || c.seq::text FROM changes AS c WHERE c.seq <= n.seq ORDER BY c.seq DESC LIMIT 1), '0'
  ),
  n.read_at
FROM unnest(%(c0)s::text[], %(c1)b::bigint[], %(c2)b::bigint[]) AS n (name, seq, read_at)
ON CONFLICT (name) DO UPDATE SET position = excluded.position, read_at = excluded.read_at;

-- name: advance_numbers
-- New sources, segments, runs, imports, tickets and changes get numbers after the imported ones.
SELECT
  setval(pg_get_serial_sequence('imports', 'import_id'), (SELECT coalesce(max(import_id), 0) + 1 FROM imports), false),
  setval(pg_get_serial_sequence('sources', 'number'), (SELECT coalesce(max(number), 0) + 1 FROM sources), false),
  setval(pg_get_serial_sequence('segments', 'segment_id'), (SELECT coalesce(max(segment_id), 0) + 1 FROM segments), false),
  setval(pg_get_serial_sequence('runs', 'run_id'), (SELECT coalesce(max(run_id), 0) + 1 FROM runs), false),
  setval(pg_get_serial_sequence('inbox', 'ticket'), (SELECT coalesce(max(ticket), 0) + 1 FROM inbox), false),
  setval(pg_get_serial_sequence('changes', 'seq'), (SELECT coalesce(max(seq), 0) + 1 FROM changes), false);
