-- Every earlier content belongs to something that the mirror holds. SQLite can declare a key only for a new table, so the
-- two tables of earlier contents are copied; they are small beside the items.

PRAGMA user_version = 3;

DROP VIEW revisions;

CREATE TABLE keyed_revisions (
  source INTEGER NOT NULL,
  item_id INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  last_fetched_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (source, item_id, revision),
  FOREIGN KEY (source, item_id) REFERENCES stored_items (source, id)
) STRICT;
INSERT INTO keyed_revisions (source, item_id, revision, last_fetched_at, changed_at, body)
SELECT source, item_id, revision, last_fetched_at, changed_at, body FROM stored_revisions ORDER BY rowid;
DROP TABLE stored_revisions;
ALTER TABLE keyed_revisions RENAME TO stored_revisions;

CREATE TABLE keyed_document_revisions (
  source TEXT NOT NULL,
  key TEXT NOT NULL,
  revision INTEGER NOT NULL,
  updated_at TEXT,
  fetched_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (source, key, revision),
  FOREIGN KEY (source, key) REFERENCES documents (source, key)
) STRICT;
INSERT INTO keyed_document_revisions (source, key, revision, updated_at, fetched_at, changed_at, body)
SELECT source, key, revision, updated_at, fetched_at, changed_at, body FROM document_revisions ORDER BY rowid;
DROP TABLE document_revisions;
ALTER TABLE keyed_document_revisions RENAME TO document_revisions;

CREATE VIEW revisions AS
SELECT s.name AS source, r.item_id, r.revision, r.last_fetched_at, r.changed_at, r.body
FROM stored_revisions AS r JOIN sources AS s ON s.number = r.source;

-- The estimates of a table go with it.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('stored_revisions', 'sqlite_autoindex_stored_revisions_1', '1000000 250000 2 1');
