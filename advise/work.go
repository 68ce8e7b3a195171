package advise

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/parser"
)

const (
	// maxStatements bounds how many statements are planned: those with the most work.
	maxStatements = 500
	// maxExamples bounds how many recorded executions of one statement are looked at.
	maxExamples = 400
	// smallRows and smallBytes bound a table that every shard can have a copy of.
	smallRows, smallBytes = 100_000, 64 << 20
	// seldom is the share of the calls on a table that may write, if every shard is to have a copy of
	// it, and rarely the same of all calls.
	seldom, rarely = 0.05, 0.01
)

// work is the input, looked at.
type work struct {
	in         *Input
	statements []statement
	index      map[int64]int // of statements, by ID
	tables     []*catalog.Relation
	usage      map[catalog.Name]*usage
	base       *directory.Snapshot // the shards, without declarations
	skipped    int                 // statements beyond the bound
}

// statement is a statement with its share of all work.
type statement struct {
	Statement
	weight   float64 // share of the time
	calls    float64 // share of the calls
	sight    sight
	literals []parser.Literal
	examples []example // recorded executions
	lists    []int     // parameters that stand for lists, counted from 0
}

// squashed is how pg_stat_statements writes a list of constants from PostgreSQL 18 on.
var squashed = regexp.MustCompile(`\$(\d+) /\*, \.\.\. \*/`)

// usage is what statements do with one table.
type usage struct {
	weight        float64 // share of the work of the statements that name it
	calls, writes float64 // shares of all calls
}

func newWork(in *Input) *work {
	w := &work{in: in, index: map[int64]int{}, usage: map[catalog.Name]*usage{}}
	shards := make([]directory.Shard, in.Shards)
	for i := range shards {
		shards[i] = directory.Shard{Name: shardName(i), Hosts: []string{"127.0.0.1:5432"}, Weight: 1}
	}
	w.base = directory.New(directory.DefaultBucketCount, shards[0].Name, shards)
	list := slices.Clone(in.Statements)
	slices.SortStableFunc(list, func(a, b Statement) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(b.Calls, a.Calls)) })
	var time, calls float64
	for _, s := range list {
		sight := lookAt(in.Schema, in.Path, s.Text)
		if len(sight.tables) == 0 {
			continue // SET, BEGIN, catalogs
		}
		if len(w.statements) == maxStatements {
			w.skipped++
			continue
		}
		w.index[s.ID] = len(w.statements)
		var scan parser.Scanner
		scan.Scan([]byte(s.Text), parser.Options{})
		st := statement{Statement: s, sight: sight, literals: slices.Clone(scan.Literals)}
		for _, m := range squashed.FindAllStringSubmatch(s.Text, -1) {
			if n, err := strconv.Atoi(m[1]); err == nil {
				st.lists = append(st.lists, n-1)
			}
		}
		w.statements = append(w.statements, st)
		time, calls = time+s.Time, calls+float64(s.Calls)
	}
	for i := range w.statements {
		s := &w.statements[i]
		s.calls = ratio(float64(s.Calls), calls)
		s.weight = s.calls
		if time > 0 {
			s.weight = s.Time / time
		}
		for _, t := range s.sight.tables {
			u := w.use(t)
			u.weight, u.calls = u.weight+s.weight, u.calls+s.calls
		}
		for _, t := range s.sight.written {
			w.use(t).writes += s.calls
		}
	}
	w.close()
	w.pickExamples()
	return w
}

func shardName(i int) string { return "shard-" + strconv.Itoa(i) }

func (w *work) use(t catalog.Name) *usage {
	if w.usage[t] == nil {
		w.usage[t] = &usage{}
	}
	return w.usage[t]
}

// close adds the tables that foreign keys tie to those in use.
func (w *work) close() {
	seen := map[catalog.Name]bool{}
	var visit func(n catalog.Name)
	visit = func(n catalog.Name) {
		rel := w.in.Schema.Relation(n)
		if seen[n] || rel == nil || rel.Kind != catalog.Table && rel.Kind != catalog.PartitionedTable {
			return
		}
		seen[n] = true
		w.tables = append(w.tables, rel)
		w.use(n)
		for _, fk := range rel.ForeignKeys {
			visit(fk.References)
		}
		for _, fk := range rel.Referenced {
			visit(fk.Table)
		}
	}
	for i := range w.statements {
		for _, t := range w.statements[i].sight.tables {
			visit(t)
		}
	}
	slices.SortFunc(w.tables, func(a, b *catalog.Relation) int { return strings.Compare(a.SQL(), b.SQL()) })
}

// pickExamples hands recorded executions to their statements, spread over the whole recording.
func (w *work) pickExamples() {
	count := make([]int, len(w.statements))
	for _, t := range w.in.Transactions {
		for i := range t {
			if at, ok := w.index[t[i].ID]; ok {
				count[at]++
			}
		}
	}
	seen := make([]int, len(w.statements))
	for _, t := range w.in.Transactions {
		for i := range t {
			at, ok := w.index[t[i].ID]
			if !ok {
				continue
			}
			s := &w.statements[at]
			if step := (count[at] + maxExamples - 1) / maxExamples; seen[at]%step == 0 {
				s.examples = append(s.examples, example{values: t[i].Values})
			}
			seen[at]++
		}
	}
}

// small reports whether every shard can have a copy of a table, and seldom whether few statements
// write it.
func (w *work) small(t catalog.Name) bool {
	s, ok := w.in.Tables[t]
	return !ok || s.Rows <= smallRows && s.Bytes <= smallBytes
}

func (w *work) seldomWritten(t catalog.Name) bool {
	u := w.usage[t]
	return u.writes <= seldom*u.calls && u.writes <= rarely
}

func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
