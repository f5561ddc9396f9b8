-- Every statement the PostgreSQL store runs, by name. Parameters are named; times are milliseconds unless they say _ns.
-- %(now)s is NULL in service: then the database's own clock judges leases. A simulation passes its own time.
-- Where a moment is compared with an indexed column it is statement_timestamp(): an index cannot be searched for a
-- value that changes while it is searched.

-- ── sessions and schema ────────────────────────────────────────────────────────────────────────────────────────────

-- name: set_session
-- Our limits for one session.
SELECT set_config(name, value, false) FROM unnest(%(names)s::text[], %(values)s::text[]) AS s (name, value);

-- name: find_tables
-- Whether our tables exist, and whether others are where ours would be created; an extension's tables do not count.
SELECT to_regclass('migrations') IS NOT NULL AND to_regclass('singletons') IS NOT NULL,
       EXISTS (
         SELECT FROM pg_class AS held
         WHERE held.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
           AND held.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
           AND NOT EXISTS (
             SELECT FROM pg_depend AS belongs
             WHERE belongs.classid = 'pg_class'::regclass AND belongs.objid = held.oid AND belongs.deptype = 'e'
           )
       );

-- name: schema_version
-- The last migration that was applied.
SELECT max(number) FROM migrations;

-- name: may_create
-- Whether this role may create tables where they would be created.
SELECT current_schema() IS NOT NULL AND has_schema_privilege(current_schema(), 'CREATE');

-- name: may_write
-- Whether this role may do with our tables all that a process that collects does.
SELECT coalesce(bool_and(
         has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
         AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')
       ), false)
FROM pg_class
WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('migrations'))
  AND relname IN (
    'change_readers', 'changes', 'coverage', 'cursors', 'document_revisions', 'documents', 'fetches', 'gaps', 'gates',
    'heartbeat', 'imports', 'inbox', 'locks', 'notes', 'pace', 'reads', 'runs', 'segments', 'singletons', 'sources',
    'stored_items', 'stored_revisions', 'stored_users'
  );

-- name: try_to_write
-- Changes nothing, and fails on a server that accepts no writes.
DELETE FROM notes WHERE false;

-- name: lock_migration
-- One process migrates at a time; the others wait and then find nothing to do.
SELECT pg_advisory_xact_lock(%(lock)s);

-- name: build_serially
-- Build indexes in one process: the second step marks a function as safe in parallel that is not.
SET LOCAL max_parallel_maintenance_workers = 0;

-- name: record_migration
-- This step is done.
INSERT INTO migrations (number, name) VALUES (%(number)s, %(name)s);

-- name: is_feed_restored
-- Whether the feed, or a reader of it, has numbers of transactions that this server has not begun: a dump brought them.
-- A restored table has no statistics yet: only its order makes sure that the end of the feed is read, and not all of it.
SELECT coalesce((SELECT xid FROM changes ORDER BY xid DESC, seq DESC LIMIT 1) >= pg_snapshot_xmax(pg_current_snapshot()), false)
    OR EXISTS (
      SELECT FROM change_readers WHERE split_part(position, ':', 1)::xid8 >= pg_snapshot_xmax(pg_current_snapshot())
    );

-- name: lock_feed
-- No reader moves on, and nobody adds to the feed, until this transaction ends.
LOCK TABLE changes, change_readers IN SHARE ROW EXCLUSIVE MODE;

-- name: renumber_readers
-- In the restored feed each reader goes on before the first change that it may not have read.
UPDATE change_readers AS r SET position = '3:' || (
  SELECT coalesce(min(c.seq) - 1, p.seq) FROM changes AS c WHERE (c.xid, c.seq) > (p.xid, p.seq) OR c.seq > p.seq
)
FROM (
  SELECT name, split_part(position, ':', 1)::xid8 AS xid, split_part(position, ':', 2)::bigint AS seq
  FROM change_readers WHERE position <> '0'
) AS p WHERE p.name = r.name;

-- name: renumber_feed
-- 3 is the first transaction of any server: what was restored comes before everything that is added from now on.
UPDATE changes SET xid = '3' WHERE xid <> '3';

-- name: read_index_anew
-- The search index, if there is one, reads the mirror again: its position is of the other server, which this one may reach.
DO $$ BEGIN
  IF has_table_privilege(to_regclass('search_progress'), 'DELETE') THEN
    DELETE FROM search_progress;
  END IF;
END $$;

-- name: role_exists
-- Whether the server knows a role of this name.
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %(role)s);

-- name: grant_schema
-- The service's role may look into the schema.
GRANT USAGE ON SCHEMA {schema} TO {role};

-- name: grant_tables
-- The service's role may read and write, not create.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};

-- name: grant_sequences
-- The service's role may draw numbers.
GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {role};

-- name: current_schema
-- Where our tables are.
SELECT current_schema();

-- ── recording ──────────────────────────────────────────────────────────────────────────────────────────────────────

-- name: begin_recording
-- A batch sees one snapshot of the rows that it judges.
BEGIN ISOLATION LEVEL REPEATABLE READ;

-- name: commit_recording
-- The batch is durable.
COMMIT;

-- name: held_items
-- What must be known about items and their gaps to judge new observations. One text of ids is faster than an array.
-- OFFSET 0 makes PostgreSQL look up each id: while a table grows, its estimates would have it read whole tables instead.
SELECT
  asked.id, i.hash, i.content_hash, i.revision, i.last_fetched_at, f.departed_ns,
  CASE WHEN i.hash = '' THEN i.body ELSE '' END,  -- a body without a hash is short
  g.kind, g.key, g.state, g.reason, g.attempts, g.null_count, g.near_newest, g.not_before_at, g.first_seen_at,
  g.last_seen_at
FROM unnest(string_to_array(%(ids)s, ',')) AS asked (id)
LEFT JOIN LATERAL (
  SELECT * FROM stored_items WHERE source = %(number)s AND id = asked.id::bigint OFFSET 0
) AS i ON true
LEFT JOIN LATERAL (
  -- Only of a stored item: NULL is in no index.
  SELECT departed_ns FROM fetches
  WHERE source = %(number)s AND key = CASE WHEN i.id IS NOT NULL THEN asked.id END COLLATE "C" OFFSET 0
) AS f ON true
LEFT JOIN LATERAL (
  SELECT * FROM gaps WHERE source = %(source)s AND kind = 'item' AND key = asked.id COLLATE "C" OFFSET 0
) AS g ON true
WHERE i.id IS NOT NULL OR g.key IS NOT NULL;

-- name: held_users
-- The same for profiles; they have no revisions.
SELECT name, hash, last_fetched_at FROM stored_users
WHERE source = %(number)s AND name = ANY (%(names)s::text[]);

-- name: held_documents
-- The same for documents, with what their list said last.
SELECT key, hash, fetched_at, listed_mark, listed_at, revision, vanished_at FROM documents
WHERE source = %(source)s AND key = ANY (%(keys)s::text[]);

-- name: held_gaps
-- The gaps of some things, before they are judged again.
SELECT kind, key, state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at FROM gaps
WHERE source = %(source)s AND kind = %(kind)s AND key = ANY (%(keys)s::text[]);

-- name: held_fetches
-- When some things that are not items were last fetched, if that was recent.
SELECT key, departed_ns FROM fetches WHERE source = %(number)s AND key = ANY (%(keys)s::text[]);

-- name: write_fetches
-- Stored things have been fetched again, in key order. A conflict with another process here repeats the transaction.
INSERT INTO fetches (source, key, departed_ns)
SELECT %(number)s, key, departed_ns
FROM unnest(string_to_array(%(keys)s, E'\n'), %(departed_ns)b::bigint[]) AS n (key, departed_ns)
ON CONFLICT (source, key) DO UPDATE SET departed_ns = excluded.departed_ns;

-- name: forget_fetches
-- No fetch that was sent before is still in flight anywhere.
DELETE FROM fetches WHERE (source, key) IN (
  SELECT source, key FROM fetches WHERE departed_ns < %(before_ns)s FOR UPDATE SKIP LOCKED
);

-- name: copy_items
-- New items, in bulk.
COPY stored_items (
  source, id, type, "by", time, parent, score, descendants, dead, deleted,
  first_seen_at, last_fetched_at, changed_at, revision, hash, content_hash, body
) FROM STDIN (FORMAT BINARY);

-- name: add_item
-- One new item: for a few, this is faster than a COPY.
INSERT INTO stored_items (
  source, id, type, "by", time, parent, score, descendants, dead, deleted,
  first_seen_at, last_fetched_at, changed_at, revision, hash, content_hash, body
) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %b, %b, %b);

-- name: add_changes
-- Lines of the change feed for some keys, in their order; keys have no line breaks.
INSERT INTO changes (source, kind, key, change, changed_at)
SELECT %(source)s, %(kind)s, key, %(change)s, %(changed_at)s FROM unnest(string_to_array(%(keys)s, E'\n')) AS n (key);

-- name: keep_revisions
-- The stored content becomes a revision; run before the items are overwritten.
INSERT INTO stored_revisions (source, item_id, revision, last_fetched_at, changed_at, body)
SELECT source, id, revision, last_fetched_at, changed_at, body FROM stored_items
WHERE source = %(number)s AND id = ANY (%(ids)b::bigint[]) ORDER BY id
ON CONFLICT (source, item_id, revision) DO NOTHING;

-- name: change_items
-- New bodies of stored items.
UPDATE stored_items AS i SET
  type = n.type, "by" = n."by", time = n.time, parent = n.parent, score = n.score, descendants = n.descendants,
  dead = n.dead, deleted = n.deleted, last_fetched_at = n.last_fetched_at, changed_at = n.changed_at,
  revision = n.revision, hash = n.hash, content_hash = n.content_hash, body = n.body
FROM unnest(
  %(id)b::bigint[], %(type)s::text[], %(by)s::text[], %(time)b::bigint[], %(parent)b::bigint[], %(score)b::bigint[],
  %(descendants)b::bigint[], %(dead)b::boolean[], %(deleted)b::boolean[], %(last_fetched_at)b::bigint[],
  %(changed_at)b::bigint[], %(revision)b::bigint[], %(hash)b::bytea[], %(content_hash)b::bytea[], %(body)b::bytea[]
) AS n (
  id, type, "by", time, parent, score, descendants, dead, deleted, last_fetched_at, changed_at, revision, hash,
  content_hash, body
)
WHERE i.source = %(number)s AND i.id = n.id;

-- name: take_reads
-- When items of some blocks were last read, to be put back in the same transaction.
DELETE FROM reads AS r USING unnest(%(blocks)b::bigint[]) AS b (first_id)
WHERE r.source = %(number)s AND r.first_id BETWEEN b.first_id AND b.first_id + 99
RETURNING r.first_id, r.last_id, r.read_at / 1000;

-- name: put_reads
-- When items were last read: ranges with their second. A conflict with another process repeats the transaction.
INSERT INTO reads (source, first_id, last_id, read_at)
SELECT %(number)s, first_id, last_id, read_s * 1000
FROM unnest(%(first_ids)b::bigint[], %(last_ids)b::bigint[], %(read_s)b::bigint[]) AS n (first_id, last_id, read_s)
ON CONFLICT (source, first_id) DO UPDATE SET last_id = excluded.last_id, read_at = excluded.read_at;

-- name: write_user
-- A new profile, or the new body of a stored one.
INSERT INTO stored_users (source, name, first_seen_at, last_fetched_at, changed_at, hash, body)
VALUES (%(number)s, %(name)s, %(now)s, %(fetched)s, %(now)s, %(hash)s, %(body)s)
ON CONFLICT (source, name) DO UPDATE SET
  last_fetched_at = excluded.last_fetched_at, changed_at = excluded.changed_at, hash = excluded.hash,
  body = excluded.body;

-- name: write_document
-- A document after an observation; every requested document has a row, found or not.
INSERT INTO documents (
  source, key, fingerprint, owed, first_seen_at, updated_at, fetched_at, changed_at, revision, hash, body
)
VALUES (
  %(source)s, %(key)s, %(fingerprint)s, %(owed)s, %(now)s, %(updated_at)s, %(fetched)s, %(now)s, %(revision)s, %(hash)s,
  %(body)s
)
ON CONFLICT (source, key) DO UPDATE SET
  owed = excluded.owed, updated_at = excluded.updated_at, fetched_at = excluded.fetched_at,
  changed_at = excluded.changed_at, revision = excluded.revision, hash = excluded.hash, body = excluded.body;

-- name: confirm_document
-- The body is the same: only whether its detail is owed, its mark and when it was read may change.
UPDATE documents SET owed = %(owed)s, updated_at = %(updated_at)s, fetched_at = %(fetched)s
WHERE source = %(source)s AND key = %(key)s;

-- name: ensure_document
-- Every requested document has a row: its gap must lead back to its key.
INSERT INTO documents (source, key, fingerprint, owed, first_seen_at)
VALUES (%(source)s, %(key)s, %(fingerprint)s, true, %(now)s)
ON CONFLICT (source, key) DO NOTHING;

-- name: write_gaps
-- Gaps after one more answer; their leases, if any, have ended. A new one queues behind those that were already tried.
INSERT INTO gaps (
  source, kind, key, state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at, served_turn
)
SELECT n.*, (
  SELECT coalesce(max(g.served_turn), 0) FROM gaps AS g
  WHERE g.source = n.source AND g.state IN ('owed', 'leased', 'dead')
)
FROM unnest(
  %(source)s::text[], %(kind)s::text[], %(key)s::text[], %(state)s::text[], %(reason)s::text[], %(attempts)s::int[],
  %(null_count)s::int[], %(near_newest)s::boolean[], %(not_before_at)s::bigint[], %(first_seen_at)s::bigint[],
  %(last_seen_at)s::bigint[]
) AS n (
  source, kind, key, state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at
)
ON CONFLICT (source, kind, key) DO UPDATE SET
  state = excluded.state, reason = excluded.reason, attempts = excluded.attempts, null_count = excluded.null_count,
  near_newest = excluded.near_newest, not_before_at = excluded.not_before_at, first_seen_at = excluded.first_seen_at,
  last_seen_at = excluded.last_seen_at, owner = NULL, lease_until = 0;

-- name: remove_from_inbox
-- The entries that answers belong to, unless they were announced again meanwhile.
DELETE FROM inbox USING unnest(
  %(source)s::text[], %(kind)s::text[], %(key)s::text[], %(ticket)s::bigint[]
) AS n (source, kind, key, ticket)
WHERE inbox.source = n.source AND inbox.kind = n.kind AND inbox.key = n.key AND inbox.ticket = n.ticket;

-- ── the mirror ─────────────────────────────────────────────────────────────────────────────────────────────────────

-- name: item
-- One item of the mirror.
SELECT id, body, revision, first_seen_at, last_fetched_at, changed_at FROM items
WHERE source = %(source)s AND id = %(id)s;

-- name: revisions
-- Earlier contents of an item, oldest first.
SELECT r.item_id, r.body, r.revision, i.first_seen_at, r.last_fetched_at, r.changed_at
FROM stored_revisions AS r JOIN stored_items AS i ON i.source = r.source AND i.id = r.item_id
WHERE r.source = (SELECT number FROM sources WHERE name = %(source)s) AND r.item_id = %(id)s ORDER BY r.revision;

-- name: bodies
-- One page of raw bodies, in order: no more rows once there are this many bytes.
SELECT id, body FROM (
  SELECT id, body, sum(octet_length(body)) OVER (ORDER BY id) - octet_length(body) AS before FROM (
    SELECT id, body FROM stored_items
    WHERE source = (SELECT number FROM sources WHERE name = %(source)s)
    AND id BETWEEN %(first)s AND %(last)s ORDER BY id LIMIT %(limit)s
  ) AS page
) AS summed WHERE before < %(bytes)s ORDER BY id;

-- name: newest_items
-- The highest ids at or above one, highest first; a body above the size limit is left out.
SELECT id, CASE WHEN octet_length(body) <= %(body_max)s THEN body ELSE ''::bytea END, first_seen_at
FROM stored_items
WHERE source = (SELECT number FROM sources WHERE name = %(source)s) AND id >= %(first)s
ORDER BY id DESC LIMIT %(limit)s;

-- name: user
-- One profile.
SELECT body FROM users WHERE source = %(source)s AND name = %(name)s;

-- name: item_times
-- Creation times of the stored items that have one.
SELECT id, time FROM stored_items
WHERE source = (SELECT number FROM sources WHERE name = %(source)s)
AND id = ANY (%(ids)s::bigint[]) AND time IS NOT NULL;

-- ── segments and coverage ──────────────────────────────────────────────────────────────────────────────────────────

-- name: add_lock
-- A name that can be locked.
INSERT INTO locks (name) VALUES (%(name)s) ON CONFLICT (name) DO NOTHING;

-- name: lock
-- What follows in this transaction is done by one process at a time.
SELECT name FROM locks WHERE name = %(name)s FOR UPDATE;

-- name: add_segments
-- Pending segments.
INSERT INTO segments (source, kind, state, first_id, last_id, cursor, created_at, moved_at)
SELECT %(source)s, %(kind)s, 'pending', first_id, last_id, first_id - 1, %(created)s, %(created)s
FROM unnest(%(first_ids)s::bigint[], %(last_ids)s::bigint[]) AS n (first_id, last_id) ORDER BY first_id;

-- name: forget_segments
-- Finished segments: what they walked is covered. Another process may be deleting the same ones.
DELETE FROM segments WHERE segment_id IN (
  SELECT segment_id FROM segments WHERE source = %(source)s AND state = 'done'
  ORDER BY segment_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
);

-- name: reap_segments
-- Expired leases end, and those that end later than a new one would: the clock was set back. A separate statement:
-- "pending or expired" in the claim would be ten times slower.
UPDATE segments SET state = 'pending', owner = NULL
WHERE segment_id IN (
  SELECT segment_id FROM segments
  WHERE source = %(source)s AND state = 'claimed'
  AND (
    lease_until <= coalesce(%(now)s::bigint, (extract(epoch FROM statement_timestamp()) * 1000)::bigint)
    OR lease_until > coalesce(%(now)s::bigint, (extract(epoch FROM statement_timestamp()) * 1000)::bigint) + %(lease)s + %(slack)s
  )
  FOR UPDATE SKIP LOCKED
);

-- name: claim
-- One pending segment of a kind, newest ids first, for one owner; of a wide one only the highest ids.
WITH free AS (
  SELECT segment_id, last_id, created_at, greatest(cursor + 1, last_id - last_id %% %(size)s) AS top,
    last_id - cursor > %(size)s AS is_wide,
    coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
  FROM segments
  WHERE source = %(source)s AND kind = %(kind)s AND state = 'pending'
  ORDER BY first_id DESC LIMIT 1 FOR UPDATE SKIP LOCKED
), rest AS (
  UPDATE segments AS s SET last_id = free.top - 1 FROM free WHERE free.is_wide AND s.segment_id = free.segment_id
), cut AS (
  INSERT INTO segments (
    source, kind, state, owner, fence, first_id, last_id, cursor, lease_until, created_at, moved_at
  )
  SELECT %(source)s, %(kind)s, 'claimed', %(owner)s, 1, top, last_id, top - 1, now + %(lease)s, created_at, now
  FROM free WHERE is_wide
  RETURNING segment_id, first_id, last_id, cursor, fence
), whole AS (
  UPDATE segments AS s SET
    state = 'claimed', owner = %(owner)s, fence = s.fence + 1, lease_until = free.now + %(lease)s, moved_at = free.now
  FROM free WHERE NOT free.is_wide AND s.segment_id = free.segment_id
  RETURNING s.segment_id, s.first_id, s.last_id, s.cursor, s.fence
)
SELECT segment_id, first_id, last_id, cursor, fence FROM cut
UNION ALL SELECT segment_id, first_id, last_id, cursor, fence FROM whole;

-- name: pending_segment
-- Whether any segment of a kind is pending, including one that another process is claiming from.
SELECT 1 FROM segments WHERE source = %(source)s AND kind = %(kind)s AND state = 'pending' LIMIT 1;

-- name: advance
-- The cursor moves, the lease is extended and the ids are covered; the end of the range finishes the segment.
WITH moved AS (
  UPDATE segments SET
    cursor = greatest(cursor, %(cursor)s),
    lease_until = coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) + %(lease)s,
    moved_at = coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
    state = CASE WHEN greatest(cursor, %(cursor)s) >= last_id THEN 'done' ELSE state END
  WHERE segment_id = %(segment_id)s AND source = %(source)s AND state = 'claimed' AND fence = %(fence)s
  RETURNING source, first_id, cursor
), covered AS (
  INSERT INTO coverage (source, first_id, last_id)
  SELECT source, first_id, cursor FROM moved WHERE %(covers)s AND cursor >= first_id
  ON CONFLICT (source, first_id) DO UPDATE SET last_id = greatest(coverage.last_id, excluded.last_id)
)
SELECT cursor FROM moved;

-- name: release
-- The rest of the segment is released.
UPDATE segments SET state = 'pending', owner = NULL, lease_until = 0
WHERE segment_id = %(segment_id)s AND source = %(source)s AND state = 'claimed' AND fence = %(fence)s
RETURNING segment_id;

-- name: open_segments
-- Ids left to walk, by kind.
SELECT kind, sum(last_id - cursor)::bigint FROM segments
WHERE source = %(source)s AND state <> 'done' GROUP BY kind;

-- name: cover
-- A covered range: it extends the one before it, or is a new one.
WITH longer AS (
  UPDATE coverage SET last_id = greatest(last_id, %(last_id)s)
  WHERE source = %(source)s AND first_id = (
    SELECT first_id FROM coverage
    WHERE source = %(source)s AND first_id <= %(first_id)s ORDER BY first_id DESC LIMIT 1
  ) AND last_id >= %(first_id)s - 1
  RETURNING first_id
)
INSERT INTO coverage (source, first_id, last_id)
SELECT %(source)s, %(first_id)s, %(last_id)s WHERE NOT EXISTS (SELECT 1 FROM longer)
ON CONFLICT (source, first_id) DO UPDATE SET last_id = greatest(coverage.last_id, excluded.last_id);

-- name: retract_segments
-- Segments with nothing left to walk at or below an id.
DELETE FROM segments WHERE source = %(source)s AND last_id > %(above)s AND cursor >= %(above)s;

-- name: shorten_segments
-- The rest of them end at that id. A new fence: whoever walks one must not go beyond it.
UPDATE segments SET last_id = %(above)s, state = 'pending', owner = NULL, lease_until = 0, fence = fence + 1
WHERE source = %(source)s AND last_id > %(above)s;

-- name: retract_coverage
-- Covered ranges above an id.
DELETE FROM coverage WHERE source = %(source)s AND first_id > %(above)s;

-- name: shorten_coverage
-- The rest of them end at that id.
UPDATE coverage SET last_id = %(above)s WHERE source = %(source)s AND last_id > %(above)s;

-- name: retract_gaps
-- Unsettled gaps of items above an id.
DELETE FROM gaps WHERE source = %(source)s AND kind = 'item' AND state <> 'settled' AND CAST(key AS numeric) > %(above)s;

-- name: take_coverage
-- All ranges of a source, to be put back as fewer ones in the same transaction.
DELETE FROM coverage WHERE source = %(source)s RETURNING first_id, last_id;

-- name: put_coverage
-- The same ids in fewer ranges.
INSERT INTO coverage (source, first_id, last_id)
SELECT %(source)s, first_id, last_id FROM unnest(%(first_ids)s::bigint[], %(last_ids)s::bigint[]) AS n (first_id, last_id)
ON CONFLICT (source, first_id) DO UPDATE SET last_id = greatest(coverage.last_id, excluded.last_id);

-- ── gaps ───────────────────────────────────────────────────────────────────────────────────────────────────────────

-- name: reap_gaps
-- Expired leases end, and those that end later than a new one would.
UPDATE gaps SET state = 'owed', owner = NULL, lease_until = 0
WHERE (source, kind, key) IN (
  SELECT source, kind, key FROM gaps
  WHERE source = %(source)s AND state = 'leased'
  AND (
    lease_until <= coalesce(%(now)s::bigint, (extract(epoch FROM statement_timestamp()) * 1000)::bigint)
    OR lease_until > coalesce(%(now)s::bigint, (extract(epoch FROM statement_timestamp()) * 1000)::bigint) + %(lease)s + %(slack)s
  )
  FOR UPDATE SKIP LOCKED
);

-- name: lease_gaps
-- Due gaps for one owner; those that have waited longest since their last attempt come first. A time too far in the
-- future means that the clock was set back since.
WITH last_turn AS MATERIALIZED (
  SELECT coalesce(max(served_turn), 0) AS turn FROM gaps
  WHERE source = %(source)s AND state IN ('owed', 'leased', 'dead')
), due AS MATERIALIZED (
  SELECT source, kind, key, served_turn FROM gaps
  WHERE source = %(source)s AND state IN ('owed', 'dead')
  AND (
    not_before_at <= %(due)s OR not_before_at > %(due)s + %(not_before_max)s OR last_seen_at > %(due)s + %(slack)s
  )
  AND reason <> ALL (%(without)s::text[])
  ORDER BY served_turn, first_seen_at, kind, key LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), leased AS (
  UPDATE gaps SET
    state = 'leased', owner = %(owner)s, served_turn = last_turn.turn + 1,
    lease_until = coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) + %(lease)s
  FROM due, last_turn
  WHERE gaps.source = due.source AND gaps.kind = due.kind AND gaps.key = due.key
  RETURNING
    gaps.kind, gaps.key, gaps.state, reason, attempts, null_count, near_newest, not_before_at, first_seen_at, last_seen_at
)
SELECT leased.* FROM leased JOIN due ON due.kind = leased.kind AND due.key = leased.key
ORDER BY due.served_turn, leased.first_seen_at, leased.kind, leased.key;

-- name: release_gaps
-- What this owner still holds is owed again.
UPDATE gaps SET state = 'owed', owner = NULL, lease_until = 0
WHERE source = %(source)s AND state = 'leased' AND owner = %(owner)s;

-- ── inbox ──────────────────────────────────────────────────────────────────────────────────────────────────────────

-- name: announce
-- Add keys in this order; one that is already waiting gets a new ticket.
INSERT INTO inbox AS waiting (source, kind, key, announced_at)
SELECT %(source)s, kind, key, %(announced)s
FROM unnest(%(kinds)s::text[], %(keys)s::text[]) WITH ORDINALITY AS n (kind, key, place) ORDER BY place
ON CONFLICT (source, kind, key) DO UPDATE SET ticket = excluded.ticket, announced_at = excluded.announced_at;

-- ── pace, notes, heartbeats ────────────────────────────────────────────────────────────────────────────────────────

-- name: save_pace
-- Store the learned pace.
INSERT INTO pace AS kept (source, record) VALUES (%(source)s, %(record)s)
ON CONFLICT (source) DO UPDATE SET record = excluded.record, version = kept.version + 1;

-- ── listed sources ─────────────────────────────────────────────────────────────────────────────────────────────────

-- name: listed
-- What the list said last about some keys.
SELECT d.key, d.listed_mark, d.vanished_at IS NOT NULL, coalesce(g.state = 'gone', false)
FROM documents AS d LEFT JOIN gaps AS g ON g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint
WHERE d.source = %(source)s AND d.key = ANY (%(keys)s::text[]);

-- name: see_entries
-- A page shows these entries: none of them has vanished.
UPDATE documents SET seen_in_walk = %(walk)s, vanished_at = NULL
WHERE source = %(source)s AND key = ANY (%(keys)s::text[]) AND (seen_in_walk <> %(walk)s OR vanished_at IS NOT NULL);

-- name: see_existing
-- These entries exist although no page has shown them.
UPDATE documents SET seen_in_walk = %(walk)s
WHERE source = %(source)s AND key = ANY (%(keys)s::text[]);

-- name: mark_vanished
-- The list no longer shows these entries.
UPDATE documents SET vanished_at = %(now)s
WHERE source = %(source)s AND key = ANY (%(keys)s::text[]) AND vanished_at IS NULL;

-- name: ask_vanished
-- Gaps of documents that have vanished are due at once: the answer tells whether they are gone.
UPDATE gaps SET state = 'owed', not_before_at = %(now)s
WHERE source = %(source)s AND kind = 'document' AND state IN ('owed', 'dead') AND key IN (
  SELECT fingerprint FROM documents WHERE source = %(source)s AND key = ANY (%(keys)s::text[]) AND vanished_at IS NULL
);

-- name: tell_vanished
-- The change feed says which contents the list no longer shows; run before they are marked.
INSERT INTO changes (source, kind, key, change, changed_at)
SELECT source, 'document', key, 'vanished', %(now)s FROM documents
WHERE source = %(source)s AND key = ANY (%(keys)s::text[]) AND vanished_at IS NULL AND body IS NOT NULL ORDER BY key;

-- name: relist_gone
-- Documents that were gone are in the list again: their details are owed like those of any other entry.
UPDATE gaps SET state = 'settled', last_seen_at = %(now)s
WHERE source = %(source)s AND kind = 'document' AND state = 'gone' AND key = ANY (%(fingerprints)s::text[]);

-- name: list_entries
-- New or newer entries: their details are owed.
INSERT INTO documents (source, key, fingerprint, listed_mark, listed_rank, listed_at, owed, first_seen_at)
SELECT %(source)s, key, fingerprint, mark, rank, %(listed)s, true, %(listed)s
FROM unnest(
  %(keys)s::text[], %(fingerprints)s::text[], %(marks)s::text[], %(ranks)s::double precision[]
) AS n (key, fingerprint, mark, rank)
ON CONFLICT (source, key) DO UPDATE SET
  listed_mark = excluded.listed_mark, listed_rank = excluded.listed_rank, listed_at = excluded.listed_at, owed = true;

-- name: owed_details
-- Entries whose detail is owed and that have no gap of their own, newest mark first.
SELECT key, listed_mark FROM documents AS d WHERE source = %(source)s AND owed AND NOT EXISTS (
  SELECT 1 FROM gaps AS g
  WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state <> 'settled'
)
ORDER BY listed_rank DESC NULLS LAST, listed_mark DESC NULLS LAST, key LIMIT %(limit)s;

-- name: count_owed_details
-- How many details are owed that have no gap of their own.
SELECT count(*) FROM documents AS d WHERE source = %(source)s AND owed AND NOT EXISTS (
  SELECT 1 FROM gaps AS g
  WHERE g.source = d.source AND g.kind = 'document' AND g.key = d.fingerprint AND g.state <> 'settled'
);

-- name: document
-- One document of the mirror.
SELECT
  key, fingerprint, CASE WHEN body IS NULL THEN listed_mark ELSE updated_at END, body, fetched_at, revision,
  first_seen_at, changed_at, vanished_at, owed
FROM documents WHERE source = %(source)s AND key = %(key)s;

-- name: document_revisions
-- Earlier contents of a document, oldest first.
SELECT
  r.key, d.fingerprint, r.updated_at, r.body, r.fetched_at, r.revision, d.first_seen_at, r.changed_at, d.vanished_at,
  d.owed
FROM document_revisions AS r JOIN documents AS d ON d.source = r.source AND d.key = r.key
WHERE r.source = %(source)s AND r.key = %(key)s ORDER BY r.revision;

-- name: documents
-- One page of documents that have a body, by key: no more rows once there are this many bytes.
SELECT key, fingerprint, updated_at, body, fetched_at, revision, first_seen_at, changed_at, vanished_at, owed FROM (
  SELECT *, sum(octet_length(body)) OVER (ORDER BY key) - octet_length(body) AS before FROM (
    SELECT * FROM documents
    WHERE source = %(source)s AND (%(after)s::text IS NULL OR key > %(after)s) AND body IS NOT NULL
    ORDER BY key LIMIT %(limit)s
  ) AS page
) AS summed WHERE before < %(bytes)s ORDER BY key;

-- ── singletons ─────────────────────────────────────────────────────────────────────────────────────────────────────

-- name: lock_singleton
-- The session's own lock on a name; the server frees it when the session ends. Such locks are the same in all schemas of a
-- database, so the table is part of the name: each schema may hold a mirror of its own.
SELECT pg_try_advisory_lock(hashtextextended('remora:' || %(name)s, 'singletons'::regclass::oid::bigint));

-- name: take_singleton
-- A new holder with a higher fence, once the earlier one's lease has ended.
INSERT INTO singletons AS held (name, owner, fence, lease_until_ns)
VALUES (
  %(name)s, %(owner)s, 1, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + %(lease_ns)s::bigint
)
ON CONFLICT (name) DO UPDATE SET
  owner = excluded.owner, fence = held.fence + 1, lease_until_ns = excluded.lease_until_ns
WHERE held.lease_until_ns <= (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint
RETURNING fence;

-- name: beat_singleton
-- The holder is alive: its lease is extended, if nobody has taken over.
UPDATE singletons SET lease_until_ns = (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + %(lease_ns)s::bigint
WHERE name = %(name)s AND fence = %(fence)s
RETURNING fence;

-- name: release_singleton
-- The holder gives up: a successor need not wait for the lease to end.
UPDATE singletons SET lease_until_ns = 0 WHERE name = %(name)s AND fence = %(fence)s RETURNING fence;

-- name: unlock_singleton
-- Free the session's lock at once, before the server notices the end of the session.
SELECT pg_advisory_unlock(hashtextextended('remora:' || %(name)s, 'singletons'::regclass::oid::bigint));
