-- Schema weft and weft.own: how many of the numbered files of this directory the database has seen, and the key
-- that proves weft's calls and decisions. This file runs before the missing ones whenever some are missing.
CREATE SCHEMA IF NOT EXISTS weft;
GRANT USAGE ON SCHEMA weft TO PUBLIC;
CREATE TABLE IF NOT EXISTS weft.own (single boolean PRIMARY KEY DEFAULT true CHECK (single), version int NOT NULL, key text NOT NULL);
REVOKE ALL ON weft.own FROM PUBLIC;
INSERT INTO weft.own (version, key)
	VALUES (0, pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text) ON CONFLICT DO NOTHING;
