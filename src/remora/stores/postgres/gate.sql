-- The queries of the shared gate on its one row per source. Only the database's clock counts.

-- name: first_gate
-- Whether this source never had a gate: then nothing can have been granted. Stored in a table that survives a crash.
INSERT INTO pace (source, version) VALUES (%(source)s, 0) ON CONFLICT (source) DO NOTHING RETURNING true;

-- name: add_gate
-- A gate that grants nothing before the end of everything that a lost row may have granted.
INSERT INTO gates (source, next_ns, pace_next_ns)
SELECT %(source)s, now_ns + %(first_in_ns)s, now_ns + %(first_in_ns)s
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint AS now_ns) AS clock
ON CONFLICT (source) DO NOTHING;

-- name: borrow
-- The next stretch of time behind all that was granted; nothing while a wait or a circuit breaker holds all, or too far ahead.
-- `next_ns` is the end of everything granted, `pace_next_ns` when the learned pace allows the next departure.
WITH held AS MATERIALIZED (
  SELECT next_ns, pace_next_ns, shut_until_ns, cool_down_ns FROM gates WHERE source = %(source)s FOR UPDATE
), clock AS MATERIALIZED (
  -- Read under the row's lock: grants are made in the order of the clock.
  SELECT held.*, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint AS now_ns FROM held
), known AS MATERIALIZED (
  SELECT
    now_ns, cool_down_ns,
    least(shut_until_ns, now_ns + %(shut_most_ns)s::bigint) AS shut_until_ns,
    -- Later than the reach is impossible, so the clock was set back. Set forward, all of it must pass first.
    CASE WHEN %(was_set_forward)s THEN now_ns + %(reach_ns)s::bigint
      ELSE least(next_ns, now_ns + %(reach_ns)s::bigint) END AS next_ns,
    clock.pace_next_ns, pace.record, coalesce(pace.version, 0) AS version,
    coalesce(pace.interval_ns, 0) AS paced_ns, coalesce(pace.not_before_ns, 0) AS not_before_ns,
    greatest(%(interval_ns)s::bigint, coalesce(pace.interval_ns, 0)) AS interval_ns
  FROM clock LEFT JOIN pace ON pace.source = %(source)s
), paced AS MATERIALIZED (
  -- A pace that rose brings the next departure closer.
  SELECT known.*, least(pace_next_ns, greatest(next_ns, now_ns) + interval_ns) AS paced_next_ns FROM known
), placed AS MATERIALIZED (
  SELECT
    paced.*,
    next_ns = %(mine_ns)s::bigint AND next_ns > now_ns AND paced_next_ns <= next_ns AND shut_until_ns = 0 AS continues,
    greatest(next_ns, paced_next_ns) AS behind_ns
  FROM paced
), fitting AS MATERIALIZED (
  SELECT
    placed.*,
    CASE WHEN continues THEN next_ns ELSE greatest(behind_ns, now_ns + %(lead_ns)s::bigint) END AS start_ns,
    behind_ns > now_ns + %(lead_ns)s::bigint AS binds,
    not_before_ns > now_ns OR behind_ns > now_ns + %(ahead_ns)s::bigint OR shut_until_ns > now_ns AS waits,
    CASE WHEN shut_until_ns > 0 THEN 1
      ELSE least(%(want)s::bigint, greatest(1, %(block_ns)s::bigint / interval_ns)) END AS fits
  FROM placed
), terms AS MATERIALIZED (
  SELECT
    fitting.*, NOT waits AND shut_until_ns > 0 AS is_probe,
    -- One departure at a slow pace is granted a little longer than the ceiling asks for: it may be late.
    start_ns + CASE WHEN fits * interval_ns <= %(block_ns)s::bigint THEN fits * interval_ns
      ELSE %(ceiling_interval_ns)s::bigint
        + least((interval_ns - %(ceiling_interval_ns)s::bigint) / 16, %(block_ns)s::bigint / 2) END
      + CASE WHEN continues THEN 0 ELSE %(spare_ns)s::bigint END AS end_ns
  FROM fitting
)
UPDATE gates SET
  next_ns = CASE WHEN waits THEN terms.next_ns ELSE end_ns END,
  pace_next_ns = CASE WHEN waits THEN terms.paced_next_ns ELSE start_ns + fits * interval_ns END,
  shut_until_ns = CASE WHEN is_probe THEN start_ns + %(probe_ns)s::bigint ELSE terms.shut_until_ns END
FROM terms WHERE gates.source = %(source)s
RETURNING
  CASE WHEN waits THEN 0 ELSE fits END, now_ns,
  CASE WHEN waits THEN greatest(not_before_ns, behind_ns - %(ahead_ns)s::bigint, terms.shut_until_ns) ELSE start_ns END,
  end_ns, interval_ns, binds OR continues, is_probe,
  CASE WHEN version > %(seen_version)s THEN record END, version, paced_ns, greatest(0, not_before_ns - now_ns),
  CASE WHEN is_probe THEN NULL WHEN terms.shut_until_ns > 0 THEN greatest(1, terms.shut_until_ns - now_ns) ELSE 0 END,
  terms.cool_down_ns;

-- name: return_probe
-- A probe that was not sent is free for any process at once.
UPDATE gates SET shut_until_ns = least(shut_until_ns, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint)
WHERE source = %(source)s AND shut_until_ns > 0;

-- name: shut
-- The circuit breaker of one process is open, for all; only the process with the probe may make the wait shorter.
UPDATE gates SET
  shut_until_ns = CASE
    WHEN %(was_prober)s THEN (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + %(for_ns)s::bigint
    ELSE greatest(shut_until_ns, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + %(for_ns)s::bigint)
  END,
  cool_down_ns = greatest(cool_down_ns, %(cool_down_ns)s::bigint)
WHERE source = %(source)s;

-- name: open_again
-- The probe was answered well.
UPDATE gates SET shut_until_ns = 0, cool_down_ns = 0 WHERE source = %(source)s;

-- name: look
-- What all processes know, and how long ago the last grant ended.
WITH clock AS MATERIALIZED (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint AS now_ns
)
SELECT
  pace.record, coalesce(pace.version, 0), coalesce(pace.interval_ns, 0),
  greatest(0, coalesce(pace.not_before_ns, 0) - now_ns), greatest(0, now_ns - gates.next_ns), now_ns
FROM clock
LEFT JOIN pace ON pace.source = %(source)s
LEFT JOIN gates ON gates.source = %(source)s;

-- name: share
-- What one process learned, for all; an outdated version can only make it slower. Taken if it is stored afterwards.
INSERT INTO pace AS kept (source, record, interval_ns, not_before_ns)
VALUES (
  %(source)s, %(record)s, %(interval_ns)s,
  CASE WHEN %(not_before_in_ns)s::bigint > 0
    THEN (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + %(not_before_in_ns)s::bigint ELSE 0 END
)
ON CONFLICT (source) DO UPDATE SET
  record = CASE
    WHEN coalesce(%(seen_version)s::bigint, kept.version) = kept.version THEN excluded.record ELSE kept.record END,
  interval_ns = CASE
    WHEN coalesce(%(seen_version)s::bigint, kept.version) = kept.version THEN excluded.interval_ns
    ELSE greatest(kept.interval_ns, excluded.interval_ns) END,
  not_before_ns = greatest(kept.not_before_ns, excluded.not_before_ns),
  version = kept.version + (coalesce(%(seen_version)s::bigint, kept.version) = kept.version)::int
RETURNING
  record, version, interval_ns,
  greatest(0, not_before_ns - (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint),
  record = %(record)s;

-- name: announce
-- Something changed that also ends what other processes hold.
SELECT pg_notify('remora_gate', %(news)s);

-- name: listen
-- Listen on this session to what other processes announce.
LISTEN remora_gate;
