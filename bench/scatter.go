package main

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// scatter is one statement that visits every shard. weft is compared with one server that has all rows: PgBouncer in
// front of it would change nothing but a few microseconds of milliseconds.
type scatter struct {
	Name  string
	Title string
	SQL   string
	// WantCPU is the most the statement may cost the proxy, WantMiB the most its memory may grow; 0: no goal.
	WantCPU time.Duration
	WantMiB int64
}

// goalScatterCPU is for an aggregate over four shards: the proxy adds four rows, however many the shards read.
const goalScatterCPU = 200 * time.Microsecond

var scatters = []scatter{
	{ // first, while the proxy's heap is small: growth would hide in one that has been large
		Name: "merge", Title: "all rows, ORDER BY", WantMiB: 64,
		SQL: "SELECT id, owner, amount, note FROM bench_facts ORDER BY id",
	},
	{
		Name: "scatter-few", Title: "count, sum, avg of 1,000 rows by index", WantCPU: goalScatterCPU,
		SQL: "SELECT count(*), sum(grade), avg(grade) FROM bench_owners WHERE owner < 1000",
	},
	{
		Name: "scatter-all", Title: "count, sum, avg of all rows", WantCPU: goalScatterCPU,
		SQL: "SELECT count(*), sum(amount), avg(amount) FROM bench_facts",
	},
	{
		Name: "top-100", Title: "ORDER BY … LIMIT 100",
		SQL: "SELECT id, owner, amount, note FROM bench_facts ORDER BY amount DESC, id LIMIT 100",
	},
	{
		Name: "group-10", Title: "GROUP BY, 10 groups",
		SQL: "SELECT region, count(*), sum(amount), avg(amount) FROM bench_facts GROUP BY region ORDER BY region",
	},
	{
		Name: "group-100k", Title: "GROUP BY, 100,000 groups",
		SQL: "SELECT owner, count(*), sum(amount) FROM bench_facts GROUP BY owner",
	},
	{
		Name: "join-near", Title: "join of colocated tables, grouped",
		SQL: "SELECT f.region, count(*), sum(p.price) FROM bench_facts f JOIN bench_parts p ON p.fact = f.id GROUP BY f.region ORDER BY f.region",
	},
	{
		Name: "join-far", Title: "join of tables that are not, an eighth of the rows",
		SQL: "SELECT o.grade, count(*), sum(f.amount) FROM bench_facts f JOIN bench_owners o ON o.owner = f.owner " +
			"WHERE f.made < '2024-02-15' GROUP BY o.grade ORDER BY o.grade",
	},
}

func scatterNames() []string {
	var names []string
	for _, s := range scatters {
		names = append(names, s.Name)
	}
	return names
}

func (o options) needsScatters() bool { return slices.ContainsFunc(scatterNames(), o.has) }

// scatterTables have 100,000 facts per unit of scale, and 100,000 owners. What looks random is the same everywhere.
func scatterTables(scale int) []string {
	return []string{
		"CREATE TABLE bench_owners (owner bigint PRIMARY KEY, grade int NOT NULL, name text NOT NULL)",
		"CREATE TABLE bench_facts (id bigint PRIMARY KEY, owner bigint NOT NULL, region int NOT NULL, amount numeric(10,2) NOT NULL, made date NOT NULL, note text NOT NULL)",
		"CREATE TABLE bench_parts (fact bigint NOT NULL, n int NOT NULL, price numeric(10,2) NOT NULL, PRIMARY KEY (fact, n))",
		"INSERT INTO bench_owners SELECT i, i * 31 % 7, 'owner ' || i FROM generate_series(0, 99999) i",
		fmt.Sprintf("INSERT INTO bench_facts SELECT i, i * 7919 %% 100000, i * 7919 %% 10, (i * 104729 %% 1000003) / 100.0, date '2024-01-01' + (i * 271 %% 365)::int, "+
			"'a note on fact ' || i || repeat('.', (i %% 64)::int) FROM generate_series(1::bigint, %d) i", scale*100_000),
		fmt.Sprintf("INSERT INTO bench_parts SELECT i / 2 * 2 + 1, i %% 2, (i * 15485863 %% 100003) / 100.0 FROM generate_series(1::bigint, %d) i", scale*100_000-1),
	}
}

// fillScatters makes the tables on one server, and through weft a second time over all shards.
func (l *lab) fillScatters(ctx context.Context) error {
	l.progress("filling tables for statements over all shards with %d rows", l.opts.Scale*100_000)
	if err := execute(ctx, l.server, scatterTables(l.opts.Scale)...); err != nil {
		return err
	}
	servers := []target{l.server}
	if l.opts.wants(targetWeft) {
		if err := execute(ctx, l.admin, append(scatterTables(l.opts.Scale),
			"SELECT weft.shard_table('bench_owners', 'owner')",
			"SELECT weft.shard_table('bench_facts', 'id')",
			"SELECT weft.shard_table('bench_parts', 'fact')")...); err != nil {
			return err
		}
		servers = append(servers, l.shards...)
	}
	return onEach(ctx, servers, "VACUUM ANALYZE bench_owners", "VACUUM ANALYZE bench_facts", "VACUUM ANALYZE bench_parts", "CHECKPOINT")
}

// scatterFigures is one statement at one target: medians over the rounds, and the worst growth.
type scatterFigures struct {
	Workload  string  `json:"workload"`
	Target    string  `json:"target"`
	MS        float64 `json:"ms"`
	CPUMicros float64 `json:"cpu_us_per_statement,omitempty"` // of the proxy
	// OwnMicros is that without what the proxy uses meanwhile when it has nothing to do: in a statement of a second
	// that is more than the statement.
	OwnMicros float64 `json:"own_cpu_us_per_statement,omitempty"`
	GrowthKiB int64   `json:"peak_growth_kib,omitempty"` // of the proxy
	Against   float64 `json:"against_direct,omitempty"`  // time, median of the rounds' ratios
	Error     string  `json:"error,omitempty"`

	bytes int64 // of the answer
}

// measureScatters runs a statement by itself on one connection, target after target, in rounds.
func (b *bench) measureScatters(ctx context.Context, s scatter) error {
	targets := slices.DeleteFunc(slices.Clone(b.lab.targets), func(t target) bool { return t.Name != targetDirect && t.Name != targetWeft })
	runs := map[string][]scatterFigures{}
	failed := map[string]string{}
	for round := range b.opts.Rounds {
		for _, t := range targets {
			if failed[t.Name] != "" {
				continue
			}
			b.lab.progress("%s: %s, round %d of %d", s.Name, t.Title, round+1, b.opts.Rounds)
			f, err := b.scatterOnce(ctx, t.in(workload{Sharded: true}, ""), s)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// Rows may come in another order, but then they are the same bytes.
			if d := runs[targetDirect]; err == nil && len(d) > 0 && d[0].bytes != f.bytes {
				err = fmt.Errorf("the answer has %d bytes, PostgreSQL's %d", f.bytes, d[0].bytes)
			}
			if err != nil {
				b.lab.progress("failed: %v", err)
				failed[t.Name] = err.Error()
				continue
			}
			runs[t.Name] = append(runs[t.Name], f)
		}
	}
	for _, t := range targets {
		f := scatterFigures{Error: failed[t.Name]}
		if f.Error == "" {
			f = scatterMedians(runs[t.Name], runs[targetDirect])
		}
		f.Workload, f.Target = s.Name, t.Name
		b.report.Scatters = append(b.report.Scatters, f)
	}
	return nil
}

func scatterMedians(runs, direct []scatterFigures) scatterFigures {
	f := scatterFigures{
		MS:        median(runs, func(f scatterFigures) float64 { return f.MS }),
		CPUMicros: median(runs, func(f scatterFigures) float64 { return f.CPUMicros }),
		OwnMicros: median(runs, func(f scatterFigures) float64 { return f.OwnMicros }),
	}
	var ratios []float64
	for i, r := range runs {
		f.GrowthKiB = max(f.GrowthKiB, r.GrowthKiB)
		if i < len(direct) {
			ratios = append(ratios, r.MS/direct[i].MS)
		}
	}
	if len(ratios) > 0 {
		f.Against = median(ratios, func(r float64) float64 { return r })
	}
	return f
}

// scatterOnce repeats the statement for the seconds of a run, three times at least, after a first time that plans it and
// warms the caches.
func (b *bench) scatterOnce(ctx context.Context, t target, s scatter) (f scatterFigures, err error) {
	conn, err := pgconn.Connect(ctx, t.dsn())
	if err != nil {
		return f, err
	}
	h, err := conn.Hijack()
	if err != nil {
		return f, fmt.Errorf("take over connection: %w", err)
	}
	defer h.Conn.Close()
	defer context.AfterFunc(ctx, func() { h.Conn.Close() })()

	var base int64
	if t.PID != 0 {
		if base, err = resetPeak(t.PID); err != nil {
			return f, err
		}
	}
	r := bufio.NewReaderSize(h.Conn, 256<<10)
	if f.bytes, err = drainQuery(h.Conn, r, s.SQL); err != nil {
		return f, err
	}
	idle, err := b.idleCPU(ctx, t)
	if err != nil {
		return f, err
	}
	before, err := proxyCPU(t)
	if err != nil {
		return f, err
	}
	began := time.Now()
	n := 0
	for ; n < 3 || time.Since(began) < time.Duration(b.opts.Seconds)*time.Second; n++ {
		if _, err := drainQuery(h.Conn, r, s.SQL); err != nil {
			return f, err
		}
	}
	took := time.Since(began)
	after, err := proxyCPU(t)
	if err != nil {
		return f, err
	}
	if t.PID != 0 {
		peak, err := peakKiB(t.PID)
		if err != nil {
			return f, err
		}
		f.GrowthKiB = peak - base
	}
	_, _ = h.Conn.Write([]byte{'X', 0, 0, 0, 4}) // Terminate; the figures are taken.
	f.MS = took.Seconds() * 1000 / float64(n)
	f.CPUMicros = float64(after-before) / float64(time.Microsecond) / float64(n)
	f.OwnMicros = max(0, f.CPUMicros-idle*f.MS*1000)
	return f, nil
}

// idleCPU is the part of a core that the proxy uses when nobody asks it anything.
func (b *bench) idleCPU(ctx context.Context, t target) (float64, error) {
	if t.PID == 0 {
		return 0, nil
	}
	before, err := proxyCPU(t)
	if err != nil {
		return 0, err
	}
	if err := sleep(ctx, b.opts.settle); err != nil {
		return 0, err
	}
	after, err := proxyCPU(t)
	return float64(after-before) / float64(b.opts.settle), err
}

func (r *report) scatterTable() *table {
	t := &table{
		title: fmt.Sprintf("statements over %d shards and %d rows, one client: mean time against one PostgreSQL, CPU of the proxy per statement, "+
			"growth of its memory at its peak (median of %d × %d s)", r.Options.Shards, r.Options.Scale*100_000, r.Options.Rounds, r.Options.Seconds),
		groups: []group{
			{"", []string{"statement"}},
			{"PostgreSQL", []string{"ms"}},
			{"weft", []string{"ms", "÷ PostgreSQL", "CPU µs", "less idle", "want", "growth MiB", "want"}},
		},
	}
	for _, s := range scatters {
		direct, ok := r.scatter(s.Name, targetDirect)
		weft, also := r.scatter(s.Name, targetWeft)
		if !ok && !also {
			continue
		}
		row := []string{s.Title, positive(direct.MS, "%.2f"), positive(weft.MS, "%.2f"), positive(weft.Against, "%.2f"), positive(weft.CPUMicros, "%.0f"), positive(weft.OwnMicros, "%.0f")}
		if s.WantCPU > 0 {
			row = append(row, fmt.Sprintf("< %d", s.WantCPU.Microseconds()))
		} else {
			row = append(row, none)
		}
		if also && weft.Error == "" {
			row = append(row, fmt.Sprintf("%.1f", float64(weft.GrowthKiB)/1024))
		} else {
			row = append(row, none)
		}
		if s.WantMiB > 0 {
			row = append(row, fmt.Sprintf("< %d", s.WantMiB))
		} else {
			row = append(row, none)
		}
		t.add(row...)
		for _, f := range []scatterFigures{direct, weft} {
			if f.Error != "" {
				t.notes = append(t.notes, fmt.Sprintf("failed: %s, %s: %s", s.Name, f.Target, f.Error))
			}
		}
	}
	return t
}

func (r *report) scatter(name, target string) (f scatterFigures, ok bool) {
	i := slices.IndexFunc(r.Scatters, func(f scatterFigures) bool { return f.Workload == name && f.Target == target })
	if i < 0 {
		return f, false
	}
	return r.Scatters[i], true
}
