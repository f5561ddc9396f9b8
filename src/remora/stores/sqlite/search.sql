-- The search index in a separate SQLite file beside the mirror.
-- `words` keeps no text. An entry whose words changed gets a new number; what is indexed under the old number is
-- never found, because the join needs a row in `entries`. So the old text need not be known to remove it.

-- name: create_index
-- A new, empty index. The version is that of the words, too: `remora.core.words` folds letters and makes pairs.
CREATE TABLE entries (
  entry INTEGER PRIMARY KEY AUTOINCREMENT,
  source TEXT NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  type TEXT,
  author TEXT,
  domain TEXT,
  time INTEGER,
  score INTEGER,
  words_hash BLOB NOT NULL,
  UNIQUE (source, kind, key)
) STRICT;
CREATE INDEX entries_by_author ON entries (author, time) WHERE author IS NOT NULL;
CREATE INDEX entries_by_domain ON entries (domain, time) WHERE domain IS NOT NULL;
CREATE INDEX entries_by_time ON entries (time);
CREATE TABLE progress (value TEXT NOT NULL) STRICT;
CREATE VIRTUAL TABLE words USING fts5(title, text, content='', tokenize="ascii");
PRAGMA user_version = 2;

-- name: drop_index
-- Forget everything.
DROP TABLE IF EXISTS words;
DROP TABLE IF EXISTS entries;
DROP TABLE IF EXISTS progress;
PRAGMA user_version = 0;

-- name: index_progress
-- How far the index has come.
SELECT value FROM progress;

-- name: forget_progress
-- Before the new one is kept.
DELETE FROM progress;

-- name: keep_progress
-- Store how far the index has come.
INSERT INTO progress (value) VALUES (:value);

-- name: held_entry
-- What the index knows about one thing.
SELECT entry, words_hash FROM entries WHERE source = :source AND kind = :kind AND key = :key;

-- name: change_entry
-- The words are the same.
UPDATE entries SET type = :type, author = :author, domain = :domain, time = :time, score = :score WHERE entry = :entry;

-- name: remove_entry
-- The words changed: the entry gets a new number.
DELETE FROM entries WHERE entry = :entry;

-- name: add_entry
-- A new entry.
INSERT INTO entries (source, kind, key, type, author, domain, time, score, words_hash)
VALUES (:source, :kind, :key, :type, :author, :domain, :time, :score, :words_hash);

-- name: add_words
-- Its words.
INSERT INTO words (rowid, title, text) VALUES (:entry, :title, :text);

-- name: find_words
-- Entries with these words, the best of the newest that match: to compare millions takes seconds. A word in the title counts more.
SELECT m.source, m.kind, m.key FROM (
  SELECT e.source, e.kind, e.key, e.entry, e.time, e.score,
    CASE :order WHEN 'relevance' THEN bm25(words, 4.0, 1.0) END AS rank
  FROM words CROSS JOIN entries AS e ON e.entry = words.rowid
  WHERE words MATCH :match
  AND (:source IS NULL OR e.source = :source) AND (:by IS NULL OR e.author = :by) AND (:type IS NULL OR e.type = :type)
  AND (:domain IS NULL OR e.domain = :domain) AND (:since IS NULL OR e.time >= :since)
  AND (:until IS NULL OR e.time < :until) AND (:score IS NULL OR e.score > :score)
  ORDER BY words.rowid DESC LIMIT :compared
) AS m
ORDER BY CASE :order WHEN 'time' THEN -m.time WHEN 'score' THEN -m.score ELSE m.rank END NULLS LAST, m.entry DESC
LIMIT :limit;

-- name: has_few
-- Whether an author or a domain has so few entries that each of them can be looked up in the words.
SELECT (SELECT count(*) FROM (SELECT 1 FROM entries WHERE author = :by LIMIT :few)) BETWEEN 1 AND :few - 1
OR (SELECT count(*) FROM (SELECT 1 FROM entries WHERE domain = :domain LIMIT :few)) BETWEEN 1 AND :few - 1;

-- name: find_words_of_few
-- Entries with these words of an author or a domain with few entries: to go through a common word would take longer.
SELECT e.source, e.kind, e.key FROM entries AS e CROSS JOIN words ON words.rowid = e.entry
WHERE e.entry IN (SELECT entry FROM entries WHERE author = :by UNION SELECT entry FROM entries WHERE domain = :domain)
AND words MATCH :match
  AND (:source IS NULL OR e.source = :source) AND (:by IS NULL OR e.author = :by) AND (:type IS NULL OR e.type = :type)
  AND (:domain IS NULL OR e.domain = :domain) AND (:since IS NULL OR e.time >= :since)
  AND (:until IS NULL OR e.time < :until) AND (:score IS NULL OR e.score > :score)
ORDER BY CASE :order WHEN 'time' THEN -e.time WHEN 'score' THEN -e.score ELSE bm25(words, 4.0, 1.0) END NULLS LAST,
  e.entry DESC
LIMIT :limit;

-- name: find_author
-- Entries by one author, without words.
SELECT m.source, m.kind, m.key FROM (
  SELECT e.* FROM entries AS e
  WHERE e.author = :by
  AND (:source IS NULL OR e.source = :source) AND (:type IS NULL OR e.type = :type)
  AND (:domain IS NULL OR e.domain = :domain) AND (:since IS NULL OR e.time >= :since)
  AND (:until IS NULL OR e.time < :until) AND (:score IS NULL OR e.score > :score)
  ORDER BY e.time DESC LIMIT :compared
) AS m
ORDER BY CASE :order WHEN 'score' THEN -m.score ELSE -m.time END NULLS LAST, m.entry DESC LIMIT :limit;

-- name: find_domain
-- Entries of one domain, without words.
SELECT m.source, m.kind, m.key FROM (
  SELECT e.* FROM entries AS e
  WHERE e.domain = :domain
  AND (:source IS NULL OR e.source = :source) AND (:type IS NULL OR e.type = :type)
  AND (:since IS NULL OR e.time >= :since) AND (:until IS NULL OR e.time < :until) AND (:score IS NULL OR e.score > :score)
  ORDER BY e.time DESC LIMIT :compared
) AS m
ORDER BY CASE :order WHEN 'score' THEN -m.score ELSE -m.time END NULLS LAST, m.entry DESC LIMIT :limit;

-- name: find_newest
-- Entries by time, without words, author and domain; then those without a time, which no date excludes.
SELECT m.source, m.kind, m.key FROM (
  SELECT * FROM (
    SELECT e.* FROM entries AS e
    WHERE e.time >= coalesce(:since, -9223372036854775808) AND e.time < coalesce(:until, 9223372036854775807)
    AND (:source IS NULL OR e.source = :source) AND (:type IS NULL OR e.type = :type) AND (:score IS NULL OR e.score > :score)
    ORDER BY e.time DESC LIMIT :compared
  )
  UNION ALL
  SELECT * FROM (
    SELECT e.* FROM entries AS e
    WHERE e.time IS NULL AND :since IS NULL AND :until IS NULL
    AND (:source IS NULL OR e.source = :source) AND (:type IS NULL OR e.type = :type) AND (:score IS NULL OR e.score > :score)
    ORDER BY e.entry DESC LIMIT :compared
  )
) AS m
ORDER BY CASE :order WHEN 'score' THEN -m.score ELSE -m.time END NULLS LAST, m.entry DESC LIMIT :limit;

-- name: entry_columns
-- What filters ask for, of some entries.
SELECT e.type, e.author, e.domain, e.time, e.score FROM json_each(:keys) AS k CROSS JOIN entries AS e
ON e.source = json_extract(k.value, '$[0]') AND e.kind = json_extract(k.value, '$[1]')
AND e.key = json_extract(k.value, '$[2]');

-- name: index_size
-- How many entries there are.
SELECT count(*) FROM entries;
