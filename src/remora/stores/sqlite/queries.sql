-- Every statement the SQLite store runs, by name. Parameters are named; times are milliseconds.
-- A statement for bulk writes has its row of values on a separate line: `many_rows` repeats that line.

-- name: held_items
-- What must be known about stored items to judge new observations of them, all in one row: also the bodies without a hash,
-- which are short, one after the other.
SELECT
  json_group_array(json_array(
    id, hex(hash), hex(content_hash), revision, last_fetched_at,
    CASE WHEN hash = x'' THEN length(CAST(body AS BLOB)) ELSE 0 END
  )),
  CAST(group_concat(CASE WHEN hash = x'' THEN body END, '') AS BLOB)
FROM whole_items WHERE source = :number AND id IN (SELECT value FROM json_each(:ids));

-- name: held_users
-- The same for profiles; they have no revisions.
SELECT name, hash, last_fetched_at FROM stored_users
WHERE source = :number AND name IN (SELECT value FROM json_each(:names));

-- name: held_document
-- The same for one document, with what its list said last.
SELECT hash, fetched_at, listed_mark, listed_at, revision, vanished_at FROM documents
WHERE source = :source AND key = :key;

-- name: keep_revisions
-- The stored content becomes a revision; run before the items are overwritten.
INSERT INTO stored_revisions (source, item_id, revision, last_fetched_at, changed_at, body)
SELECT source, id, revision, last_fetched_at, changed_at, body FROM whole_items
WHERE source = :number AND id IN (SELECT value FROM json_each(:ids));

-- name: write_items
-- New items, and new bodies of stored ones. Marks count from the moment in the same row, which a stored item has not.
INSERT INTO stored_items (
  source, id, "by", time, parent, first_seen_at, fetched_mark, body,
  type_mark, score, descendants, dead, deleted, changed_mark, revision, hash, content_hash, body_form
) VALUES
(?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (source, id) DO UPDATE SET
  type_mark = excluded.type_mark, "by" = excluded."by", time = excluded.time, parent = excluded.parent, score = excluded.score,
  descendants = excluded.descendants, dead = excluded.dead, deleted = excluded.deleted,
  fetched_mark = CASE
    WHEN excluded.fetched_mark < 0 THEN excluded.first_seen_at + excluded.fetched_mark + 1 ELSE excluded.fetched_mark
  END,
  changed_mark = excluded.first_seen_at, revision = excluded.revision,
  hash = excluded.hash, content_hash = excluded.content_hash, body = excluded.body, body_form = excluded.body_form;

-- name: take_reads
-- When items of some blocks were last read, to be put back in the same transaction.
DELETE FROM reads WHERE source = :number AND first_id IN (
  SELECT r.first_id FROM json_each(:blocks) AS b CROSS JOIN reads AS r
  ON r.source = :number AND r.first_id BETWEEN b.value AND b.value + 99
)
RETURNING first_id, last_id, read_at / 1000;

-- name: put_reads
-- When items were last read: ranges with their second.
INSERT INTO reads (source, first_id, last_id, read_at)
SELECT :number, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') * 1000
FROM json_each(:ranges);

-- name: write_user
-- A new profile, or the new body of a stored one.
INSERT INTO stored_users (source, name, first_seen_at, last_fetched_at, changed_at, hash, body)
VALUES (:number, :name, :now, :fetched, :now, :hash, CAST(:body AS TEXT))
ON CONFLICT (source, name) DO UPDATE SET
  last_fetched_at = excluded.last_fetched_at, changed_at = excluded.changed_at, hash = excluded.hash,
  body = excluded.body;

-- name: write_document
-- A document's body, and whether its detail is still owed.
UPDATE documents SET
  updated_at = coalesce(:updated_at, listed_mark), fetched_at = :fetched, changed_at = :now, revision = :revision,
  hash = :hash, body = CAST(:body AS TEXT), owed = :owed
WHERE source = :source AND key = :key;

-- name: confirm_document
-- The body is the same: only whether its detail is owed, its mark and when it was read may change.
UPDATE documents SET owed = :owed, updated_at = coalesce(:updated_at, listed_mark), fetched_at = :fetched
WHERE source = :source AND key = :key;

-- name: ensure_document
-- Every requested document has a row: its gap must lead back to its key.
INSERT INTO documents (source, key, fingerprint, owed, first_seen_at) VALUES (:source, :key, :fingerprint, 1, :now)
ON CONFLICT (source, key) DO NOTHING;

-- name: add_change_sort
-- What the lines of the change feed will say; run before they are written.
INSERT INTO change_sorts (source, kind, change) VALUES (:source, :kind, :change)
ON CONFLICT (source, kind, change) DO NOTHING;

-- name: write_changes
-- One line of the change feed for each of some keys. Ids are numbers.
INSERT INTO stored_changes (sort, key, changed_at)
SELECT s.sort, k.value, :now FROM change_sorts AS s CROSS JOIN json_each(:keys) AS k
WHERE s.source = :source AND s.kind = :kind AND s.change = :change;

-- name: item
-- One item of the mirror.
SELECT id, CAST(body AS BLOB), revision, first_seen_at, last_fetched_at, changed_at FROM items
WHERE source = :source AND id = :id;

-- name: revisions
-- Earlier contents of an item, oldest first.
SELECT r.item_id, CAST(r.body AS BLOB), r.revision, i.first_seen_at, r.last_fetched_at, r.changed_at
FROM stored_revisions AS r JOIN stored_items AS i ON i.source = r.source AND i.id = r.item_id
WHERE r.source = (SELECT number FROM sources WHERE name = :source) AND r.item_id = :id ORDER BY r.revision;

-- name: bodies
-- One page of raw bodies, in order.
SELECT id, CAST(body AS BLOB) FROM whole_items
WHERE source = (SELECT number FROM sources WHERE name = :source)
AND id BETWEEN :first AND :last ORDER BY id LIMIT :limit;

-- name: newest_items
-- The highest ids at or above one, highest first; a body above the size limit is left out.
SELECT id, CASE WHEN length(CAST(body AS BLOB)) <= :body_max THEN CAST(body AS BLOB) ELSE x'' END, first_seen_at
FROM whole_items
WHERE source = (SELECT number FROM sources WHERE name = :source) AND id >= :first ORDER BY id DESC LIMIT :limit;

-- name: user
-- One profile.
SELECT CAST(body AS BLOB) FROM users WHERE source = :source AND name = :name;

-- name: item_times
-- Creation times of the stored items that have one.
SELECT id, time FROM stored_items
WHERE source = (SELECT number FROM sources WHERE name = :source)
AND id IN (SELECT value FROM json_each(:ids)) AND time IS NOT NULL;

-- name: held_gaps
-- The gaps of some things, before they are judged again.
SELECT kind, key, state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at, served_turn
FROM gaps WHERE source = :source AND kind = :kind AND key IN (SELECT value FROM json_each(:keys));

-- name: last_turn
-- The latest turn in which gaps were served.
SELECT coalesce(max(served_turn), 0) FROM gaps WHERE source = :source AND state IN ('owed', 'leased', 'dead');

-- name: write_gaps
-- Gaps after one more answer; their leases, if any, have ended.
INSERT INTO gaps (
  source, kind, key, state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at, served_turn
) VALUES
(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (source, kind, key) DO UPDATE SET
  state = excluded.state, reason = excluded.reason, attempts = excluded.attempts, null_count = excluded.null_count,
  near_newest = excluded.near_newest, not_before_at = excluded.not_before_at, first_seen_at = excluded.first_seen_at,
  last_seen_at = excluded.last_seen_at, owner = NULL, lease_until = 0;

-- name: due_gaps
-- Due gaps; those that have waited longest since their last attempt come first. Expired leases count as owed. A time
-- too far in the future means that the clock was set back since.
SELECT kind, key, state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at FROM gaps
WHERE source = :source AND state IN ('owed', 'leased', 'dead')
AND (
  (state = 'leased' AND (lease_until <= :now OR lease_until > :lease_until + :slack))
  OR (
    state IN ('owed', 'dead')
    AND (not_before_at <= :now OR not_before_at > :now + :not_before_max OR last_seen_at > :now + :slack)
  )
)
AND reason NOT IN (SELECT value FROM json_each(:without))
ORDER BY served_turn, first_seen_at, kind, key LIMIT :limit;

-- name: lease_gap
-- One gap is being served; run in the transaction that found it due.
UPDATE gaps SET state = 'leased', owner = ?, lease_until = ?, served_turn = ? WHERE source = ? AND kind = ? AND key = ?;

-- name: release_gaps
-- What this owner still holds is owed again.
UPDATE gaps INDEXED BY gaps_due SET state = 'owed', owner = NULL, lease_until = 0
WHERE source = :source AND state IN ('owed', 'leased', 'dead') AND state = 'leased' AND owner = :owner;

-- name: release_all_gaps
-- When a writer opens the store, no other writer is alive: its leases end.
UPDATE gaps SET state = 'owed', owner = NULL, lease_until = 0 WHERE state = 'leased';

-- name: announce
-- Add keys; one that is already waiting gets a new ticket.
INSERT OR REPLACE INTO inbox (source, kind, key, announced_at) VALUES
(?, ?, ?, ?);

-- name: remove_from_inbox
-- The entries some answers belong to, unless they were announced again meanwhile.
DELETE FROM inbox WHERE ticket IN (
  SELECT i.ticket FROM json_each(:answered) AS a JOIN inbox AS i
  ON i.ticket = json_extract(a.value, '$[0]') AND i.source = json_extract(a.value, '$[1]')
  AND i.kind = json_extract(a.value, '$[2]') AND i.key = json_extract(a.value, '$[3]')
);

-- name: add_segments
-- Pending segments.
INSERT INTO segments (source, kind, state, first_id, last_id, cursor, created_at, moved_at) VALUES
(?, ?, 'pending', ?, ?, ?, ?, ?);

-- name: forget_segments
-- Finished segments: what they walked is covered.
DELETE FROM segments WHERE segment_id IN (
  SELECT segment_id FROM segments WHERE source = :source AND state = 'done' ORDER BY segment_id LIMIT :limit
);

-- name: free_segment
-- The free segment of a kind with the newest ids. A lease that ends later than a new one would has ended.
SELECT segment_id, cursor, last_id FROM segments
WHERE source = :source AND kind = :kind AND state <> 'done'
AND (state = 'pending' OR lease_until <= :now OR lease_until > :lease_until + :slack)
ORDER BY first_id DESC LIMIT 1;

-- name: split_segment
-- The upper ids of a wide segment become a segment; run in the transaction that claims one of the two.
INSERT INTO segments (source, kind, state, first_id, last_id, cursor, created_at, moved_at)
SELECT source, kind, 'pending', :first, last_id, :first - 1, created_at, :now FROM segments WHERE segment_id = :segment_id;

-- name: shorten_segment
-- The rest of it.
UPDATE segments SET last_id = :first - 1 WHERE segment_id = :segment_id;

-- name: claim
-- A free segment, for one owner.
UPDATE segments SET
  state = 'claimed', owner = :owner, fence = fence + 1, lease_until = :lease_until, moved_at = :now
WHERE segment_id = :segment_id
RETURNING first_id, last_id, cursor, fence;

-- name: claimed_segment
-- How far a claimed segment has come, if this fence is still current.
SELECT kind, last_id, cursor FROM segments
WHERE segment_id = :segment_id AND source = :source AND state = 'claimed' AND fence = :fence;

-- name: advance
-- The cursor moves and the lease is extended; the end of the range finishes the segment.
UPDATE segments SET
  cursor = :cursor, lease_until = :lease_until, moved_at = :now,
  state = CASE WHEN :cursor = last_id THEN 'done' ELSE state END
WHERE segment_id = :segment_id;

-- name: release
-- The rest of the segment is released.
UPDATE segments SET state = 'pending', owner = NULL, lease_until = 0
WHERE segment_id = :segment_id AND source = :source AND state = 'claimed' AND fence = :fence;

-- name: release_all_segments
-- When a writer opens the store, no other writer is alive: its leases end.
UPDATE segments SET state = 'pending', owner = NULL, lease_until = 0 WHERE state = 'claimed';

-- name: open_segments
-- Ids left to walk, by kind.
SELECT kind, sum(last_id - cursor) FROM segments WHERE source = :source AND state <> 'done' GROUP BY kind;

-- name: retract_segments
-- Segments with nothing left to walk at or below an id.
DELETE FROM segments WHERE source = :source AND last_id > :above AND cursor >= :above;

-- name: shorten_segments
-- The rest of them end at that id. A new fence: whoever walks one must not go beyond it.
UPDATE segments SET last_id = :above, state = 'pending', owner = NULL, lease_until = 0, fence = fence + 1
WHERE source = :source AND last_id > :above;

-- name: retract_coverage
-- Covered ranges above an id.
DELETE FROM coverage WHERE source = :source AND first_id > :above;

-- name: shorten_coverage
-- The rest of them end at that id.
UPDATE coverage SET last_id = :above WHERE source = :source AND last_id > :above;

-- name: retract_gaps
-- Unsettled gaps of items above an id.
DELETE FROM gaps WHERE source = :source AND kind = 'item' AND state <> 'settled' AND CAST(key AS INTEGER) > :above;

-- name: coverage_below
-- Covered ranges from the highest one that could touch a new range downwards.
SELECT first_id, last_id FROM coverage WHERE source = :source AND first_id <= :end + 1 ORDER BY first_id DESC;

-- name: remove_coverage
-- A range that becomes part of a larger one.
DELETE FROM coverage WHERE source = :source AND first_id = :first_id;

-- name: add_coverage
-- A covered range.
INSERT INTO coverage (source, first_id, last_id) VALUES (:source, :first_id, :last_id);

-- name: save_pace
-- Store the learned pace.
INSERT INTO pace (source, record) VALUES (:source, :record)
ON CONFLICT (source) DO UPDATE SET record = excluded.record;

-- name: listed
-- What the list said last about some keys.
SELECT d.key, d.listed_mark, d.vanished_at IS NOT NULL, coalesce(g.state = 'gone', 0)
FROM documents AS d LEFT JOIN gaps AS g ON g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint
WHERE d.source = :source AND d.key IN (SELECT value FROM json_each(:keys));

-- name: see_entries
-- A page shows these entries: none of them has vanished.
UPDATE documents SET seen_in_walk = :walk, vanished_at = NULL
WHERE source = :source AND key IN (SELECT value FROM json_each(:keys))
AND (seen_in_walk <> :walk OR vanished_at IS NOT NULL);

-- name: see_existing
-- These entries exist although no page has shown them.
UPDATE documents SET seen_in_walk = :walk
WHERE source = :source AND key IN (SELECT value FROM json_each(:keys));

-- name: mark_vanished
-- The list no longer shows these entries.
UPDATE documents SET vanished_at = :now
WHERE source = :source AND key IN (SELECT value FROM json_each(:keys)) AND vanished_at IS NULL;

-- name: ask_vanished
-- Gaps of documents that have vanished are due at once: the answer tells whether they are gone.
UPDATE gaps SET state = 'owed', not_before_at = :now
WHERE source = :source AND kind = 'document' AND state IN ('owed', 'dead') AND key IN (
  SELECT fingerprint FROM documents WHERE source = :source AND key IN (SELECT value FROM json_each(:keys)) AND vanished_at IS NULL
);

-- name: tell_vanished
-- The change feed says which contents the list no longer shows; run before they are marked.
INSERT INTO changes (source, kind, key, change, changed_at)
SELECT source, 'document', key, 'vanished', :now FROM documents
WHERE source = :source AND key IN (SELECT value FROM json_each(:keys)) AND vanished_at IS NULL AND body IS NOT NULL ORDER BY key;

-- name: relist_gone
-- Documents that were gone are in the list again: their details are owed like those of any other entry.
UPDATE gaps SET state = 'settled', last_seen_at = :now
WHERE source = :source AND kind = 'document' AND state = 'gone' AND key IN (SELECT value FROM json_each(:fingerprints));

-- name: list_entry
-- A new or newer entry: its detail is owed.
INSERT INTO documents (source, key, fingerprint, listed_mark, listed_rank, listed_at, owed, first_seen_at)
VALUES (:source, :key, :fingerprint, :mark, :rank, :now, 1, :now)
ON CONFLICT (source, key) DO UPDATE SET
  listed_mark = excluded.listed_mark, listed_rank = excluded.listed_rank, listed_at = excluded.listed_at, owed = 1;

-- name: owed_details
-- Entries whose detail is owed and that have no gap of their own, newest mark first.
SELECT key, listed_mark FROM documents AS d WHERE source = :source AND owed = 1 AND NOT EXISTS (
  SELECT 1 FROM gaps AS g
  WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state <> 'settled'
)
ORDER BY listed_rank DESC, listed_mark DESC, key LIMIT :limit;

-- name: count_owed_details
-- How many details are owed that have no gap of their own.
SELECT count(*) FROM documents AS d WHERE source = :source AND owed = 1 AND NOT EXISTS (
  SELECT 1 FROM gaps AS g
  WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state <> 'settled'
);

-- name: begin_snapshot
-- The first read of a transaction: from here on it sees the state of this moment.
SELECT count(*) FROM sqlite_schema;

-- name: document
-- One document of the mirror.
SELECT
  key, fingerprint, CASE WHEN body IS NULL THEN listed_mark ELSE updated_at END, CAST(body AS BLOB), fetched_at, revision,
  first_seen_at, changed_at, vanished_at, owed
FROM documents WHERE source = :source AND key = :key;

-- name: document_revisions
-- Earlier contents of a document, oldest first.
SELECT
  r.key, d.fingerprint, r.updated_at, CAST(r.body AS BLOB), r.fetched_at, r.revision, d.first_seen_at, r.changed_at,
  d.vanished_at, d.owed
FROM document_revisions AS r JOIN documents AS d ON d.source = r.source AND d.key = r.key
WHERE r.source = :source AND r.key = :key ORDER BY r.revision;

-- name: documents
-- One page of documents that have a body, by key.
SELECT
  key, fingerprint, updated_at, CAST(body AS BLOB), fetched_at, revision, first_seen_at, changed_at, vanished_at, owed
FROM documents WHERE source = :source AND key > :after AND body IS NOT NULL ORDER BY key LIMIT :limit;

-- name: build_author_index
-- An import drops it while it runs; a writer builds it again.
CREATE INDEX IF NOT EXISTS items_by_author ON stored_items (id >> 14, "by", time) WHERE "by" IS NOT NULL;

-- name: build_domain_index
-- The same for domains.
CREATE INDEX IF NOT EXISTS items_by_domain ON stored_items (domain, time) WHERE domain IS NOT NULL;

-- name: estimate_indexes
-- Dropping an index deletes its estimates, and without them SQLite does not use the one by author.
INSERT INTO sqlite_stat1 (tbl, idx, stat)
SELECT 'stored_items', e.column1, e.column2 FROM (
  VALUES ('items_by_author', '9500000 14000 2 1'), ('items_by_domain', '1000000 20 1')
) AS e
WHERE NOT EXISTS (SELECT 1 FROM sqlite_stat1 AS s WHERE s.tbl = 'stored_items' AND s.idx = e.column1);
