// Package pgserver makes and runs real PostgreSQL servers: the shards of
// weft dev, and the servers that tests and benchmarks talk to.
//
//	weft dev ─┐
//	tests  ───┼─▶ pgserver ──fork──▶ initdb, postgres ──▶ DIR
//	bench  ───┘
//
// The life of a server:
//
//  1. Find looks for an installation: a given directory, PATH, then the places
//     where distributions put it.
//  2. Init makes a data directory with initdb, all of it or nothing: a process
//     killed in the middle leaves a directory that the next Init removes.
//  3. Start first ends whatever an earlier life left running in the data
//     directory, then runs postgres as a direct child and waits until it
//     accepts connections.
//  4. Stop, or Kill for tests of crashes. Done closes when the process is gone,
//     whoever ended it.
//
// A server may have standbys. BaseBackup copies a running primary, Standby starts the
// copy, SetSynchronous makes commits wait for standbys, Promote makes a primary of
// one, Follow shows another the new primary, and Rewind makes a standby of the old
// primary. Control tells which of several directories was the last primary.
//
// PostgreSQL refuses to run as root. When the caller is root, everything runs
// as Config.RunAs, by default the user postgres, or nobody where there is none.
// Servers sit in process groups of their own, so a terminal's Ctrl-C reaches
// only the caller, and on Linux they get SIGINT when the caller is killed.
//
// Each running Server owns one goroutine, which ends when the process does.
// Temp and the package pgtest are short cuts for tests: a throw-away server on
// a free port, copied from a template so that initdb runs once per machine.
// Start reading at Config.
package pgserver
