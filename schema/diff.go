package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/quote"
)

// Difference is something that a shard has otherwise than the home shard.
type Difference struct {
	Shard  string
	Object string // kind and name
	What   string
}

// Diff compares what all shards should have alike: declared tables with their
// indexes, constraints, triggers, policies and rights; views of them; types,
// functions and the like; roles and default privileges. Names are compared, and
// definitions as the servers write them, never OIDs.
func (m *Mover) Diff(ctx context.Context, database, user string) ([]Difference, error) {
	snap, err := m.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, err
	}
	return Compare(ctx, m.cfg.Shards, snap, database, user)
}

// Compare is Diff for a snapshot at hand.
func Compare(ctx context.Context, shards Shards, snap *directory.Snapshot, database, user string) ([]Difference, error) {
	home, err := open(ctx, shards, snap.Home, database, user, "weft")
	if err != nil {
		return nil, err
	}
	defer home.close()
	if err := home.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return nil, err
	}
	c := &comparison{snap: snap, database: database, home: home}
	if err := c.readHome(); err != nil {
		return nil, err
	}
	for _, name := range others(snap) {
		s, err := open(ctx, shards, name, database, user, "weft")
		if err != nil {
			return nil, err
		}
		c.there = s
		if err = s.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err == nil {
			err = c.compare()
		}
		s.close()
		if err != nil {
			return nil, err
		}
	}
	return c.out, nil
}

// comparison compares the home shard with another shard.
type comparison struct {
	snap     *directory.Snapshot
	database string
	home     *session
	there    *session

	schema *catalog.Schema
	own    []*belonging
	tables map[catalog.Name]*Definition
	out    []Difference
}

func (c *comparison) add(object, format string, args ...any) {
	c.out = append(c.out, Difference{c.there.shard, object, fmt.Sprintf(format, args...)})
}

func (c *comparison) readHome() error {
	var err error
	if c.schema, err = catalog.Load(0, func(sql string) ([][]string, error) { return c.home.Exec(catalog.Inside(sql)) }); err != nil {
		return err
	}
	if c.own, err = belongings(c.home); err != nil {
		return err
	}
	c.tables = map[catalog.Name]*Definition{}
	for _, t := range c.snap.Declared(c.database) {
		n := catalog.Name{Schema: t.Schema, Name: t.Name}
		if t.State != directory.Active || c.schema.Relation(n) == nil {
			continue
		}
		if c.tables[n], err = readDefinition(c.home, n); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) compare() error {
	for _, t := range c.snap.Declared(c.database) {
		if t.State == directory.Active {
			if err := c.table(catalog.Name{Schema: t.Schema, Name: t.Name}); err != nil {
				return err
			}
		}
	}
	has, err := c.relations()
	if err != nil {
		return err
	}
	if err := c.belongings(has); err != nil {
		return err
	}
	return c.lines()
}

// table compares a declared table.
func (c *comparison) table(n catalog.Name) error {
	object := "table " + display(n)
	want := c.tables[n]
	if want == nil {
		c.add(object, "is declared, but not on the home shard")
		return nil
	}
	there, err := c.there.one("SELECT to_regclass(" + quote.Literal(n.SQL()) + ")")
	if err != nil {
		return err
	}
	if there == "" {
		c.add(object, "is missing")
		return nil
	}
	have, err := readDefinition(c.there, n)
	if err != nil {
		return err
	}
	a, b := want.lines(), have.lines()
	for _, line := range a {
		if !slices.Contains(b, line) {
			c.add(object, "lacks: %s", line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			c.add(object, "has: %s", line)
		}
	}
	return nil
}

// lines returns the statements that make the table; CREATE TABLE is cut into columns and
// constraints.
func (d *Definition) lines() []string {
	var out []string
	for _, sql := range endless(slices.Concat(d.Before, d.After)) {
		parts := strings.Split(sql, "\n\t")
		for i, p := range parts {
			if i > 0 {
				p = d.Name.Name + " " + strings.TrimSuffix(strings.TrimSuffix(p, ","), "\n)")
			}
			out = append(out, p)
		}
	}
	return out
}

// relations compares which relations the shards have, and views by the relations they read. It
// returns the relations of the shard.
func (c *comparison) relations() (map[catalog.Name]bool, error) {
	rows, err := c.there.Exec("SELECT n.nspname, c.relname, c.relkind, c.relispartition FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace " +
		"WHERE c.oid >= 16384 AND n.nspname !~ '^(pg_|weft$|weft_gate$|information_schema$)' AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'c') " +
		"AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') ORDER BY 1, 2")
	if err != nil {
		return nil, err
	}
	has := map[catalog.Name]bool{}
	for _, r := range rows {
		n := catalog.Name{Schema: r[0], Name: r[1]}
		has[n] = true
		kind := map[string]string{"r": "table", "p": "table", "v": "view", "m": "materialized view", "f": "foreign table"}[r[2]]
		if kind == "" || r[3] == "t" || c.snap.Table(c.database, n.Schema, n.Name) != nil {
			continue
		}
		if rel := c.schema.Relation(n); rel == nil {
			c.add(kind+" "+display(n), "is not on the home shard")
		} else if kind != "view" {
			c.add(kind+" "+display(n), "is not declared, and should be on the home shard alone")
		}
	}
	views, err := c.home.Exec(viewEdges)
	if err != nil {
		return nil, err
	}
	whole := map[string]bool{}
	for _, r := range views {
		if _, ok := whole[r[1]]; !ok {
			whole[r[1]] = r[2] == ""
		}
		whole[r[1]] = whole[r[1]] && has[catalog.Name{Schema: r[5], Name: r[6]}]
	}
	for _, r := range views {
		if !whole[r[1]] || strings.HasPrefix(r[1], "pg_temp_") {
			continue
		}
		whole[r[1]] = false // once
		if err := c.object("view", r[1]); err != nil {
			return nil, err
		}
	}
	return has, nil
}

// belongings compares types, functions and the like.
func (c *comparison) belongings(has map[catalog.Name]bool) error {
	there, err := belongings(c.there)
	if err != nil {
		return err
	}
	d := &declaration{seen: &sight{judgement: &judgement{schema: c.schema}}}
	known := map[string]bool{}
	for _, b := range c.own {
		known[b.key()] = true
		if b.name.Name != "" && !d.livesBeside(b.name, has) {
			continue
		}
		if err := c.object(b.kind, b.vertex.name); err != nil {
			return err
		}
	}
	for _, b := range there {
		if !known[b.key()] {
			c.add(b.key(), "is not on the home shard")
		}
	}
	return nil
}

// object compares an object that both should have.
func (c *comparison) object(kind, name string) error {
	want, err := readObject(c.home, kind, name)
	if err != nil || want == nil {
		return err
	}
	have, err := readObject(c.there, kind, name)
	if err != nil {
		return err
	}
	if have == nil {
		c.add(kind+" "+name, "is missing")
		return nil
	}
	if !slices.Equal(endless(want.Create), endless(have.Create)) {
		c.add(kind+" "+name, "is %s; on the home shard it is %s", strings.Join(have.Create, "; "), strings.Join(want.Create, "; "))
	}
	c.sets(kind+" "+name, want.Dress, have.Dress)
	return nil
}

// sets compares statements whose order does not matter.
func (c *comparison) sets(object string, want, have []string) {
	for _, line := range want {
		if !slices.Contains(have, line) {
			c.add(object, "lacks: %s", line)
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			c.add(object, "has: %s", line)
		}
	}
}

// lines compares roles and rights.
func (c *comparison) lines() error {
	for _, q := range []struct{ object, query string }{
		{"roles", roleNamesQuery},
		{"memberships", membersQuery},
		{"settings of roles", roleSettingsQuery},
		{"schema public", publicQuery},
		{"default privileges", defaultsQuery},
	} {
		want, err := c.home.Exec(q.query)
		if err != nil {
			return err
		}
		have, err := c.there.Exec(q.query)
		if err != nil {
			return err
		}
		c.sets(q.object, first(want), first(have))
	}
	return nil
}

func first(rows [][]string) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r[0])
	}
	return out
}

// Rows are the differences as a client gets them.
func Rows(list []Difference) [][]string {
	var out [][]string
	for _, d := range list {
		out = append(out, []string{d.Shard, d.Object, d.What})
	}
	return out
}

// roleNamesQuery lists the roles of a server, as far as the current role may see them.
var roleNamesQuery = "SELECT line FROM (SELECT " + strings.NewReplacer(
	"rolname, format", "format", `' PASSWORD ' || quote_literal(rolpassword)`, "NULL",
	"pg_authid", "pg_roles").Replace(strings.TrimPrefix(rolesQuery, "SELECT ")) + ") AS l(line)"
