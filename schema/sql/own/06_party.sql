-- weft.party holds what proxies tell each other while they look for deadlocks. A crash may empty it.
CREATE UNLOGGED TABLE IF NOT EXISTS weft.party (
	proxy text PRIMARY KEY,
	parties text NOT NULL,
	seen timestamptz NOT NULL
);
REVOKE ALL ON weft.party FROM PUBLIC;
