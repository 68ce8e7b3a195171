package copying

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/integration/harness"
	"weft/integration/pair"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "first seed of TestRandom")
	forFlag   = flag.Duration("for", 4*time.Second, "how long TestRandom goes on")
	jobsFlag  = flag.Int("jobs", 40, "how many COPYs each table gets")
	mostFlag  = flag.Int("mismatches", 5, "after how many mismatches TestRandom gives up")
	traceFlag = flag.Bool("verbose", false, "log every COPY")
)

// TestRandom makes up tables, COPY commands and data, and compares what clients hear
// and all tables.
func TestRandom(t *testing.T) {
	w := newWorld(t, "random", []string{
		"create type mood as enum ('sad', 'so so', 'héhé')", "create domain positive as int check (value > 0)", "create sequence counter",
		// It passes over some rows.
		"create function pass() returns trigger language plpgsql as 'begin if length(new::text) % 5 = 0 then return null; end if; return new; end'",
		"create table items (a int)", // for quiet
	})
	harness.KeepMoving(t, harness.Weft(t), w.database)
	x := &random{world: w, t: t, refusals: map[string]int{}}
	deadline := time.Now().Add(*forFlag)
	for seed := *seedFlag; time.Now().Before(deadline) && x.mismatches < *mostFlag; seed++ {
		x.table(seed, deadline)
	}
	t.Logf("%d COPYs, %d with rows, %d failed on both sides, %d refused", x.asked, x.loaded, x.failed, x.refused)
	for what, n := range x.refusals {
		t.Logf("refused %d times: %s", n, what)
	}
	if x.refused*4 > x.asked {
		t.Errorf("%d of %d COPYs were refused", x.refused, x.asked)
	}
	pair.Verified(t, x.weft)
	w.quiet(t)
}

type random struct {
	*world
	t     *testing.T
	shape *shape

	asked, loaded, failed, refused, mismatches int
	refusals                                   map[string]int
}

// table makes a table, and copies into and from it.
func (x *random) table(seed uint64, deadline time.Time) {
	t := x.t
	r := rand.New(rand.NewPCG(seed, 0))
	s := newShape(r)
	x.shape = s
	x.sql("drop table items")
	x.sql(s.create)
	for _, sql := range s.more {
		x.sql(sql)
	}
	if s.declare != "" {
		release := harness.Still() // a table is not declared while rows move
		must(t, x.weft, s.declare)
		release()
	}
	x.mask = s.mask
	for i := range *jobsFlag {
		if time.Now().After(deadline) || x.mismatches >= *mostFlag {
			break
		}
		x.asked++
		r := rand.New(rand.NewPCG(seed, uint64(i+1)))
		wrong := ""
		if r.IntN(4) == 0 {
			wrong = x.to(r)
		} else {
			wrong = x.from(r)
		}
		if wrong != "" {
			x.mismatches++
			t.Errorf("seed %d, COPY %d\n%s; %s\n%s\n%s", seed, i, s.create, strings.Join(s.more, "; "), s.declare, wrong)
			x.restart()
		}
	}
}

// sql runs a statement on both sides.
func (x *random) sql(sql string) {
	x.t.Helper()
	must(x.t, x.plain, sql)
	must(x.t, x.weft, sql)
}

// recorder keeps errors for whom has more to say of them.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// restart makes both sides the same again.
func (x *random) restart() {
	x.sql("rollback")
	x.sql("truncate items restart identity")
	x.sql("select setval('counter', 1, false)")
}

// columns takes some of those that rows can have.
func (x *random) columns(r *rand.Rand) (out []*column) {
	for _, c := range x.shape.columns {
		if !c.derived && !c.drawn {
			out = append(out, c)
		}
	}
	if r.IntN(3) == 0 {
		r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	if r.IntN(3) == 0 {
		n, strict := 1+r.IntN(len(out)), r.IntN(6) > 0
		for _, c := range out[n:] {
			if c.notNull && strict {
				out[n], n = c, n+1
			}
		}
		out = out[:n]
	}
	return out
}

// session makes both sessions as a client may have set them.
func (x *random) session(r *rand.Rand) (latin bool) {
	encoding := pick(r, "utf8", "utf8", "utf8", "utf8", "latin1")
	x.sql("set client_encoding = " + encoding)
	return encoding == "latin1"
}

// from copies random data into the table.
func (x *random) from(r *rand.Rand) (wrong string) {
	columns := x.columns(r)
	inLatin := x.session(r)
	f := newFormat(r, columns, true)
	list := " (" + names(columns) + ")"
	if r.IntN(40) == 0 {
		list = pick(r, " (nope)", " (z)", fmt.Sprintf(" (%s, %s)", names(columns), quoted(columns[0].name)))
	}
	j := &job{end: pick(r, endDone, endDone, endDone, endDone, endDone, endDone, endDone, endDone, endFail, endGone)}
	if j.extended = r.IntN(4) == 0; j.extended {
		j.early = r.IntN(2) == 0
	}
	j.syncs = r.IntN(10) == 0
	j.sql = "copy items" + list + " from stdin" + f.sql()
	if r.IntN(6) == 0 {
		j.sql += " where " + pick(r, columns...).filter
	}
	if strings.HasSuffix(j.sql, "where ") {
		j.sql += "true"
	}
	good := r.IntN(2) == 0
	data := x.data(r, f, columns, good)
	if !good && r.IntN(2) == 0 {
		data = spoil(r, data)
	}
	explicit := slices.ContainsFunc(f.options, func(o string) bool { return strings.HasPrefix(o, "encoding") })
	if f.kind != "binary" && (f.latin || inLatin && !explicit) && r.IntN(10) > 0 {
		data = latin(data)
	}
	j.pieces = cutUp(r, data)
	return x.both(r, j)
}

// data makes data up. PostgreSQL itself makes binary data, of a table of the same kind.
func (x *random) data(r *rand.Rand, f *format, columns []*column, good bool) []byte {
	if f.kind != "binary" {
		return f.data(r, columns, good)
	}
	plain := &format{kind: "text", delim: '\t', null: `\N`, eol: "\n"}
	x.sql("set client_encoding = utf8")
	must(x.t, x.plain, "drop table if exists pg_temp.made")
	must(x.t, x.plain, "create temp table made as select * from items limit 0")
	list := "pg_temp.made (" + names(columns) + ")"
	loaded := (&job{sql: "copy " + list + " from stdin", pieces: [][]byte{plain.data(r, columns, true)}}).run(x.plain)
	made := (&job{sql: "copy " + list + " to stdout (format binary)"}).run(x.plain)
	if len(made.data) == 0 {
		x.t.Fatalf("%s\n%s\n%s", x.shape.create, loaded.told, made.told)
	}
	if r.IntN(4) == 0 {
		x.sql("set client_encoding = latin1")
	}
	return slices.Concat(made.data...)
}

// both runs a job on both sides and compares.
func (x *random) both(r *rand.Rand, j *job) (wrong string) {
	if *traceFlag {
		x.t.Log(j)
	}
	block := j.end != endGone && r.IntN(8) == 0
	if block {
		x.sql("begin")
	}
	want, got := j.run(x.plain), j.run(x.weft)
	if block {
		x.sql(pick(r, "commit", "commit", "rollback"))
	}
	w, g := want.normal(len(x.mask) > 0), got.normal(len(x.mask) > 0)
	if len(w) > len(g) {
		w = aLongLine.ReplaceAllString(w, "$1") // weft shows less of a line that it has added something to
		g = aLongLine.ReplaceAllString(g, "$1")
	}
	if j.end == endGone {
		x.world = x.reconnect()
		x.quiet(x.t)
	}
	switch {
	case w == g:
	case len(slices.Concat(j.pieces...)) > 50_000 && strings.Contains(w, "ERROR") && strings.Contains(g, "ERROR"):
		// Several rows are wrong, and which of them is told first depends on how many
		// rows a server writes at once.
	case strings.Contains(w, "ERROR 23505") && strings.Contains(g, "ERROR"):
		// Whether a server writes batches depends on defaults, which weft may have supplied.
	case strings.Contains(w, "ERROR 22P05") && strings.Contains(g, "ERROR"):
		// An error with characters that the client's encoding has not, which is told
		// without the line it is about.
	case strings.Contains(g, "ERROR 0A000: "):
		x.refuse(j, g)
		x.restart()
		return ""
	default:
		if strings.Contains(w+g, "lost") {
			x.world = x.reconnect()
		}
		return fmt.Sprintf("%s\nPostgreSQL: %s\nweft:       %s", j, w, g)
	}
	if strings.Contains(w, "\nCOPY ") && !strings.Contains(w, "\nCOPY 0") {
		x.loaded++
	}
	rec := &recorder{TB: x.t}
	if x.tables.Same(rec, x.mask); len(rec.errors) > 0 {
		return fmt.Sprintf("%s\n%s\n%s", j, w, strings.Join(rec.errors, "\n"))
	}
	if !strings.Contains(w, "\nCOPY ") {
		// Sequences have gone on, as far as each side has read.
		x.failed++
		x.restart()
	}
	return ""
}

// refuse counts what weft refuses.
func (x *random) refuse(j *job, told string) {
	x.refused++
	_, why, _ := strings.Cut(told, "ERROR 0A000: ")
	why, _, _ = strings.Cut(why, "\n  HINT")
	if x.refusals[why]++; x.refusals[why] == 1 && testing.Verbose() {
		x.t.Logf("refused: %s\n%s\n%s", why, x.shape.create, j)
	}
}

var aLongLine = regexp.MustCompile(`(WHERE COPY items, line \d+: "[^\n]{20})[^\n]*\.\.\."`)

// reconnect is the same world with other sessions.
func (x *random) reconnect() *world {
	out := *x.world
	out.plain, out.weft = connect(x.t, harness.Postgres(x.t), x.database), connect(x.t, harness.Weft(x.t), x.database)
	return &out
}

// to copies out of the table.
func (x *random) to(r *rand.Rand) (wrong string) {
	columns := x.columns(r)
	x.session(r)
	f := newFormat(r, columns, false)
	what := "items (" + names(columns) + ")"
	switch r.IntN(5) {
	case 0:
		what = "(select " + names(columns) + " from items)"
	case 1:
		what = "(select " + names(columns) + ", 'x' from items where " + pick(r, columns...).filter + ")"
	case 2:
		what = "(select count(*), max(" + quoted(columns[0].name) + "::text) from items)"
	}
	j := &job{sql: "copy " + what + " to stdout" + f.sql()}
	if j.extended = r.IntN(4) == 0; j.extended {
		j.early = r.IntN(2) == 0
	}
	if *traceFlag {
		x.t.Log(j)
	}
	want, got := j.run(x.plain), j.run(x.weft)
	head := 0
	if f.header == "true" {
		head = 1
	}
	switch {
	case strings.Contains(got.told, "ERROR 0A000: ") && !strings.Contains(want.told, "ERROR 0A000: "):
		x.refuse(j, got.told)
	case strings.Contains(want.told, "ERROR 22P05"): // a character that Latin-1 has not: any of them
		if !strings.Contains(got.told, "ERROR 22P05") {
			return fmt.Sprintf("%s\nPostgreSQL: %s\nweft:       %s", j, want.told, got.told)
		}
	case want.told != got.told || want.rows(f.kind, head) != got.rows(f.kind, head):
		return fmt.Sprintf("%s\nPostgreSQL: %s %s\nweft:       %s %s", j, want.told, want.rows(f.kind, head), got.told, got.rows(f.kind, head))
	}
	return ""
}
