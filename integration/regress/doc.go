// Package regress runs PostgreSQL's own regression scripts through weft and
// through a direct connection and compares what psql prints.
//
//	script ──▶ psql ──▶ PostgreSQL            ──▶ output ┐
//	     └───▶ psql ──▶ weft ──▶ home shard   ──▶ output ┴─▶ must be equal
//
// The life of a run:
//
//  1. fetch.sh puts the scripts of the server's version into a cache, once.
//     They are PostgreSQL's and never part of this repository.
//  2. stage copies what servers read themselves to where they can read it.
//  3. Scripts run in the order of their schedule, one at a time: they build on
//     one another.
//  4. The outputs are compared. What differs because connections are shared,
//     and cannot but differ, is listed in accepted.
//
// Direct's output is the reference, not the expected files of the scripts:
// they are about PostgreSQL, this is about weft.
//
// It takes minutes and needs the network, so it has a build tag: make regress.
// Start reading at TestScripts.
package regress
