-- A function that catches errors starts a subtransaction, which PostgreSQL refuses in a parallel query. Marked as safe,
-- these two made every query that reads titles or domains of a large mirror fail as soon as it was planned in parallel.

ALTER FUNCTION readable_body(bytea) PARALLEL UNSAFE;
ALTER FUNCTION url_domain(bytea) PARALLEL UNSAFE;
