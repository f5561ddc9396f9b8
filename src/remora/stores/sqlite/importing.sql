-- Statements that take dumps into the SQLite file.

-- name: begin_import
-- A new file; nothing happens if its content is known.
INSERT INTO imports (source, file, fingerprint, rows_read, items, started_at, moved_at)
VALUES (:source, :file, :fingerprint, 0, 0, :now, :now)
ON CONFLICT (source, fingerprint) DO NOTHING;

-- name: ids_held
-- Those of some ids that the mirror holds.
SELECT id FROM stored_items WHERE source = :number AND id IN (SELECT value FROM json_each(:ids));

-- name: held_runs
-- Unbroken runs of ids that are held between two ids.
SELECT min(id), max(id) FROM (
  SELECT id, id - row_number() OVER (ORDER BY id) AS run FROM stored_items
  WHERE source = (SELECT number FROM sources WHERE name = :source) AND id BETWEEN :first AND :last
) GROUP BY run ORDER BY 1;

-- name: drop_author_index
-- A dump may be in random order: building it anew at the end is faster.
DROP INDEX IF EXISTS items_by_author;

-- name: drop_domain_index
-- The same for domains.
DROP INDEX IF EXISTS items_by_domain;
