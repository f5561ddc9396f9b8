-- Statements that are the same in SQLite and in PostgreSQL, by name. Parameters are written as :name; the PostgreSQL store
-- rewrites them for its driver. What differs is in `queries.sql` and `portable.sql` of each store.

-- name: source_number
-- The number by which large tables name a source.
SELECT number FROM sources WHERE name = :source;

-- name: add_source
-- A new source gets a number.
INSERT INTO sources (name) VALUES (:source) ON CONFLICT (name) DO NOTHING;

-- name: confirm_user
-- The profile is the same.
UPDATE stored_users SET last_fetched_at = :fetched WHERE source = :number AND name = :name;

-- name: newest_item_id
-- The newest item, where the search for a time begins.
SELECT max(id) FROM stored_items WHERE source = (SELECT number FROM sources WHERE name = :source);

-- name: block
-- The items with a time at or below an id, highest first: they give the time at that id.
SELECT id, time FROM stored_items
WHERE source = (SELECT number FROM sources WHERE name = :source) AND id <= :last AND time IS NOT NULL ORDER BY id DESC LIMIT :limit;

-- name: list_gaps
-- What is owed, oldest first.
SELECT kind, key, state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at FROM gaps
WHERE source = :source AND state <> 'settled' AND kind = coalesce(:kind, kind) AND state = coalesce(:state, state)
  AND reason = coalesce(:reason, reason)
ORDER BY first_seen_at, kind, key LIMIT :limit;

-- name: list_settled_gaps
-- What was owed once, oldest first.
SELECT kind, key, state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at FROM gaps
WHERE source = :source AND state = 'settled' AND kind = coalesce(:kind, kind) AND reason = coalesce(:reason, reason)
ORDER BY first_seen_at, kind, key LIMIT :limit;

-- name: count_documents
-- How many documents are known; an index answers it, no body is read.
SELECT count(*) FROM documents WHERE source = :source;

-- name: gap_counts
-- Counts of the gaps that are not settled.
SELECT kind, state, reason, count(*), min(first_seen_at), min(not_before_at) FROM gaps
WHERE source = :source AND state <> 'settled' GROUP BY kind, state, reason ORDER BY kind, state, reason;

-- name: count_held_gaps
-- How many items are held although their gap is not settled. One look by key for each gap.
SELECT count(*) FROM gaps JOIN stored_items ON stored_items.id = CAST(gaps.key AS bigint)
WHERE gaps.source = :source AND gaps.kind = 'item' AND gaps.state <> 'settled'
AND stored_items.source = (SELECT number FROM sources WHERE name = :source);

-- name: replay_gaps
-- Dead, absent and gone gaps are owed again, and owed ones are due now. The rest of a list keeps its cool-down.
UPDATE gaps SET state = 'owed', not_before_at = :now
WHERE source = :source AND kind <> 'page' AND state IN ('owed', 'dead', 'absent', 'gone') AND state <> 'settled'
AND reason = coalesce(:reason, reason) AND key = coalesce(:key, key);

-- name: waiting
-- The oldest tickets after one.
SELECT kind, key, ticket FROM inbox WHERE source = :source AND ticket > :after ORDER BY ticket LIMIT :limit;

-- name: inbox_depth
-- How many keys are waiting.
SELECT count(*) FROM inbox WHERE source = :source;

-- name: known_items
-- The stored items of a range of ids.
SELECT id FROM stored_items
WHERE source = (SELECT number FROM sources WHERE name = :source) AND id BETWEEN :first AND :last;

-- name: unfinished_segments
-- What segments of one kind still have to walk.
SELECT cursor + 1, last_id FROM segments WHERE source = :source AND kind = :kind AND state <> 'done';

-- name: coverage
-- Every covered range, lowest first.
SELECT first_id, last_id FROM coverage WHERE source = :source ORDER BY first_id;

-- name: load_pace
-- The learned pace.
SELECT record FROM pace WHERE source = :source;

-- name: note
-- A small fact.
SELECT value FROM notes WHERE source = :source AND name = :name;

-- name: keep_note
-- Store a small fact.
INSERT INTO notes (source, name, value) VALUES (:source, :name, :value)
ON CONFLICT (source, name) DO UPDATE SET value = excluded.value;

-- name: add_note
-- Store a small fact that is not there yet.
INSERT INTO notes (source, name, value) VALUES (:source, :name, :value) ON CONFLICT (source, name) DO NOTHING;

-- name: swap_note
-- Replace a small fact that nobody has changed since it was read.
UPDATE notes SET value = :value WHERE source = :source AND name = :name AND value = :old;

-- name: forget_note
-- Delete a small fact.
DELETE FROM notes WHERE source = :source AND name = :name;

-- name: beat
-- Store the heartbeat of a running process.
INSERT INTO heartbeat (runtime, beat_at, snapshot) VALUES (:runtime, :now, :snapshot)
ON CONFLICT (runtime) DO UPDATE SET beat_at = excluded.beat_at, snapshot = excluded.snapshot;

-- name: forget_heartbeats
-- Of silent processes with similar names, only the latest are kept.
DELETE FROM heartbeat WHERE runtime >= :first AND runtime < :end AND beat_at < :before AND runtime NOT IN (
  SELECT runtime FROM heartbeat WHERE runtime >= :first AND runtime < :end ORDER BY beat_at DESC LIMIT :kept
);

-- name: heartbeats
-- The last heartbeats, newest first.
SELECT runtime, beat_at, snapshot FROM heartbeat ORDER BY beat_at DESC, runtime;

-- name: walk_state
-- How far the walk over a list has come.
SELECT watermark, walking_from, seen_down_to, position, walk, full_walk FROM cursors WHERE source = :source;

-- name: move_walk
-- The walk moves.
INSERT INTO cursors (source, watermark, walking_from, seen_down_to, position, walk, full_walk, moved_at)
VALUES (:source, :watermark, :walking_from, :seen_down_to, :position, :walk, :full_walk, :now)
ON CONFLICT (source) DO UPDATE SET
  watermark = excluded.watermark, walking_from = excluded.walking_from, seen_down_to = excluded.seen_down_to,
  position = excluded.position, walk = excluded.walk, full_walk = excluded.full_walk, moved_at = excluded.moved_at;

-- name: next_documents
-- The last of the next documents of a source, by their keys.
SELECT d.key FROM (
  SELECT key FROM documents WHERE source = :source AND key > :after ORDER BY key LIMIT :limit
) AS d ORDER BY d.key DESC LIMIT 1;

-- name: forget_listed_marks
-- Nothing is known of the marks of these entries.
UPDATE documents SET listed_mark = NULL, listed_rank = NULL WHERE source = :source AND key > :after AND key <= :last;

-- name: owe_documents
-- The details of these entries are asked for again.
UPDATE documents SET owed = TRUE
WHERE source = :source AND key > :after AND key <= :last AND listed_at IS NOT NULL AND vanished_at IS NULL;

-- name: forget_pieces
-- No piece is kept of documents that are not whole yet.
DELETE FROM notes WHERE source = :source AND name >= 'piece' AND name < 'piecf';

-- name: forget_walk
-- The next walk goes to the end of the list.
UPDATE cursors SET watermark = NULL, walking_from = NULL, seen_down_to = NULL, position = NULL WHERE source = :source;

-- name: forget_entry_marks
-- The same for the lists of the entries of another source.
DELETE FROM notes WHERE source = :source AND name >= 'entry_mark' AND name < 'entry_marl';

-- name: unlisted
-- Documents that no page has shown since a walk began.
SELECT key FROM documents
WHERE source = :source AND seen_in_walk < :walk AND vanished_at IS NULL AND listed_at IS NOT NULL
ORDER BY key LIMIT :limit;

-- name: unlisted_in_range
-- The same for missing details whose entries belong in the part of the list that was walked.
SELECT key FROM documents
WHERE source = :source AND seen_in_walk < :walk AND vanished_at IS NULL AND listed_at IS NOT NULL
AND listed_rank > :rank AND fingerprint IN (
  SELECT key FROM gaps
  WHERE source = :source AND kind = 'document' AND state IN ('owed', 'leased', 'dead') AND reason = 'not_found'
)
ORDER BY key LIMIT :limit;

-- name: is_listed_from
-- Whether an entry has a time at or after a second as its mark, in seconds, milliseconds, microseconds or nanoseconds.
SELECT count(*) FROM (
  SELECT 1 FROM documents
  WHERE source = :source AND vanished_at IS NULL AND listed_at IS NOT NULL
  AND CASE
    WHEN listed_rank > 1e17 THEN listed_rank / 1e9
    WHEN listed_rank > 1e14 THEN listed_rank / 1e6
    WHEN listed_rank > 1e11 THEN listed_rank / 1e3
    ELSE listed_rank END >= :second LIMIT 1
) AS found;

-- name: keep_document_revision
-- The stored content becomes a revision; run before the document is overwritten.
INSERT INTO document_revisions (source, key, revision, updated_at, fetched_at, changed_at, body)
SELECT source, key, revision, updated_at, fetched_at, changed_at, body FROM documents
WHERE source = :source AND key = :key
ON CONFLICT (source, key, revision) DO NOTHING;

-- name: settle_gone_document
-- A document that is gone is no longer owed.
UPDATE documents SET owed = false WHERE source = :source AND key = :key;

-- name: key_of
-- The locator behind a fingerprint.
SELECT key FROM documents WHERE source = :source AND fingerprint = :fingerprint;

-- name: start_run
-- A run begins.
INSERT INTO runs (source, started_at) VALUES (:source, :now) RETURNING run_id;

-- name: end_run
-- The run ended, and why.
UPDATE runs SET ended_at = :ended, stopped_by = :stopped_by, counts = :counts
WHERE source = :source AND run_id = :run_id;

-- name: forget_runs
-- All runs but the latest ones.
DELETE FROM runs WHERE run_id IN (
  SELECT run_id FROM runs WHERE source = :source ORDER BY run_id DESC LIMIT :limit OFFSET :kept
);

-- name: runs
-- The latest runs, newest first.
SELECT run_id, started_at, ended_at, stopped_by, counts FROM runs WHERE source = :source
ORDER BY run_id DESC LIMIT :limit;

-- name: export_sources
-- Sources after one, by number: the copy uses the same numbers.
SELECT number, name FROM sources WHERE number > :k0 ORDER BY number LIMIT :limit;

-- name: export_reads
-- When items were last read, after one range.
SELECT source, first_id, last_id, read_at FROM reads
WHERE (source, first_id) > (:k0, :k1) ORDER BY source, first_id LIMIT :limit;

-- name: export_changes
-- The change feed after one line.
SELECT seq, source, kind, key, change, changed_at FROM changes WHERE seq > :k0 ORDER BY seq LIMIT :limit;

-- name: export_segments
-- Segments after one.
SELECT
  segment_id, source, kind, CASE WHEN state = 'claimed' THEN 'pending' ELSE state END, first_id, last_id, cursor, fence,
  created_at, moved_at
FROM segments WHERE segment_id > :k0 ORDER BY segment_id LIMIT :limit;

-- name: export_gaps
-- Gaps after one.
SELECT
  source, kind, key, CASE WHEN state = 'leased' THEN 'owed' ELSE state END, reason, attempts, null_count, near_newest,
  not_before_at, first_seen_at, last_seen_at, served_turn
FROM gaps WHERE (source, kind, key) > (:k0, :k1, :k2) ORDER BY source, kind, key LIMIT :limit;

-- name: export_inbox
-- The inbox after one ticket.
SELECT ticket, source, kind, key, announced_at FROM inbox WHERE ticket > :k0 ORDER BY ticket LIMIT :limit;

-- name: export_pace
-- The learned paces after one source.
SELECT source, record FROM pace WHERE source > :k0 AND record IS NOT NULL ORDER BY source LIMIT :limit;

-- name: export_notes
-- Small facts after one, without the copy's own.
SELECT source, name, value FROM notes
WHERE (source, name) > (:k0, :k1) AND source <> '' ORDER BY source, name LIMIT :limit;

-- name: export_cursors
-- How far lists are walked, after one source.
SELECT source, watermark, walking_from, seen_down_to, position, walk, full_walk, moved_at FROM cursors
WHERE source > :k0 ORDER BY source LIMIT :limit;

-- name: export_runs
-- Runs after one.
SELECT run_id, source, started_at, ended_at, stopped_by, counts FROM runs
WHERE run_id > :k0 ORDER BY run_id LIMIT :limit;

-- name: export_imports
-- Files that items were taken from, after one.
SELECT import_id, source, file, fingerprint, rows_read, items, first_id, last_id, started_at, moved_at, ended_at FROM imports
WHERE import_id > :k0 ORDER BY import_id LIMIT :limit;

-- name: import_state
-- How far the import of a file has come.
SELECT import_id, rows_read, items, ended_at FROM imports WHERE source = :source AND fingerprint = :fingerprint;

-- name: move_import
-- More rows of the file are stored.
UPDATE imports SET
  rows_read = :rows_read, items = items + :items, moved_at = :now,
  first_id = CASE WHEN :first < first_id OR first_id IS NULL THEN :first ELSE first_id END,
  last_id = CASE WHEN :last > last_id OR last_id IS NULL THEN :last ELSE last_id END
WHERE import_id = :import_id;

-- name: import_range
-- The lowest and the highest id of a file.
SELECT first_id, last_id FROM imports WHERE import_id = :import_id;

-- name: end_import
-- The whole file is stored.
UPDATE imports SET ended_at = :now, moved_at = :now WHERE import_id = :import_id;

-- name: take_plans
-- Pending segments of a backfill, to be planned again in the same transaction without what is covered by now.
DELETE FROM segments WHERE source = :source AND kind = 'backfill' AND state = 'pending'
RETURNING cursor + 1, last_id;

-- name: named_readers
-- Every named reader of the change feed.
SELECT name, position, read_at FROM change_readers ORDER BY name;

-- name: next_settled_gaps
-- The last of the next gaps, by their key.
SELECT g.source, g.kind, g.key FROM (
  SELECT source, kind, key FROM gaps
  WHERE (source, kind, key) > (:k0, :k1, :k2) ORDER BY source, kind, key LIMIT :limit
) AS g ORDER BY g.source DESC, g.kind DESC, g.key DESC LIMIT 1;

-- name: forget_settled_gaps
-- Those of them that were settled long ago.
DELETE FROM gaps
WHERE (source, kind, key) > (:k0, :k1, :k2) AND (source, kind, key) <= (:e0, :e1, :e2)
AND state = 'settled' AND last_seen_at < :before;

-- name: forget_reader
-- A named reader is waited for no more.
DELETE FROM change_readers WHERE name = :name;

-- name: changes_since
-- How many changes of each sort there were since a moment.
SELECT kind, change, count(*) FROM changes WHERE changed_at >= :since GROUP BY kind, change ORDER BY kind, change;

-- name: change_ends
-- The oldest and the newest number. Each is one look-up; both in one aggregate would read all.
SELECT (SELECT seq FROM changes ORDER BY seq LIMIT 1), (SELECT seq FROM changes ORDER BY seq DESC LIMIT 1);

-- name: change_moment
-- When the first change from a number on was recorded.
SELECT changed_at FROM changes WHERE seq >= :seq ORDER BY seq LIMIT 1;
