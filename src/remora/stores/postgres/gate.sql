-- What the shared gate asks of its one row per source. The database's clock is the only one.

-- name: plan
-- The next departures of a source, right behind the last plan; none while the provider's not-before or the plan is far off.
-- While a circuit is open there is one departure at its end, in a turn (late_ns), which is then waited for.
WITH held AS MATERIALIZED (
  SELECT next_ns, shut_until_ns, cool_down_ns FROM gates WHERE source = %(source)s FOR UPDATE
), clock AS MATERIALIZED (
  SELECT held.*, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint AS now_ns FROM held
), known AS MATERIALIZED (
  SELECT
    clock.next_ns, clock.now_ns, clock.cool_down_ns,
    least(clock.shut_until_ns, clock.now_ns + %(shut_most_ns)s::bigint) AS shut_until_ns,
    pace.record, coalesce(pace.version, 0) AS version,
    coalesce(pace.interval_ns, 0) AS paced_ns, coalesce(pace.not_before_ns, 0) AS not_before_ns,
    greatest(%(interval_ns)s::bigint, coalesce(pace.interval_ns, 0)) AS interval_ns
  FROM clock LEFT JOIN pace ON pace.source = %(source)s
), placed AS MATERIALIZED (
  SELECT
    known.*, greatest(now_ns, least(next_ns, now_ns + %(horizon_ns)s + 2 * interval_ns)) AS start_ns,
    shut_until_ns > 0 AND (shut_until_ns > now_ns OR %(late_ns)s::bigint IS NULL) AS is_shut
  FROM known
), fitting AS MATERIALIZED (
  SELECT placed.*, CASE
    WHEN not_before_ns > now_ns OR start_ns > now_ns + %(ahead_ns)s OR is_shut THEN 0
    ELSE least(%(want)s::bigint, greatest(1, %(window_ns)s / interval_ns))
  END AS granted
  FROM placed
), terms AS MATERIALIZED (
  SELECT
    fitting.*, granted > 0 AND shut_until_ns > 0 AS is_probe,
    CASE
      WHEN granted = 0 THEN least(next_ns, start_ns)
      ELSE start_ns + coalesce(%(late_ns)s::bigint + interval_ns, granted * interval_ns)
    END AS planned_ns
  FROM fitting
)
UPDATE gates SET
  next_ns = planned_ns,
  shut_until_ns = CASE WHEN is_probe THEN start_ns + %(probe_ns)s ELSE terms.shut_until_ns END
FROM terms WHERE gates.source = %(source)s
RETURNING
  granted::int, now_ns,
  CASE WHEN granted > 0 THEN start_ns
    ELSE greatest(not_before_ns, start_ns - %(ahead_ns)s / 2, terms.shut_until_ns) END,
  start_ns + coalesce(%(late_ns)s::bigint, least(granted * interval_ns, %(open_ns)s)),
  planned_ns, interval_ns, record, version, paced_ns, not_before_ns,
  is_probe, CASE WHEN is_probe THEN NULL WHEN terms.shut_until_ns > 0 THEN greatest(1, terms.shut_until_ns - now_ns) ELSE 0 END,
  terms.cool_down_ns;

-- name: shut
-- The circuit of one process is open, for all; only the prober's word makes the wait shorter.
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

-- name: give_back
-- A turn's plan becomes what really happened, unless somebody has planned on top of it. A probe that did not leave is
-- anybody's.
UPDATE gates SET
  next_ns = coalesce(
    (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint - %(left_ago_ns)s::bigint + %(interval_ns)s::bigint,
    %(planned_ns)s::bigint - %(interval_ns)s::bigint - %(late_ns)s::bigint
  ),
  shut_until_ns = CASE
    WHEN %(unused_probe)s THEN (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint ELSE shut_until_ns END
WHERE source = %(source)s AND next_ns = %(planned_ns)s;

-- name: look
-- What all processes know, and how long ago the last plan ended.
WITH clock AS MATERIALIZED (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint AS now_ns
)
SELECT
  pace.record, coalesce(pace.version, 0), coalesce(pace.interval_ns, 0),
  greatest(0, coalesce(pace.not_before_ns, 0) - now_ns), greatest(0, now_ns - gates.next_ns), now_ns
FROM clock
LEFT JOIN pace ON pace.source = %(source)s
LEFT JOIN gates ON gates.source = %(source)s;

-- name: hurry
-- A faster pace: what was planned at a slower one comes earlier, but stays behind everything that may still leave.
UPDATE gates SET next_ns = (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + %(lead_ns)s::bigint
WHERE source = %(source)s
  AND next_ns > (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + %(lead_ns)s::bigint;

-- name: share
-- What one process learned, for all; an outdated version only ever makes it slower. Taken when it stands afterwards.
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
