package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/advise"
	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/recording"
)

// adviceTimeout bounds how long servers are asked.
const adviceTimeout = 2 * time.Minute

func readText(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return string(b), nil
}

// fromFile takes statements from a log or a file of SQL.
func (a *advising) fromFile(in *advise.Input) error {
	var key recording.Key
	_, _ = rand.Read(key[:]) // never fails: crypto/rand ends the process instead
	var t *advise.Traffic
	file := a.log
	if a.file != "" {
		file = a.file
		text, err := readText(file)
		if err != nil {
			return err
		}
		if t, err = advise.ReadSQL(text, key); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	} else {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		if t, err = advise.ReadLog(f, a.database, key); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if len(t.Statements) == 0 {
		return fmt.Errorf("%s has no statements: log them with log_min_duration_statement = 0, or log_statement = 'all'", file)
	}
	in.Statements, in.Transactions = t.Statements, t.Transactions
	return nil
}

// fromServer takes everything from a PostgreSQL that is not sharded.
func (a *advising) fromServer(ctx context.Context) (*advise.Input, error) {
	ctx, cancel := context.WithTimeout(ctx, adviceTimeout)
	defer cancel()
	conn, err := a.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	in := &advise.Input{Shards: a.shards}
	var stats map[catalog.Name]advise.TableStats
	if stats, err = describe(ctx, conn, in, 0); err != nil {
		return nil, err
	}
	in.Tables = stats
	if a.log != "" || a.file != "" {
		if a.database == "" {
			a.database = in.Database
		}
		return in, a.fromFile(in)
	}
	in.Statements, err = counted(ctx, conn)
	return in, err
}

// describe reads search path, schema and statistics.
func describe(ctx context.Context, conn *pgconn.PgConn, in *advise.Input, version int64) (map[catalog.Name]advise.TableStats, error) {
	run := func(sql string) ([][]string, error) { return query(ctx, conn, sql) }
	// Before Load, which sets a search_path of its own.
	rows, err := run("SELECT current_database(), s FROM unnest(current_schemas(true)) s")
	if err != nil {
		return nil, fmt.Errorf("read search_path: %w", err)
	}
	for _, r := range rows {
		in.Database = r[0]
		if !strings.HasPrefix(r[1], "pg_temp") {
			in.Path = append(in.Path, r[1])
		}
	}
	stats, err := statistics(ctx, conn)
	if err != nil {
		return nil, err
	}
	if in.Schema, err = catalog.Load(version, run); err != nil {
		return nil, fmt.Errorf("load the schema of %s: %w", in.Database, err)
	}
	return stats, nil
}

func statistics(ctx context.Context, conn *pgconn.PgConn) (map[catalog.Name]advise.TableStats, error) {
	tables, err := query(ctx, conn, advise.TableSQL)
	if err != nil {
		return nil, fmt.Errorf("read the sizes of tables: %w", err)
	}
	columns, err := query(ctx, conn, advise.ColumnSQL)
	if err != nil {
		return nil, fmt.Errorf("read pg_stats: %w", err)
	}
	return advise.ReadStats(tables, columns), nil
}

// errNoCounts says how to have statements counted.
var errNoCounts = errors.New(`the server does not count statements. To have them counted:
  add pg_stat_statements to shared_preload_libraries in postgresql.conf, and start the server again
  CREATE EXTENSION pg_stat_statements;
and let the application work for a while. Or give its log with --log`)

// counted reads pg_stat_statements.
func counted(ctx context.Context, conn *pgconn.PgConn) ([]advise.Statement, error) {
	at, err := query(ctx, conn, "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements'")
	if err != nil {
		return nil, fmt.Errorf("look for pg_stat_statements: %w", err)
	}
	if len(at) == 0 {
		return nil, errNoCounts
	}
	rows, err := query(ctx, conn, `SELECT queryid, min(query), sum(calls), sum(total_exec_time) FROM `+at[0][0]+`.pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND queryid IS NOT NULL GROUP BY queryid`)
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code == pgerr.ObjectNotInPrerequisiteState {
		return nil, errNoCounts // the extension is there, and not loaded
	}
	if err != nil {
		return nil, fmt.Errorf("read pg_stat_statements: %w", err)
	}
	return statementsOf(rows), nil
}

// statementsOf makes statements of rows with id, text, calls and milliseconds.
func statementsOf(rows [][]string) []advise.Statement {
	var out []advise.Statement
	for _, r := range rows {
		id, err := strconv.ParseInt(r[0], 10, 64)
		calls, also := strconv.ParseInt(r[2], 10, 64)
		ms, third := strconv.ParseFloat(r[3], 64)
		if errors.Join(err, also, third) == nil {
			out = append(out, advise.Statement{ID: id, Text: r[1], Calls: calls, Time: ms})
		}
	}
	return out
}

// fromCluster takes everything from a running cluster: declarations from the directory, the schema
// from the home shard, statistics from all shards, statements and a recording from a proxy.
func (a *advising) fromCluster(ctx context.Context, warnings io.Writer) (*advise.Input, error) {
	ctx, cancel := context.WithTimeout(ctx, adviceTimeout)
	defer cancel()
	store, err := a.src.open()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	snap, err := store.Load(ctx)
	if err != nil {
		return nil, err
	}
	proxies, err := store.Proxies(ctx)
	if err != nil {
		return nil, err
	}
	if len(proxies) == 0 {
		return nil, errors.New("no proxy is running, and proxies have the statements: start one with weft serve")
	}
	if a.role == "" {
		u, err := user.Current()
		if err != nil {
			return nil, &usageError{fmt.Errorf("who asks? give --user: %w", err)}
		}
		a.role = u.Username
	}
	if a.database == "" {
		a.database = a.role
	}
	in := &advise.Input{Shards: a.shards, Declared: snap.Declared(a.database)}
	if in.Shards == 0 {
		in.Shards = len(snap.Shards)
	}
	if in.Shards < 2 {
		return nil, &usageError{errors.New("the cluster has one shard: say with --shards how many there are to be")}
	}
	if err := a.askShards(ctx, snap, in); err != nil {
		return nil, err
	}
	return in, a.askProxy(ctx, proxies[0], in, warnings)
}

// askShards reads the schema from the home shard, and statistics from all.
func (a *advising) askShards(ctx context.Context, snap *directory.Snapshot, in *advise.Input) error {
	home := snap.HomeShard()
	conn, err := connectShard(ctx, home, a.database, a.role)
	if err != nil {
		return fmt.Errorf("connect to the home shard: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	stats, err := describe(ctx, conn, in, snap.Schemas[a.database])
	if err != nil {
		return err
	}
	shards := []map[catalog.Name]advise.TableStats{stats}
	for i := range snap.Shards {
		if sh := &snap.Shards[i]; sh.Name != home.Name && len(in.Declared) > 0 {
			part, err := statisticsOf(ctx, sh, a.database, a.role)
			if err != nil {
				return err
			}
			shards = append(shards, part)
		}
	}
	in.Tables = advise.MergeStats(shards, in.Declared)
	return nil
}

func statisticsOf(ctx context.Context, sh *directory.Shard, database, role string) (map[catalog.Name]advise.TableStats, error) {
	conn, err := connectShard(ctx, sh, database, role)
	if err != nil {
		return nil, fmt.Errorf("connect to shard %s: %w", sh.Name, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return statistics(ctx, conn)
}

// askProxy reads statements and the recording.
func (a *advising) askProxy(ctx context.Context, p directory.Proxy, in *advise.Input, warnings io.Writer) error {
	host, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		return fmt.Errorf("address of proxy %s: %w", p.ID, err)
	}
	var conn *pgconn.PgConn
	cfg, err := pgconn.ParseConfig(fmt.Sprintf("host=%s port=%s user=%s dbname=%s application_name='weft advise' client_encoding=UTF8",
		setting(host), setting(port), setting(a.role), setting(a.database)))
	if err == nil {
		cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
			fmt.Fprintf(warnings, "%s: %s\n", strings.ToLower(n.Severity), n.Message)
		}
		conn, err = pgconn.ConnectConfig(ctx, cfg)
	}
	if err != nil {
		return fmt.Errorf("connect to proxy %s: %w", p.ID, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := query(ctx, conn, "SELECT id, min(statement), sum(calls), sum(total_ms) FROM weft.statements WHERE database = current_database() AND id IS NOT NULL GROUP BY id")
	if err != nil {
		return fmt.Errorf("read weft.statements: %w", err)
	}
	in.Statements = statementsOf(rows)
	rows, err = query(ctx, conn, "SELECT * FROM weft.recorded()")
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code == pgerr.InsufficientPrivilege {
		fmt.Fprintf(warnings, "warning: the recording is left out: %s\n", e.Message)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the recording: %w", err)
	}
	for _, r := range rows {
		var t recording.Transaction
		if err := json.Unmarshal([]byte(r[1]), &t); err != nil {
			return fmt.Errorf("read the recording: %w", err)
		}
		in.Transactions = append(in.Transactions, t)
	}
	return nil
}
