// Package plpgsql runs programs of PL/pgSQL over sharded tables on weft with four shards, and on one unsharded PostgreSQL beside it.
//
//	DO, CALL, SELECT f(…) ──┬──▶ PostgreSQL ──▶ rows, tags, notices, errors ──┐
//	                        └──▶ weft ────────▶ rows, tags, notices, errors ──┴─▶ equal, and then every table
//
// Start reading at TestDo.
package plpgsql
