// Command drivers runs real drivers, ORMs and PostgreSQL's own programs against
// weft and against one plain PostgreSQL, and says where they notice a difference.
//
//	go run ./integration/drivers                        everything, installing what is missing
//	go run ./integration/drivers --only go,psql         the suites of two languages
//	go run ./integration/drivers --only python/django   one suite
//	make drivers ARGS='--only node'                     the same through make
//	make examples                                       the applications of the folder examples, in the same way
//
//	drivers ──▶ world: plain PostgreSQL          weft ──▶ shard-0 … shard-3, etcd
//	   │                      ▲                   ▲       (in this process)
//	   └── suite, twice ──────┴───────────────────┘
//
// Clients prove a password with SCRAM and must use TLS, on both targets alike. The
// life of a suite:
//
//  1. Its language's install.sh runs, once per run.
//  2. A database of its own is made on each target.
//  3. Its command runs in its folder, against PostgreSQL, which proves the suite, and against
//     weft at the same time (one after the other with -v). It prints a line per check: ok NAME, not ok NAME: WHY, or skip NAME: WHY.
//     After ok NAME: an answer may stand, which must be the same on both targets.
//  4. The runner compares the two lists and prints one line.
//
// What a suite finds in its environment is in environ (suite.go). DECLARE and RESTART are commands
// that call this program again: declare.go and restart.go.
//
// A new suite is a line in suites.go. A new language is a folder with an install.sh that does
// nothing when everything is there and that builds nothing into the tree, but into $BUILD.
package main
