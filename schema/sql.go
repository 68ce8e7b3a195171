package schema

import "embed"

// What weft installs on shards is written in the files of directory sql, which psql can load too:
//
//	own/00_own.sql … own/15_fence.sql     schema weft: decisions, the gate, views, notifications, the fence (own.go)
//	prove.sql                             the check of weft's calls (proof.go)
//	guard.sql                             the guard of shard keys (guard.go)
//	lookup_notes.sql, lookup_index.sql,
//	lookup_make.sql, lookup_follow.sql    lookup tables (lookup_install.go)

//go:embed sql
var sqlFiles embed.FS

// sqlFile returns the text of a file of directory sql.
func sqlFile(name string) string {
	text, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // the name is a constant: the first test that runs finds a wrong one
	}
	return string(text)
}
