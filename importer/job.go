package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"weft/quote"
)

// State is how far an import is.
type State string

// The states, in their order.
const (
	Preparing State = "preparing"
	Copying   State = "copying"
	Following State = "following"
	CutOver   State = "cutover"
	Finishing State = "finishing"
	Done      State = "done"
)

// jobTables are what an import keeps about itself, beside home tables: all of it goes with abort.
//
// hold_at is where whoever compares the two sides wants the process that follows to stop, until hold_until; held_at is
// that it has.
const jobTables = `
CREATE SCHEMA weft_import;
CREATE TABLE weft_import.job (
	one boolean PRIMARY KEY DEFAULT true CHECK (one),
	state text NOT NULL, source text NOT NULL, slot text NOT NULL, excluded text NOT NULL,
	run text NOT NULL, started timestamptz NOT NULL DEFAULT now(),
	at pg_lsn NOT NULL DEFAULT '0/0', part bigint NOT NULL DEFAULT -1,
	committed timestamptz, applied timestamptz, changes bigint NOT NULL DEFAULT 0,
	hold_at pg_lsn, hold_until timestamptz, held_at pg_lsn);
CREATE TABLE weft_import.tables (schema text, name text, at pg_lsn, rows bigint, PRIMARY KEY (schema, name));`

// Job is an import as the target knows it.
type Job struct {
	State    State
	Source   string
	Slot     string
	Excluded []string
	Run      string
	Started  time.Time
	Position Position
	// Committed is when the source had committed what was applied last, Applied when that was.
	Committed, Applied *time.Time
	Changes            int64
	Tables             []Copied
}

// Copied is a table of an import.
type Copied struct {
	Schema, Name string
	At           LSN // that its copy is as of; 0: it has not been copied
	Rows         int64
}

// target is the database in weft.
type target struct {
	cfg  *pgx.ConnConfig
	conn *pgx.Conn
	run  string // of this process
}

func openTarget(ctx context.Context, cfg *pgx.ConnConfig) (*target, error) {
	conn, err := dial(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to weft: %w", err)
	}
	var n int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM weft.shards").Scan(&n); err != nil {
		closeConn(conn)
		return nil, fmt.Errorf("--into must be a database of a weft proxy: %w", err)
	}
	return &target{cfg: cfg, conn: conn, run: random(8)}, nil
}

func (t *target) close() { closeConn(t.conn) }

// silence makes triggers and foreign keys of a connection's writes silent: the source has run them.
func silence(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, "SET session_replication_role = replica")
	return err
}

// prospect reads what Judge has to know of the target.
func (t *target) prospect(ctx context.Context, tables []Table) (*Prospect, error) {
	p := &Prospect{}
	err := t.conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_encoding_to_char(d.encoding)::text, d.datcollate::text, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
		FROM pg_database d WHERE d.datname = current_database()`).Scan(&p.Version, &p.Encoding, &p.Collate, &p.Superuser)
	if err != nil {
		return nil, err
	}
	if p.Tables, err = readTables(ctx, t.conn); err != nil {
		return nil, err
	}
	if p.Declared, err = t.declared(ctx); err != nil {
		return nil, err
	}
	if p.Extensions, err = readList(ctx, t.conn, "SELECT name::text FROM pg_available_extensions"); err != nil {
		return nil, err
	}
	if p.Roles, err = readList(ctx, t.conn, "SELECT rolname::text FROM pg_roles"); err != nil {
		return nil, err
	}
	if p.Collations, err = readList(ctx, t.conn, "SELECT collname::text FROM pg_collation WHERE collnamespace = 'pg_catalog'::regnamespace"); err != nil {
		return nil, err
	}
	for i := range tables {
		if there := find(p.Tables, tables[i].Schema, tables[i].Name); there != nil {
			var rows bool
			if err := t.conn.QueryRow(ctx, "SELECT count(*) > 0 FROM (SELECT FROM "+there.sql()+" LIMIT 1) one").Scan(&rows); err != nil {
				return nil, err
			}
			if rows {
				p.Occupied = append(p.Occupied, there.name())
			}
		}
	}
	return p, nil
}

// declared returns how weft holds the tables of the database.
func (t *target) declared(ctx context.Context) (map[string]Declared, error) {
	rows, err := t.conn.Query(ctx, "SELECT schema, name, kind, columns, state FROM weft.tables WHERE database = $1", t.conn.Config().Database)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]Declared{}
	for rows.Next() {
		var table Table
		var kind, state string
		var d Declared
		if err := rows.Scan(&table.Schema, &table.Name, &kind, &d.Columns, &state); err != nil {
			return nil, err
		}
		d.Reference, d.Active = kind == "reference", state == "active"
		out[table.name()] = d
	}
	return out, rows.Err()
}

// job returns the import of the database, or nil.
func (t *target) job(ctx context.Context) (*Job, error) {
	j := &Job{}
	var at, excluded string
	err := t.conn.QueryRow(ctx, `SELECT state, source, slot, excluded, run, started, at::text, part, committed, applied, changes FROM weft_import.job`).
		Scan((*string)(&j.State), &j.Source, &j.Slot, &excluded, &j.Run, &j.Started, &at, &j.Position.Part, &j.Committed, &j.Applied, &j.Changes)
	if code(err) == "42P01" || code(err) == "3F000" || errors.Is(err, pgx.ErrNoRows) { // no such table, no such schema
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(excluded), &j.Excluded); err != nil {
		return nil, err
	}
	if j.Position.At, err = pglogrepl.ParseLSN(at); err != nil {
		return nil, err
	}
	rows, err := t.conn.Query(ctx, "SELECT schema, name, coalesce(at, '0/0')::text, coalesce(rows, 0) FROM weft_import.tables ORDER BY schema, name")
	if err != nil {
		return nil, err
	}
	j.Tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Copied, err error) {
		if err := row.Scan(&c.Schema, &c.Name, &at, &c.Rows); err != nil {
			return c, err
		}
		c.At, err = pglogrepl.ParseLSN(at)
		return c, err
	})
	return j, err
}

// copied returns a table of the import, or nil.
func (j *Job) copied(schema, name string) *Copied {
	i := slices.IndexFunc(j.Tables, func(c Copied) bool { return c.Schema == schema && c.Name == name })
	if i < 0 {
		return nil
	}
	return &j.Tables[i]
}

// take makes this process the one that writes. It waits for a batch that another one is about to commit.
func (t *target) take(ctx context.Context) error {
	_, err := t.conn.Exec(ctx, "UPDATE weft_import.job SET run = $1, held_at = NULL", t.run)
	return err
}

// errTaken is that another process imports now.
var errTaken = errors.New("another process has taken the import over")

// enter writes the state, if this process still is the one that writes.
func (t *target) enter(ctx context.Context, state State) error {
	tag, err := t.conn.Exec(ctx, "UPDATE weft_import.job SET state = $1 WHERE run = $2", string(state), t.run)
	if err == nil && tag.RowsAffected() != 1 {
		err = errTaken
	}
	return err
}

// describe names a database for people, without its password.
func describe(cfg *pgx.ConnConfig) string {
	return fmt.Sprintf("%s@%s:%d/%s", cfg.User, cfg.Host, cfg.Port, cfg.Database)
}

// begin makes the tables of the import and the schema, in one transaction.
func (t *target) begin(ctx context.Context, s *source, tables []Table, excluded, statements []string) error {
	list, err := json.Marshal(excluded)
	if err != nil {
		return err
	}
	// A session of its own: the statements of a dump change settings.
	c, err := dial(ctx, t.cfg)
	if err != nil {
		return err
	}
	defer closeConn(c)
	run := func(sql string) error {
		_, err := c.PgConn().Exec(ctx, sql).ReadAll()
		return err
	}
	if err := run("BEGIN"); err != nil {
		return err
	}
	if err := run(jobTables); err != nil {
		return fmt.Errorf("make schema weft_import: %w", err)
	}
	for _, sql := range statements {
		if err := run(sql); err != nil {
			return &StatementError{sql, err}
		}
	}
	for i := range tables {
		if err := run("INSERT INTO weft_import.tables (schema, name) VALUES (" + quote.Literal(tables[i].Schema) + ", " + quote.Literal(tables[i].Name) + ")"); err != nil {
			return err
		}
	}
	err = run("INSERT INTO weft_import.job (state, source, slot, excluded, run) VALUES (" + quote.Literal(string(Preparing)) + ", " + quote.Literal(describe(s.cfg)) + ", " +
		quote.Literal(s.slot) + ", " + quote.Literal(string(list)) + ", " + quote.Literal(t.run) + ")")
	if err != nil {
		return err
	}
	return run("COMMIT")
}

// StatementError is a statement of the source's schema that weft has refused.
type StatementError struct {
	SQL string
	Err error
}

func (e *StatementError) Error() string {
	return fmt.Sprintf("weft refuses a statement of the source's schema: %v\n%s\nNothing was made. Make the schema by hand, without it, and give --no-schema.", e.Err, e.SQL)
}

func (e *StatementError) Unwrap() error { return e.Err }
