-- Statements that take dumps into PostgreSQL.

-- name: begin_import
-- A new file; nothing happens if its content is known.
INSERT INTO imports (source, file, fingerprint, rows_read, items, started_at, moved_at)
VALUES (%(source)s, %(file)s, %(fingerprint)s, 0, 0, %(now)s, %(now)s)
ON CONFLICT (source, fingerprint) DO NOTHING;

-- name: add_second_hand
-- Items that are not held yet; other processes may be adding the same ones.
INSERT INTO stored_items (
  source, id, type, "by", time, parent, score, descendants, dead, deleted,
  first_seen_at, last_fetched_at, changed_at, revision, hash, content_hash, body
)
SELECT * FROM unnest(
  %(c0)b::bigint[], %(c1)b::bigint[], %(c2)s::text[], %(c3)s::text[], %(c4)b::bigint[], %(c5)b::bigint[],
  %(c6)b::bigint[], %(c7)b::bigint[], %(c8)b::boolean[], %(c9)b::boolean[], %(c10)b::bigint[], %(c11)b::bigint[],
  %(c12)b::bigint[], %(c13)b::bigint[], %(c14)b::bytea[], %(c15)b::bytea[], %(c16)b::bytea[]
)
ON CONFLICT (source, id) DO NOTHING RETURNING id;

-- name: held_runs
-- Unbroken runs of ids that are held between two ids.
SELECT min(id), max(id) FROM (
  SELECT id, id - row_number() OVER (ORDER BY id) AS run FROM stored_items
  WHERE source = (SELECT number FROM sources WHERE name = %(source)s) AND id BETWEEN %(first)s AND %(last)s
) AS held GROUP BY run ORDER BY 1;
