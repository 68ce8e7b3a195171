-- The jobs that have carried rows of this database to other shards, and their last rounds. They are written on the home
-- shard, and what weft.moves and weft.move_rounds show is made of them. origin is where the job's buckets were before it:
-- lists of buckets by shard.
CREATE TABLE IF NOT EXISTS weft.move_job (
	id text PRIMARY KEY,
	kind text NOT NULL,
	username text,
	state text,
	reason text,
	origin jsonb NOT NULL,
	from_shards text[] NOT NULL,
	to_shards text[] NOT NULL,
	buckets bigint NOT NULL,
	buckets_done bigint NOT NULL DEFAULT 0,
	rows bigint NOT NULL DEFAULT 0,
	bytes bigint NOT NULL DEFAULT 0,
	rounds bigint NOT NULL DEFAULT 0,
	given_up bigint NOT NULL DEFAULT 0,
	pause_max_ms float8,
	proxy text,
	started timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
	ended timestamptz
);

CREATE TABLE IF NOT EXISTS weft.move_round (
	number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	job text NOT NULL,
	ended timestamptz NOT NULL,
	ways text NOT NULL,
	buckets bigint NOT NULL,
	outcome text NOT NULL,
	rows bigint NOT NULL,
	bytes bigint NOT NULL,
	write_pause_ms float8 NOT NULL,
	read_pause_ms float8 NOT NULL
);

CREATE OR REPLACE VIEW weft.moves AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('moves'))
	AS r (job text, database text, kind text, state text, reason text, from_shards text[], to_shards text[], buckets_done bigint,
		buckets bigint, rows bigint, bytes bigint, rate float8, eta timestamptz, pause_p50_ms float8, pause_p99_ms float8,
		pause_max_ms float8, read_pause_p99_ms float8, rounds bigint, given_up bigint, blocked_by text, username text, proxy text,
		started timestamptz, ended timestamptz);

CREATE OR REPLACE VIEW weft.move_rounds AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('move_rounds'))
	AS r (round bigint, job text, database text, ended timestamptz, ways text, buckets bigint, outcome text, rows bigint,
		bytes bigint, write_pause_ms float8, read_pause_ms float8);

CREATE OR REPLACE VIEW weft.buckets AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('buckets'))
	AS r (bucket bigint, shard text, rows bigint, bytes bigint, moving_to text);

GRANT SELECT ON weft.moves, weft.move_rounds, weft.buckets TO PUBLIC;
