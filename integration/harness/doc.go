// Package harness starts what an integration test talks to: one plain
// PostgreSQL that says what is right, and a weft cluster that must say the same.
//
//	test ──▶ Postgres(t) ──▶ one PostgreSQL
//	    └──▶ Weft(t) ──▶ weft in this process ──▶ shard-0 (home), shard-1
//	                        └──▶ etcd in this process
//
// The life of the servers:
//
//  1. A test binary's TestMain calls Main.
//  2. The first test that asks for a target starts it; later ones share it.
//  3. Target.Reset empties the database app before a test that needs it so.
//  4. When the last test is done, however it went, Main stops everything.
//     Should the process be killed, the servers end with it (see pgserver).
//
// Both targets have the same settings, the same roles (see roles) and the same
// databases, so any difference in an answer is weft's. A failing test prints
// what the servers logged meanwhile. Start reading at Target.
package harness
