package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"weft/pgserver"
)

// eventsTable is what the insert workload fills: an id that counts up, and another column as shard key.
const eventsTable = "CREATE TABLE bench_events (id bigserial PRIMARY KEY, aid bigint NOT NULL, delta int NOT NULL, mtime timestamptz NOT NULL DEFAULT now())"

// fill makes pgbench's tables and brings them into the servers' caches: on one server, and if anybody asks for it a
// second time over all shards.
func (l *lab) fill(ctx context.Context) error {
	if l.opts.needsScatters() {
		if err := l.fillScatters(ctx); err != nil {
			return err
		}
	}
	if !l.opts.needsTables() {
		return nil
	}
	l.progress("filling pgbench tables at scale %d", l.opts.Scale)
	if err := l.initPgbench(ctx, l.server); err != nil {
		return err
	}
	if err := execute(ctx, l.server, eventsTable); err != nil {
		return err
	}
	if l.opts.needsShards() {
		if err := l.distribute(ctx); err != nil {
			return err
		}
	}
	return l.each(ctx, "SELECT sum(abalance) FROM pgbench_accounts", "CHECKPOINT")
}

// distribute fills the tables of the sharded database and declares them, through weft, as an owner of a grown
// application would.
func (l *lab) distribute(ctx context.Context) error {
	if err := l.initPgbench(ctx, l.admin); err != nil {
		return err
	}
	l.progress("distributing them over %d shards", l.opts.Shards)
	if err := execute(ctx, l.admin, eventsTable,
		"SELECT weft.shard_table('pgbench_accounts', 'aid', online => false)",
		"SELECT weft.shard_table('bench_events', 'aid')"); err != nil {
		return err
	}
	// Every row must be somewhere, once, or what is measured is not what it is called.
	total := 0
	for _, s := range l.shards {
		rows, err := queryRows(ctx, s, "SELECT count(*) FROM pgbench_accounts")
		if err != nil {
			return fmt.Errorf("%s: %w", s.Title, err)
		}
		n, err := strconv.Atoi(string(rows[0][0]))
		if err != nil {
			return fmt.Errorf("%s: %w", s.Title, err)
		}
		if n == 0 {
			return fmt.Errorf("%s has no rows", s.Title)
		}
		total += n
	}
	if want := l.opts.Scale * 100_000; total != want {
		return fmt.Errorf("the shards have %d rows of pgbench_accounts, want %d", total, want)
	}
	return l.each(ctx, "VACUUM ANALYZE pgbench_accounts")
}

// tidy makes the tables of a workload what they were before the last cell.
func (l *lab) tidy(ctx context.Context, w workload) error {
	if !w.Sharded {
		return execute(ctx, l.server, w.Tidy...)
	}
	return l.each(ctx, w.Tidy...)
}

// each runs statements in the unsharded database and, where there is one, in the sharded one's part on every shard.
func (l *lab) each(ctx context.Context, statements ...string) error {
	servers := []target{l.server}
	if l.opts.needsShards() {
		servers = append(servers, l.shards...)
	}
	return onEach(ctx, servers, statements...)
}

func onEach(ctx context.Context, servers []target, statements ...string) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range servers {
		g.Go(func() error { return execute(ctx, s, statements...) })
	}
	return g.Wait()
}

func (o options) needsTables() bool {
	return slices.ContainsFunc(workloadNames(), o.has)
}

// needsShards says whether a workload on sharded tables will run through weft.
func (o options) needsShards() bool {
	return o.wants(targetWeft) && slices.ContainsFunc(workloads, func(w workload) bool { return w.Sharded && o.has(w.Name) })
}

// freePorts finds n ports in a row that nobody listens on, and returns the first.
func freePorts(n int) (int, error) {
	for range 100 {
		base, err := pgserver.FreePort()
		if err != nil {
			return 0, err
		}
		if allFree(base+1, n-1) {
			return base, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row", n)
}

func allFree(port, n int) bool {
	for i := range n {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+i)))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
