package main

import "slices"

// workload is one pgbench script. The statements are those an application sends; the random numbers are made by
// pgbench, so that every mode and target gets the same mix.
type workload struct {
	Name   string
	Title  string
	Script string
	// Tidy runs before each cell, so that late cells do not pay for the dead rows of early ones.
	Tidy []string
}

var workloads = []workload{
	{
		Name:  "select",
		Title: "point select",
		Script: `\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
`,
	},
	{
		Name:  "readwrite",
		Title: "read-write transaction (BEGIN, UPDATE, SELECT, INSERT, END)",
		Script: `\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
`,
		Tidy: []string{"TRUNCATE pgbench_history", "VACUUM pgbench_accounts", "CHECKPOINT"},
	},
}

func workloadNames() []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.Name)
	}
	return slices.Clip(names)
}
