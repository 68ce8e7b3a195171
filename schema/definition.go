package schema

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weft/catalog"
	"weft/pgerr"
	"weft/quote"
)

// Definition holds everything that makes a table again on another server of the same version,
// except its rows.
type Definition struct {
	Name catalog.Name
	// Relations are the table and its partitions, parents first, quoted.
	Relations []string
	// Columns are the quoted columns that hold data, without generated ones.
	Columns []string
	// Needs are what the table uses and may exist already, in the order in
	// which they can be made.
	Needs []Object
	// Before makes the tables themselves. After makes everything that must wait for the rows, or is
	// cheaper after them: indexes, foreign keys, triggers.
	Before, After []string
	// Roles are named as owners, in grants and in policies.
	Roles []string
	// Uses are other relations that policies, functions, defaults or checks
	// read; foreign keys are not among them.
	Uses []catalog.Name
	// Bodies are the sources of the user's functions among Needs.
	Bodies []Body

	// steward is the role that moves the rows, if moving them runs code that the reader does not
	// trust; code names that code. Empty if the reader may move them.
	steward string
	code    []string
}

// Body is a function's source.
type Body struct {
	Name     catalog.Name
	Function string // with the types of its arguments
	Source   string
}

// Object is something a table needs.
type Object struct {
	Kind string // schema, extension, type, collation, function, sequence, or what else pg_depend calls it
	Name string // as the server spells it, quoted and qualified
	// Create makes it. Empty for kinds that weft cannot make: they must exist.
	Create []string
	// Dress gives it its owner, grants and comment.
	Dress []string
}

// ReadDefinition reads a table's definition. It changes the settings of the connection, which
// cannot be used for anything else afterwards. The caller keeps the table from changing meanwhile.
func ReadDefinition(ctx context.Context, c Conn, name catalog.Name) (*Definition, error) {
	s := &session{Conn: c, ctx: ctx}
	if err := s.run(settings + quote.Literal("weft")); err != nil {
		return nil, err
	}
	return readDefinition(s, name)
}

// Apply makes the table on another shard, without the statements in After. It changes the settings
// of the connection, like ReadDefinition. It must run in a transaction: an error leaves what was
// made before it.
func (d *Definition) Apply(ctx context.Context, c Conn, shard string) error {
	s := &session{Conn: c, ctx: ctx, shard: shard}
	if err := s.run(settings + quote.Literal("weft")); err != nil {
		return err
	}
	return d.apply(s)
}

// ApplyInside makes the table, including After, inside an open transaction, and leaves the settings
// of the connection as they were.
func (d *Definition) ApplyInside(ctx context.Context, c Conn, shard string) error {
	return insideSettings(&session{Conn: c, ctx: ctx, shard: shard}, d.applyAll)
}

// applyAll makes the table, including After.
func (d *Definition) applyAll(s *session) error {
	if err := d.apply(s); err != nil {
		return err
	}
	return s.only(d.After...)
}

// insideSettings runs f inside an open transaction under the settings that statements about definitions need, and
// restores those of the connection.
func insideSettings(s *session, f func(*session) error) error {
	var names []string
	for _, m := range settingName.FindAllStringSubmatch(settings, -1) {
		names = append(names, m[1])
	}
	was, err := s.Exec("SELECT n, pg_catalog.current_setting(n) FROM pg_catalog.unnest('{" + strings.Join(names, ",") + "}'::text[]) n")
	if err != nil {
		return err
	}
	if err := s.run(strings.ReplaceAll(settings, "SET ", "SET LOCAL ") + quote.Literal("weft")); err != nil {
		return err
	}
	if err := f(s); err != nil {
		return err
	}
	var back strings.Builder
	for _, r := range was {
		fmt.Fprintf(&back, "SELECT pg_catalog.set_config(%s, %s, true);", quote.Literal(r[0]), quote.Literal(r[1]))
	}
	return s.run(back.String())
}

var settingName = regexp.MustCompile(`SET (\w+) =`)

// readDefinition is ReadDefinition over a session, which has the right settings already.
func readDefinition(s *session, name catalog.Name) (*Definition, error) {
	r := &reader{session: s, def: &Definition{Name: name}}
	if err := r.tree(name); err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		r.needs, r.tables, r.attach, r.columnDetails, r.owners, r.sequenceOwners, r.grants, r.comments,
		r.indexes, r.indexDetails, r.foreignKeys, r.triggers, r.policies, r.statistics, r.tableDetails, r.code,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("read definition of %s: %w", name.SQL(), err)
		}
	}
	slices.Sort(r.def.Roles)
	r.def.Roles = slices.Compact(r.def.Roles)
	return r.def, nil
}

// reader reads one definition.
type reader struct {
	*session
	def  *Definition
	oids []string // of Relations, in the same order
	// made are the functions and types met while crawling.
	graph graph
}

// set returns the oids of the table and its partitions as an SQL array.
func (r *reader) set() string { return "'{" + strings.Join(r.oids, ",") + "}'::oid[]" }

// order returns SQL that sorts relation oids parents first.
func (r *reader) order(column string) string {
	return "array_position(" + r.set() + ", " + column + ")"
}

// tree finds the table and its partitions.
func (r *reader) tree(name catalog.Name) error {
	// pg_partition_tree is empty for a table without partitions.
	rows, err := r.Exec(`SELECT c.oid, c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL pg_partition_tree(c.oid) p ON false WHERE n.nspname = ` + quote.Literal(name.Schema) + ` AND c.relname = ` + quote.Literal(name.Name) + ` AND c.relkind IN ('r', 'p')`)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return pgerr.New(pgerr.UndefinedTable, "relation %q does not exist", name.Schema+"."+name.Name)
	}
	root := rows[0]
	parts, err := r.Exec(`SELECT relid::oid, relid::regclass::text FROM pg_partition_tree(` + root[0] + `) WHERE relid <> ` + root[0] + `
ORDER BY level, relid::regclass::text`)
	if err != nil {
		return err
	}
	for _, row := range append([][]string{root}, parts...) {
		r.oids = append(r.oids, row[0])
		r.def.Relations = append(r.def.Relations, row[1])
	}
	return nil
}

// before and after add the statements that a query returns as its first column.
func (r *reader) before(sql string) error { return r.collect(&r.def.Before, sql) }
func (r *reader) after(sql string) error  { return r.collect(&r.def.After, sql) }

func (r *reader) collect(to *[]string, sql string) error {
	rows, err := r.Exec(sql)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row[0] != "" {
			*to = append(*to, row[0])
		}
	}
	return nil
}

// apply makes the table on another shard, without what belongs after the rows.
func (d *Definition) apply(s *session) error {
	if err := d.checkRoles(s); err != nil {
		return err
	}
	for _, rel := range d.Relations {
		kind, err := s.one("SELECT relkind FROM pg_class WHERE oid = to_regclass(" + quote.Literal(rel) + ")")
		if err != nil {
			return err
		}
		if kind != "" {
			return pgerr.New(pgerr.DuplicateTable, "relation %s already exists on shard %q", rel, s.shard).
				WithHint("Nobody but weft should make relations there. Look at it, and drop it if nothing needs it.")
		}
	}
	if err := applyObjects(s, d.Needs); err != nil {
		return err
	}
	return s.only(d.Before...)
}

// checkRoles refuses when the shard lacks a role that the definition names.
func (d *Definition) checkRoles(s *session) error {
	return checkRoles(s, d.Roles)
}

func checkRoles(s *session, roles []string) error {
	var names []string
	for _, r := range roles {
		names = append(names, quote.Literal(r))
	}
	if len(names) == 0 {
		return nil
	}
	rows, err := s.Exec("SELECT r FROM unnest(ARRAY[" + strings.Join(names, ",") + "]::text[]) r WHERE r NOT IN (SELECT rolname FROM pg_roles) ORDER BY 1")
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		return pgerr.New(pgerr.UndefinedObject, "role %q does not exist on shard %q", rows[0][0], s.shard).
			WithHint("Owners and grantees of a declared table must exist on every shard: create the role there first.")
	}
	return nil
}

// applyObjects makes the objects that a shard lacks, and refuses if the shard has a different one
// of the same name.
func applyObjects(s *session, objects []Object) error {
	for _, o := range objects {
		there, err := readObject(s, o.Kind, o.Name)
		if err != nil {
			return err
		}
		switch {
		case there == nil && len(o.Create) == 0:
			return pgerr.New(pgerr.UndefinedObject, "the table needs the %s %s, which shard %q does not have", o.Kind, o.Name, s.shard).
				WithHint("weft cannot copy this kind of object: create it on every shard first.")
		case there == nil:
			if err := s.only(o.Create...); err != nil {
				return err
			}
			if err := s.only(o.Dress...); err != nil {
				return err
			}
		case !slices.Equal(endless(there.Create), endless(o.Create)):
			return pgerr.New(pgerr.DuplicateObject, "the %s %s on shard %q differs from the one on the home shard", o.Kind, o.Name, s.shard).
				WithDetail("Home: %s. There: %s.", strings.Join(o.Create, "; "), strings.Join(there.Create, "; ")).
				WithHint("Make them equal, or drop the one on %s if nothing needs it.", s.shard)
		}
	}
	return nil
}

// number reads a count that a shard returned.
func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
