-- How a whole mirror is read from PostgreSQL and written into it. Rows are in the order of their key, which comes first.
-- A lease belongs to a process that will not come along: what is claimed or leased is exported as pending or owed.

-- name: export_items
-- Items beyond one.
SELECT
  id, type, "by", time, parent, score, descendants, dead, deleted, first_seen_at, last_fetched_at, changed_at, revision,
  hash, content_hash, body
FROM items WHERE id > %(k0)s ORDER BY id LIMIT %(limit)s;

-- name: import_items
-- Items, whether some of them came before or not.
INSERT INTO items (
  id, type, "by", time, parent, score, descendants, dead, deleted, first_seen_at, last_fetched_at, changed_at, revision,
  hash, content_hash, body
)
SELECT * FROM unnest(
  %(c0)b::bigint[], %(c1)s::text[], %(c2)s::text[], %(c3)b::bigint[], %(c4)b::bigint[], %(c5)b::bigint[],
  %(c6)b::bigint[], %(c7)b::boolean[], %(c8)b::boolean[], %(c9)b::bigint[], %(c10)b::bigint[], %(c11)b::bigint[],
  %(c12)b::bigint[], %(c13)b::bytea[], %(c14)b::bytea[], %(c15)b::bytea[]
)
ON CONFLICT (id) DO UPDATE SET
  type = excluded.type, "by" = excluded."by", time = excluded.time, parent = excluded.parent, score = excluded.score,
  descendants = excluded.descendants, dead = excluded.dead, deleted = excluded.deleted,
  first_seen_at = excluded.first_seen_at, last_fetched_at = excluded.last_fetched_at,
  changed_at = excluded.changed_at, revision = excluded.revision, hash = excluded.hash,
  content_hash = excluded.content_hash, body = excluded.body;

-- name: export_revisions
-- Earlier contents beyond one.
SELECT item_id, revision, last_fetched_at, changed_at, body FROM revisions
WHERE (item_id, revision) > (%(k0)s, %(k1)s) ORDER BY item_id, revision LIMIT %(limit)s;

-- name: import_revisions
-- Earlier contents.
INSERT INTO revisions (item_id, revision, last_fetched_at, changed_at, body)
SELECT * FROM unnest(%(c0)b::bigint[], %(c1)b::bigint[], %(c2)b::bigint[], %(c3)b::bigint[], %(c4)b::bytea[])
ON CONFLICT (item_id, revision) DO UPDATE SET
  last_fetched_at = excluded.last_fetched_at, changed_at = excluded.changed_at, body = excluded.body;

-- name: export_users
-- Profiles beyond one.
SELECT name, first_seen_at, last_fetched_at, changed_at, hash, body FROM users
WHERE name > %(k0)s ORDER BY name LIMIT %(limit)s;

-- name: import_users
-- Profiles.
INSERT INTO users (name, first_seen_at, last_fetched_at, changed_at, hash, body)
SELECT * FROM unnest(
  %(c0)s::text[], %(c1)b::bigint[], %(c2)b::bigint[], %(c3)b::bigint[], %(c4)b::bytea[], %(c5)b::bytea[]
)
ON CONFLICT (name) DO UPDATE SET
  first_seen_at = excluded.first_seen_at, last_fetched_at = excluded.last_fetched_at,
  changed_at = excluded.changed_at, hash = excluded.hash, body = excluded.body;

-- name: export_documents
-- Documents beyond one.
SELECT
  source, key, fingerprint, listed_mark, listed_rank, listed_at, owed, updated_at, fetched_at, hash, body
FROM documents WHERE (source, key) > (%(k0)s, %(k1)s) ORDER BY source, key LIMIT %(limit)s;

-- name: import_documents
-- Documents.
INSERT INTO documents (
  source, key, fingerprint, listed_mark, listed_rank, listed_at, owed, updated_at, fetched_at, hash, body
)
SELECT * FROM unnest(
  %(c0)s::text[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)s::double precision[], %(c5)b::bigint[],
  %(c6)b::boolean[], %(c7)s::text[], %(c8)b::bigint[], %(c9)b::bytea[], %(c10)b::bytea[]
)
ON CONFLICT (source, key) DO UPDATE SET
  fingerprint = excluded.fingerprint, listed_mark = excluded.listed_mark, listed_rank = excluded.listed_rank,
  listed_at = excluded.listed_at, owed = excluded.owed, updated_at = excluded.updated_at,
  fetched_at = excluded.fetched_at, hash = excluded.hash, body = excluded.body;

-- name: export_changes
-- The change feed beyond one line.
SELECT seq, source, kind, key, change, changed_at FROM changes WHERE seq > %(k0)s ORDER BY seq LIMIT %(limit)s;

-- name: import_changes
-- The change feed, with its numbers: whoever follows it goes on where they were.
INSERT INTO changes (seq, source, kind, key, change, changed_at)
SELECT * FROM unnest(
  %(c0)b::bigint[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)s::text[], %(c5)b::bigint[]
)
ON CONFLICT (seq) DO NOTHING;

-- name: export_segments
-- Segments beyond one.
SELECT
  segment_id, source, kind, CASE WHEN state = 'claimed' THEN 'pending' ELSE state END, first_id, last_id, cursor, fence,
  created_at, moved_at
FROM segments WHERE segment_id > %(k0)s ORDER BY segment_id LIMIT %(limit)s;

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
-- Covered ranges, which may overlap; they are put together before they leave.
SELECT source, first_id, last_id FROM coverage ORDER BY source, first_id;

-- name: import_coverage
-- Covered ranges.
INSERT INTO coverage (source, first_id, last_id)
SELECT * FROM unnest(%(c0)s::text[], %(c1)b::bigint[], %(c2)b::bigint[])
ON CONFLICT (source, first_id) DO UPDATE SET last_id = excluded.last_id;

-- name: export_gaps
-- Gaps beyond one.
SELECT
  source, kind, key, CASE WHEN state = 'leased' THEN 'owed' ELSE state END, reason, attempts, looks, was_young,
  not_before_at, first_seen_at, last_seen_at, served_turn
FROM gaps WHERE (source, kind, key) > (%(k0)s, %(k1)s, %(k2)s) ORDER BY source, kind, key LIMIT %(limit)s;

-- name: import_gaps
-- Gaps.
INSERT INTO gaps (
  source, kind, key, state, reason, attempts, looks, was_young, not_before_at, first_seen_at, last_seen_at, served_turn
)
SELECT * FROM unnest(
  %(c0)s::text[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)s::text[], %(c5)b::bigint[], %(c6)b::bigint[],
  %(c7)b::boolean[], %(c8)b::bigint[], %(c9)b::bigint[], %(c10)b::bigint[], %(c11)b::bigint[]
)
ON CONFLICT (source, kind, key) DO UPDATE SET
  state = excluded.state, reason = excluded.reason, attempts = excluded.attempts, looks = excluded.looks,
  was_young = excluded.was_young, not_before_at = excluded.not_before_at, first_seen_at = excluded.first_seen_at,
  last_seen_at = excluded.last_seen_at, served_turn = excluded.served_turn, owner = NULL, lease_until = 0;

-- name: export_inbox
-- What waits beyond one ticket.
SELECT ticket, source, kind, key, announced_at FROM inbox WHERE ticket > %(k0)s ORDER BY ticket LIMIT %(limit)s;

-- name: import_inbox
-- What waits.
INSERT INTO inbox (ticket, source, kind, key, announced_at)
SELECT * FROM unnest(%(c0)b::bigint[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)b::bigint[])
ON CONFLICT (source, kind, key) DO UPDATE SET ticket = excluded.ticket, announced_at = excluded.announced_at;

-- name: export_pace
-- What was learned beyond one source.
SELECT source, record FROM pace WHERE source > %(k0)s AND record IS NOT NULL ORDER BY source LIMIT %(limit)s;

-- name: import_pace
-- What was learned.
INSERT INTO pace AS kept (source, record) SELECT * FROM unnest(%(c0)s::text[], %(c1)s::text[])
ON CONFLICT (source) DO UPDATE SET record = excluded.record, version = kept.version + 1;

-- name: export_notes
-- Small facts beyond one, without the copy's own.
SELECT source, name, value FROM notes
WHERE (source, name) > (%(k0)s, %(k1)s) AND source <> '' ORDER BY source, name LIMIT %(limit)s;

-- name: import_notes
-- Small facts.
INSERT INTO notes (source, name, value) SELECT * FROM unnest(%(c0)s::text[], %(c1)s::text[], %(c2)s::text[])
ON CONFLICT (source, name) DO UPDATE SET value = excluded.value;

-- name: export_cursors
-- How far lists are walked, beyond one source.
SELECT source, watermark, walking_from, seen_down_to, position, moved_at FROM cursors
WHERE source > %(k0)s ORDER BY source LIMIT %(limit)s;

-- name: import_cursors
-- How far lists are walked.
INSERT INTO cursors (source, watermark, walking_from, seen_down_to, position, moved_at)
SELECT * FROM unnest(
  %(c0)s::text[], %(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)s::text[], %(c5)b::bigint[]
)
ON CONFLICT (source) DO UPDATE SET
  watermark = excluded.watermark, walking_from = excluded.walking_from, seen_down_to = excluded.seen_down_to,
  position = excluded.position, moved_at = excluded.moved_at;

-- name: export_runs
-- Runs beyond one.
SELECT run_id, source, started_at, ended_at, stopped_by, counts FROM runs
WHERE run_id > %(k0)s ORDER BY run_id LIMIT %(limit)s;

-- name: import_runs
-- Runs.
INSERT INTO runs (run_id, source, started_at, ended_at, stopped_by, counts)
SELECT * FROM unnest(
  %(c0)b::bigint[], %(c1)s::text[], %(c2)b::bigint[], %(c3)b::bigint[], %(c4)s::text[], %(c5)s::text[]
)
ON CONFLICT (run_id) DO UPDATE SET
  started_at = excluded.started_at, ended_at = excluded.ended_at, stopped_by = excluded.stopped_by,
  counts = excluded.counts;

-- name: advance_numbers
-- New segments, runs, tickets and changes get numbers beyond the imported ones.
SELECT
  setval(pg_get_serial_sequence('segments', 'segment_id'), (SELECT coalesce(max(segment_id), 0) + 1 FROM segments), false),
  setval(pg_get_serial_sequence('runs', 'run_id'), (SELECT coalesce(max(run_id), 0) + 1 FROM runs), false),
  setval(pg_get_serial_sequence('inbox', 'ticket'), (SELECT coalesce(max(ticket), 0) + 1 FROM inbox), false),
  setval(pg_get_serial_sequence('changes', 'seq'), (SELECT coalesce(max(seq), 0) + 1 FROM changes), false);
