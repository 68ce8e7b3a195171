package parser

import "strings"

// Effect is a set of things a statement does to the session it runs in, or wants to know about it.
type Effect uint64

// The effects.
const (
	// TxBegin: BEGIN, START TRANSACTION; with TxEnd also COMMIT or ROLLBACK AND CHAIN.
	TxBegin Effect = 1 << iota
	// TxEnd: COMMIT, END, ROLLBACK, ABORT, PREPARE TRANSACTION.
	TxEnd
	// Savepoint: SAVEPOINT, RELEASE, ROLLBACK TO.
	Savepoint
	// TwoPhase: PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.
	TwoPhase
	// ChangesSettings: SET, RESET, set_config, LOCAL ones too; Settings has the names.
	ChangesSettings
	// ChangesAllSettings: any setting may have changed: RESET ALL, set_config with a computed name, UPDATE pg_settings.
	ChangesAllSettings
	// Temp: makes something that lives as long as the session: a temporary table, view, sequence, function or type (also by
	// naming pg_temp, or by putting it first in search_path), a temporary replication slot, a replication origin, an online
	// backup, a dblink connection.
	Temp
	// AdvisoryLock: takes or releases a session-level advisory lock. Those of the transaction are not meant.
	AdvisoryLock
	// HoldCursor: DECLARE … WITH HOLD.
	HoldCursor
	// Load: LOAD.
	Load
	// Seed: setseed, SET seed.
	Seed
	// Listens, Unlistens, Notifies: LISTEN, UNLISTEN, NOTIFY and pg_notify; Channels has the names.
	Listens
	Unlistens
	Notifies
	// Prepares, Executes, Deallocates: the SQL statements PREPARE, EXECUTE (also under EXPLAIN and CREATE TABLE AS) and
	// DEALLOCATE; Prepared has the names.
	Prepares
	Executes
	Deallocates
	// DiscardAll, DiscardTemp, DiscardPlans, DiscardSequences: DISCARD.
	DiscardAll
	DiscardTemp
	DiscardPlans
	DiscardSequences
	// DDL: changes the catalogs, and so may make cached plans and types stale: every CREATE, ALTER and DROP except of the
	// kinds Reconfigures names; GRANT, REVOKE, COMMENT, SECURITY LABEL, IMPORT FOREIGN SCHEMA, REASSIGN OWNED; SELECT INTO and
	// CREATE TABLE AS. Not: TRUNCATE, VACUUM, ANALYZE, CLUSTER, REINDEX, REFRESH.
	DDL
	// CreatesDatabase: CREATE DATABASE, ALTER DATABASE … RENAME.
	CreatesDatabase
	// DropsDatabase: DROP DATABASE, ALTER DATABASE … RENAME and SET TABLESPACE: what needs the database to be unused.
	DropsDatabase
	// Reconfigures: changes what sessions start with: ALTER ROLE, ALTER DATABASE … SET and its options, ALTER SYSTEM.
	Reconfigures
	// ReadsSequence: currval, lastval, which read what this session's nextval left behind.
	ReadsSequence
	// AdvancesSequence: nextval, setval. (Defaults and identity columns do so unseen.)
	AdvancesSequence
	// SessionID: names or reads process ids of sessions: pg_backend_pid, pg_cancel_backend, pg_terminate_backend,
	// pg_blocking_pids, pg_stat_get_activity, pg_lock_status, pg_stat_activity, pg_locks.
	SessionID
	// ReadsPrepared: pg_prepared_statements.
	ReadsPrepared
	// ReadsListening: pg_listening_channels.
	ReadsListening
	// Opaque: may do anything: DO, CALL, functions that run SQL given as text, and what could not be parsed.
	Opaque
	// CopyIn, CopyOut: COPY FROM STDIN, COPY TO STDOUT.
	CopyIn
	CopyOut
	// Writes: INSERT, UPDATE, DELETE, MERGE (also in WITH), TRUNCATE, COPY FROM, REFRESH, SELECT INTO, CREATE TABLE AS.
	// SELECT FOR UPDATE does not count.
	Writes
	// NonTransactional: refused in a transaction block: VACUUM, CONCURRENTLY, databases and tablespaces, ALTER SYSTEM, ….
	NonTransactional
	// Cursors: DECLARE.
	Cursors
	// ReadsSetting: SHOW of a custom parameter, current_setting of any.
	ReadsSetting
	// ListsObjects: reads a catalog that HideEdits knows.
	ListsObjects
	// ImportsSnapshot: SET TRANSACTION SNAPSHOT.
	ImportsSnapshot
	// ExportsSnapshot: pg_export_snapshot.
	ExportsSnapshot
	// Constraints: SET CONSTRAINTS.
	Constraints
	// Roles: creates, alters, renames or drops a role, or makes it a member of another.
	Roles
)

var effectNames = []string{
	"tx-begin", "tx-end", "savepoint", "two-phase", "changes-settings", "changes-all-settings", "temp", "advisory-lock",
	"hold-cursor", "load", "seed", "listens", "unlistens", "notifies", "prepares", "executes", "deallocates", "discard-all",
	"discard-temp", "discard-plans", "discard-sequences", "ddl", "creates-database", "drops-database", "reconfigures",
	"reads-sequence", "advances-sequence", "session-id", "reads-prepared", "reads-listening", "opaque", "copy-in", "copy-out",
	"writes", "non-transactional", "cursors", "reads-setting", "lists-objects",
	"imports-snapshot", "exports-snapshot", "constraints", "roles",
}

// Has reports whether e has any of the effects in x.
func (e Effect) Has(x Effect) bool { return e&x != 0 }

// String lists the names of the effects.
func (e Effect) String() string {
	var names []string
	for i, name := range effectNames {
		if e&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}
