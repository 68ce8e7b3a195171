package advise

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/quote"
	"weft/schema"
)

// tell fills in what people want to know of a candidate. today is how statements are carried out now.
func (w *work) tell(c *Candidate, today *simulation) {
	c.Sharded, c.Reference, c.Home = []Ref{}, []string{}, []string{}
	for _, rel := range w.tables {
		switch column, sharded := c.hyp.keys[rel.Name]; {
		case sharded:
			c.Sharded = append(c.Sharded, Ref{rel.Name, column})
			if second := c.hyp.second[rel.Name]; second != "" {
				c.Second = append(c.Second, Ref{rel.Name, second})
			}
		case c.hyp.reference[rel.Name]:
			c.Reference = append(c.Reference, Display(rel.Name))
		case w.usage[rel.Name].calls > 0:
			c.Home = append(c.Home, Display(rel.Name))
		}
	}
	c.Broken, c.Refused, c.Scattered, c.Checks, c.Obstacles, c.SQL = []Broken{}, []Affected{}, []Affected{}, []Check{}, []string{}, []string{}
	w.affected(c)
	w.transactions(c, today)
	c.Checks = w.checks(c)
	w.declarations(c)
	if c.hyp.declared == nil && c.hyp.second == nil {
		c.Salt = w.salt(c)
	}
}

// affected lists the statements that are refused or scattered, those with the most time first.
func (w *work) affected(c *Candidate) {
	for i := range w.statements {
		s, o := &w.statements[i], &c.sim.outcomes[i]
		a := Affected{ID: s.ID, Text: s.Text, Time: s.weight, Calls: s.calls, Shards: o.shards, Reason: o.reason}
		switch {
		case o.fate == refused:
			c.Refused = append(c.Refused, a)
		case o.fate == counted && o.one < 1-1e-9:
			a.Time, a.Calls = a.Time*(1-o.one), a.Calls*(1-o.one)
			c.Scattered = append(c.Scattered, a)
		}
	}
	heaviest := func(a, b Affected) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.ID, b.ID)) }
	slices.SortFunc(c.Refused, heaviest)
	slices.SortFunc(c.Scattered, heaviest)
}

// transactions looks where recorded transactions write.
func (w *work) transactions(c *Candidate, today *simulation) {
	if len(w.in.Transactions) == 0 {
		return
	}
	broken := map[string]*Broken{}
	several := 0
	for _, t := range w.in.Transactions {
		then, ids := c.sim.writtenBy(t)
		if then.count() < 2 {
			continue
		}
		several++
		if now, _ := today.writtenBy(t); now.count() > 1 {
			continue
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		key := fmt.Sprint(ids)
		if broken[key] == nil {
			broken[key] = &Broken{Statements: ids}
			for _, id := range ids {
				broken[key].Texts = append(broken[key].Texts, w.statements[w.index[id]].Text)
			}
		}
		broken[key].Share += 1 / float64(len(w.in.Transactions))
	}
	c.TwoPhase = ratio(float64(several), float64(len(w.in.Transactions)))
	for _, b := range broken {
		c.Broken = append(c.Broken, *b)
	}
	slices.SortFunc(c.Broken, func(a, b Broken) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), slices.Compare(a.Statements, b.Statements))
	})
}

// Check is one thing that makes a key a good one.
type Check struct {
	Name   string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// checks looks at the key itself.
func (w *work) checks(c *Candidate) []Check {
	n := float64(w.in.Shards)
	var out []Check
	add := func(name string, ok bool, format string, args ...any) {
		out = append(out, Check{name, ok, fmt.Sprintf(format, args...)})
	}
	if values, of, ok := w.distinct(c); ok {
		add("values", values >= enough*n, "%s has %.0f values, %d shards want %.0f at least", of, values, w.in.Shards, enough*n)
	}
	add("largest value", c.Largest < 1/(2*n), "%s of the %s, less than %s is wanted", percent(c.Largest), w.about(), percent(1/(2*n)))
	var set, null, ordered []string
	for _, r := range slices.Concat(c.Sharded, c.Second) {
		if w.updates(r) > 0 {
			set = append(set, r.String())
		}
		if col := w.in.Schema.Relation(r.Table).Column(r.Column); col != nil && !col.NotNull {
			null = append(null, r.String())
		}
		if s, ok := w.in.Tables[r.Table].Columns[r.Column]; ok && math.Abs(s.Correlation) > 0.95 && w.in.Tables[r.Table].Rows >= 1000 {
			ordered = append(ordered, r.String())
		}
	}
	add("never changes", len(set) == 0, "%s", orElse(set, "no UPDATE sets it", "an UPDATE sets "))
	add("never NULL", len(null) == 0, "%s", orElse(null, "all columns are NOT NULL", "rows without a value are all in bucket 0: "))
	if len(ordered) > 0 {
		add("not in the order of time", true, "values of %s count up: hash spreads them, range and identity would not", ordered[0])
	}
	known, writes := w.knownWrites(c)
	if writes > 0 {
		add("on every write", known >= writes-1e-9, "%s of the writes on sharded tables say it", percent(ratio(known, writes)))
	}
	return out
}

func (w *work) about() string {
	if len(w.in.Transactions) > 0 {
		return "recorded work"
	}
	return "rows"
}

func orElse(list []string, none, some string) string {
	if len(list) == 0 {
		return none
	}
	return some + strings.Join(list, ", ")
}

// distinct returns how many values the key has: those of the table that has the most.
func (w *work) distinct(c *Candidate) (values float64, of string, ok bool) {
	for _, r := range c.Sharded {
		t := w.in.Tables[r.Table]
		s, known := t.Columns[r.Column]
		if !known || s.Distinct == 0 {
			continue
		}
		if d := s.distinct(t.Rows); !ok || d > values {
			values, of, ok = d, r.String(), true
		}
	}
	return values, of, ok
}

// knownWrites returns the calls that write sharded tables, and those of them that say the key.
func (w *work) knownWrites(c *Candidate) (known, all float64) {
	for i := range w.statements {
		s, o := &w.statements[i], &c.sim.outcomes[i]
		if o.fate == uncounted || !slices.ContainsFunc(s.sight.written, func(t catalog.Name) bool { return c.hyp.keys[t] != "" }) {
			continue
		}
		all += s.calls
		known += s.calls * o.knows
	}
	return known, all
}

// declarations writes the SQL, and finds out what weft would say to it.
func (w *work) declarations(c *Candidate) {
	if c.hyp.declared != nil {
		return
	}
	snap := w.base.Clone()
	for _, d := range w.order(c.hyp) {
		n := catalog.Name{Schema: d.Schema, Name: d.Name}
		for _, e := range schema.Judge(w.in.Schema, snap, d) {
			c.Obstacles = append(c.Obstacles, e.Message)
		}
		snap.PutTable(d)
		if sql := w.statementFor(n, &d); sql != "" {
			c.SQL = append(c.SQL, sql)
		}
	}
}

// statementFor is what to run so that a table is declared as d, "" if it is already.
func (w *work) statementFor(n catalog.Name, d *directory.Table) string {
	table := quote.Literal(written(n))
	at := slices.IndexFunc(w.in.Declared, func(t directory.Table) bool { return t.Schema == n.Schema && t.Name == n.Name })
	if d.Kind == directory.Reference {
		switch {
		case at < 0:
			return "SELECT weft.reference_table(" + table + ");"
		case w.in.Declared[at].Kind == directory.Reference:
			return ""
		}
		return "SELECT weft.unshard_table(" + table + "); SELECT weft.reference_table(" + table + ");"
	}
	key := quote.Literal(word(d.Columns[0].Name))
	if len(d.Columns) > 1 {
		key = fmt.Sprintf("%s, bits => '%v'", quote.Literal(word(d.Columns[0].Name)+", "+word(d.Columns[1].Name)), d.Vindex.Params["bits"])
	}
	switch {
	case at < 0:
		return "SELECT weft.shard_table(" + table + ", " + key + ");"
	case w.in.Declared[at].Kind == directory.Reference:
		return "SELECT weft.unshard_table(" + table + "); SELECT weft.shard_table(" + table + ", " + key + ");"
	case len(w.in.Declared[at].Columns) == 1 && len(d.Columns) == 1 && w.in.Declared[at].Columns[0].Name == d.Columns[0].Name:
		return ""
	}
	return "SELECT weft.alter_shard_key(" + table + ", " + key + ");"
}

// written is a table's name as an argument of weft's functions.
func written(n catalog.Name) string {
	if n.Schema == "public" {
		return word(n.Name)
	}
	return word(n.Schema) + "." + word(n.Name)
}

var plainWord = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// word is a name in quotes, unless it needs none.
func word(name string) string {
	if plainWord.MatchString(name) {
		return name
	}
	return quote.Ident(name)
}

func percent(p float64) string {
	switch p *= 100; {
	case p != 0 && math.Abs(p) < 0.05:
		return "< 0.1 %"
	case p > 99.95 && p < 100-1e-6:
		return "> 99.9 %"
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}
