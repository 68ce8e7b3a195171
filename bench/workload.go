package main

import (
	"fmt"
	"slices"
)

// workload is one pgbench script. The statements are those an application sends; the random numbers are made by
// pgbench, so that every mode and target gets the same mix.
type workload struct {
	Name   string
	Title  string
	Script string
	// Sharded: weft answers it from sharded tables, every transaction from one shard, but for transfer. The others have the same rows in one
	// database.
	Sharded bool
	// Goals are the least tps(weft) ÷ tps(PgBouncer) by mode, at goalClients.
	Goals map[string]float64
	// Commit is the command whose latency is of interest, Commands how many there are. Both are set where the commit
	// is what is measured.
	Commit   string
	Commands int
	// MostCPU is how many µs of the proxy's CPU a transaction may cost, where that is known.
	MostCPU float64
	// Tidy runs before each cell, so that late cells do not pay for the dead rows of early ones.
	Tidy []string
}

// Goals of the sharded workloads. SPQR, a router in Go as well, had 8,700, 9,300 and 14,800 point selects per second
// at 16 clients on two cores like these, where PgBouncer had 27,500, 24,000 and 27,900; weft is to have 1.7 times as
// many.
const (
	goalCPU     = 2.4 // most CPU per transaction, in PgBouncers
	goalClients = 16
)

var workloads = []workload{
	{
		Name:    "select",
		Title:   "point select, sharded",
		Sharded: true,
		Goals:   map[string]float64{"simple": 0.54, "extended": 0.66, modePrepared: 0.90},
		Script: `\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
`,
	},
	{
		Name:    "update",
		Title:   "update of one row, sharded",
		Sharded: true,
		Script: `\set aid random(1, 100000 * :scale)
\set delta random(-5000, 5000)
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
`,
		Tidy: []string{"VACUUM pgbench_accounts", "CHECKPOINT"},
	},
	{
		Name:    "readwrite",
		Title:   "read-write transaction (BEGIN, UPDATE, SELECT, END of one key), sharded",
		Sharded: true,
		Script: `\set aid random(1, 100000 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
END;
`,
		Tidy: []string{"VACUUM pgbench_accounts", "CHECKPOINT"},
	},
	{
		// Three in four transactions write on two of weft's four shards and are committed in two phases: six round trips
		// to shards (two updates, the decision, PREPARE, COMMIT, COMMIT PREPARED) where one server takes four. The others,
		// which write on one server, have no atomicity to pay for. On two cores like these, at 16 clients, SPQR with
		// two-phase commit had 1,160 transactions per second at 516 µs of its CPU, Citus 840 at 880 µs; weft is to have
		// 1.7 times as many at half the CPU. The keys are in order, so that nobody waits in a circle.
		Name:     "transfer",
		Title:    "transfer between two keys (BEGIN, UPDATE, UPDATE, END), sharded, atomic",
		Sharded:  true,
		Commit:   "END;",
		Commands: 4,
		MostCPU:  258,
		Script: `\set a random(1, 50000 * :scale)
\set b random(50000 * :scale + 1, 100000 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance - :delta WHERE aid = :a;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :b;
END;
`,
		Tidy: []string{"VACUUM pgbench_accounts", "CHECKPOINT"},
	},
	{
		Name:    "insert",
		Title:   "insert of one row with a generated id, sharded by another column",
		Sharded: true,
		Script: `\set aid random(1, 100000 * :scale)
\set delta random(-5000, 5000)
INSERT INTO bench_events (aid, delta) VALUES (:aid, :delta);
`,
		Tidy: []string{"TRUNCATE bench_events", "CHECKPOINT"},
	},
	{
		Name:  "home-select",
		Title: "point select, no sharded tables in the database",
		Script: `\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
`,
	},
	{
		Name:  "home-readwrite",
		Title: "read-write transaction (BEGIN, UPDATE, SELECT, INSERT, END), no sharded tables in the database",
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

// wantCPU is how much CPU a transaction may cost, as it is printed.
func (w workload) wantCPU() string {
	if w.MostCPU > 0 {
		return none // a note has the reason
	}
	return fmt.Sprintf("≤ %.2f", goalCPU)
}

// wantTPS is the goal of a cell as it is printed.
func (w workload) wantTPS(mode string, clients int) string {
	if g, ok := w.Goals[mode]; ok && clients == goalClients {
		return fmt.Sprintf("≥ %.2f", g)
	}
	return none
}
