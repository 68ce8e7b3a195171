package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"weft/catalog"
	"weft/config"
	"weft/directory"
	"weft/planner"
)

// planning is one run of the command.
type planning struct {
	src                    source
	work                   workload
	schema, database, role string
	path, params           []string
	asJSON                 bool
}

func planCommand() *cobra.Command {
	var p planning
	cmd := &cobra.Command{
		Use:   "plan [SQL]",
		Short: "Show where a statement goes and why, or how many of an application's go where",
		Long: `Print the plan of a statement: its route, the shards it visits and what led
there. The statement is not run. A statement that names a table that is not there is
an error.

From a running cluster the declarations come from the directory and the schema
from the home shard, as the user whose statement it is; its password is taken
from PGPASSWORD or ~/.pgpass, as psql does. Offline, both come from files: what
pg_dump --schema-only wrote, and a cluster.yaml with shards and tables.

Parameters are given in the order of $1, $2, … as text; the word NULL is NULL.

Many statements at once, none of which is run:
  --file FILE   SQL, one statement after the other
  --log FILE    PostgreSQL's log of statements (jsonlog or csvlog)
  --from URL    pg_stat_statements of a PostgreSQL from version 13 on, which is only read; without
                --schema and --config its schema is taken, too

Each statement gets a line: whether it runs on one shard, visits several or is
refused. Statements that differ in literals only are one. The summary counts
statements, calls and, where known, time. A parameter without a value is a
value that is not known: rows that it alone is the key of are on one shard. Statements that
do not parse are listed. The exit status is 1 if a statement of a file names a table
that is not there.

weft advise finds the keys to declare, from the same statements; weft check --schema
says what the tables lack.`,
		Example: `  weft plan -c weft.yaml --database app "SELECT * FROM orders WHERE customer_id = 42"
  weft plan -c weft.yaml --database app --param 42 "DELETE FROM orders WHERE customer_id = $1"
  weft plan --schema dump.sql --cluster cluster.yaml "SELECT count(*) FROM orders"
  weft plan --schema dump.sql --cluster cluster.yaml --file statements.sql
  weft plan --cluster cluster.yaml --from postgres://postgres@db.example/app
  weft plan -c weft.yaml --database app --log postgresql.json --json`,
		RunE: p.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	p.src.flags(cmd)
	f.Lookup("cluster").Usage = "name of the cluster, beside --etcd (default " + config.Default().Cluster + "); cluster.yaml, beside --schema and --from"
	f.StringVar(&p.database, "database", "", "database the statement is for (default: the user's name; offline the only one there is)")
	f.StringVarP(&p.role, "user", "U", "", "user whose statement it is (default: yours)")
	f.StringVar(&p.schema, "schema", "", "file with the schema, instead of a running cluster")
	f.StringSliceVar(&p.path, "search-path", nil, "schemas to look for names in (default: the user's; offline public)")
	f.StringArrayVar(&p.params, "param", nil, "value of the next parameter; repeat it for each")
	p.work.flags(f, "file")
	f.BoolVar(&p.asJSON, "json", false, "print JSON, of many statements")
	return cmd
}

// explainer is all that a plan depends on.
type explainer struct {
	snap *directory.Snapshot
	env  *planner.Env
}

func newExplainer(snap *directory.Snapshot, schema *catalog.Schema, database string, path []string) *explainer {
	return &explainer{snap: snap, env: &planner.Env{
		Database: database, Path: path, Schema: schema, Tables: planner.NewTables(snap, database), Home: snap.Home,
		SharedRoles: len(snap.Tables) > 0,
	}}
}

// offline takes cluster and schema from files.
func offline(schemaFile string, src source, database string, warn io.Writer) (*explainer, error) {
	switch {
	case src.config != "" || len(src.etcd) > 0:
		return nil, &usageError{errors.New("--schema is for planning without a cluster: leave out --config and --etcd")}
	case src.cluster == "":
		return nil, &usageError{errors.New("which cluster? give --cluster cluster.yaml beside --schema")}
	}
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	schema, err := catalog.FromDump(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", schemaFile, err)
	}
	return declared(schema, src.cluster, database, warn)
}

// declared declares the tables of a cluster.yaml in thought. What would keep a table from being
// declared is an error, or told to warn if that is not nil.
func declared(schema *catalog.Schema, file, database string, warn io.Writer) (*explainer, error) {
	want, err := config.LoadCluster(file)
	if err != nil {
		return nil, err
	}
	snap, err := want.Merge(nil, false)
	if err != nil {
		return nil, err
	}
	if err := declare(snap, want); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if database, err = onlyDatabase(snap, database); err != nil {
		return nil, err
	}
	if err := complete(snap, schema, database); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := admissible(snap, schema, database); err != nil {
		if warn == nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		fmt.Fprintf(warn, "warning: %s: %s\n", file, oneLine(err))
	}
	return newExplainer(snap, schema, database, []string{"pg_catalog", "public"}), nil
}

// admissible says what would keep a proxy from declaring the tables of a file, as far
// as the schema tells: all of it, table by table.
func admissible(snap *directory.Snapshot, schema *catalog.Schema, database string) error {
	var all []error
	for _, t := range snap.Tables {
		if t.Database != database {
			continue
		}
		for _, e := range planner.Obstacles(schema, snap, t) {
			err := fmt.Errorf("table %s.%s cannot be declared: %s", t.Schema, t.Name, e.Message)
			if e.Hint != "" {
				err = fmt.Errorf("%w (%s)", err, e.Hint)
			}
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// declare does what weft apply asks a proxy to do: it puts the tables of a file
// into the snapshot.
func declare(snap *directory.Snapshot, c config.Cluster) error {
	for _, t := range c.Tables {
		n, err := t.Resolve()
		if err != nil {
			return err
		}
		d := directory.Table{Database: n.Database, Schema: n.Schema, Name: n.Table, Kind: directory.Reference}
		if !t.Reference {
			d.Kind = directory.Sharded
			d.Vindex = directory.Vindex{Name: t.Name, Kind: t.Vindex, Params: t.Params}
			if d.Vindex.Kind == "" {
				d.Vindex.Kind = "hash"
			}
			for _, c := range t.Columns {
				d.Columns = append(d.Columns, directory.Column{Name: c})
			}
		}
		snap.PutTable(d)
	}
	return nil
}

// onlyDatabase returns the database that is named, else the only one that
// tables are declared in.
func onlyDatabase(snap *directory.Snapshot, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	for _, t := range snap.Tables {
		if named != "" && named != t.Database {
			return "", &usageError{fmt.Errorf("tables of several databases are declared: give --database %s or another", named)}
		}
		named = t.Database
	}
	return named, nil
}

// complete looks up what a file does not say of key columns: their types.
func complete(snap *directory.Snapshot, schema *catalog.Schema, database string) error {
	for i := range snap.Tables {
		t := &snap.Tables[i]
		if t.Database != database {
			continue
		}
		rel := schema.Relation(catalog.Name{Schema: t.Schema, Name: t.Name})
		if rel == nil {
			return fmt.Errorf("table %s.%s is declared, and the schema has none of that name", t.Schema, t.Name)
		}
		for j := range t.Columns {
			c := &t.Columns[j]
			if c.Type != 0 {
				continue
			}
			col := rel.Column(c.Name)
			if col == nil {
				return fmt.Errorf("table %s.%s is declared by column %q, and has none of that name", t.Schema, t.Name, c.Name)
			}
			c.Type, c.TypeName, c.Mod = col.Base, col.TypeName, col.Mod
		}
	}
	return nil
}

// online takes the cluster from the directory and the schema from its home
// shard.
func online(ctx context.Context, src source, database, role string) (*explainer, error) {
	store, err := src.open()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	snap, err := asServed(ctx, store)
	if err != nil {
		return nil, err
	}
	if role == "" {
		u, err := user.Current()
		if err != nil {
			return nil, &usageError{fmt.Errorf("who asks? give --user: %w", err)}
		}
		role = u.Username
	}
	if database == "" {
		database = role
	}
	conn, err := connectHome(ctx, snap, database, role)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	run := func(sql string) ([][]string, error) { return query(ctx, conn, sql) }
	// Before Load, which sets a search_path of its own.
	rows, err := run("SELECT unnest(current_schemas(true))")
	if err != nil {
		return nil, fmt.Errorf("read search_path: %w", err)
	}
	var path []string
	for _, r := range rows {
		if !strings.HasPrefix(r[0], "pg_temp") {
			path = append(path, r[0])
		}
	}
	rows, err = run(planner.RoleSQL)
	if err != nil {
		return nil, fmt.Errorf("read the rights of %s: %w", role, err)
	}
	who := planner.NewRole(rows)
	schema, err := catalog.Load(snap.Schemas[database], run)
	if err != nil {
		return nil, fmt.Errorf("load the schema of %s: %w", database, err)
	}
	e := newExplainer(snap, schema, database, path)
	if planner.Guarded(schema) {
		e.env.Role = who
	}
	return e, nil
}

// asServed returns the cluster as a proxy has it: with the entries of lookups, which tell
// where pinned values are, and which only a watch brings.
func asServed(ctx context.Context, store directory.Store) (*directory.Snapshot, error) {
	watch, stop := context.WithCancel(ctx)
	defer stop()
	var snap *directory.Snapshot
	err := store.Watch(watch, func(s *directory.Snapshot) {
		if snap == nil {
			snap = s
		}
		stop()
	})
	if snap != nil {
		return snap, nil
	}
	return nil, err
}

func connectHome(ctx context.Context, snap *directory.Snapshot, database, role string) (*pgconn.PgConn, error) {
	conn, err := connectShard(ctx, snap.HomeShard(), database, role)
	if err != nil {
		return nil, fmt.Errorf("connect to the home shard: %w", err)
	}
	return conn, nil
}

// connectShard logs in to a shard as a user, past all proxies.
func connectShard(ctx context.Context, shard *directory.Shard, database, role string) (*pgconn.PgConn, error) {
	var hosts, ports []string
	for _, h := range shard.Hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			return nil, fmt.Errorf("shard %s: %w", shard.Name, err)
		}
		hosts, ports = append(hosts, host), append(ports, port)
	}
	settings := map[string]string{
		"host": strings.Join(hosts, ","), "port": strings.Join(ports, ","), "user": role, "dbname": database,
		"application_name": "weft", "client_encoding": "UTF8",
	}
	if len(hosts) > 1 {
		settings["target_session_attrs"] = "read-write"
	}
	for k, v := range shard.Options {
		settings[k] = v
	}
	var b strings.Builder
	for k, v := range settings {
		fmt.Fprintf(&b, "%s=%s ", k, setting(v))
	}
	return pgconn.Connect(ctx, b.String())
}

// setting quotes a value of a connection string.
func setting(v string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'"
}

// query runs a text and returns the rows of all its statements; NULL is "".
func query(ctx context.Context, conn *pgconn.PgConn, sql string) ([][]string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, result := range results {
		for _, r := range result.Rows {
			row := make([]string, len(r))
			for i, v := range r {
				row[i] = string(v)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}
