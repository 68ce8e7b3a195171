package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/directory"
	"weft/quote"
	"weft/vindex"
)

// Table declares a table: sharded by a vindex on its columns, or a reference
// table. A proxy does it, because rows have to move.
type Table struct {
	Database string `yaml:"database"`
	// Table is its name as SQL spells it. Without a schema it is in public.
	Table string `yaml:"table"`
	// Reference: a full copy on every shard. Then the rest is empty.
	Reference bool     `yaml:"reference"`
	Columns   []string `yaml:"columns"`
	// Vindex is its kind. Empty: hash.
	Vindex string `yaml:"vindex"`
	// Name is that of a lookup.
	Name   string         `yaml:"name"`
	Params map[string]any `yaml:"params"`
}

// Name is a table's name in one database.
type Name struct{ Database, Schema, Table string }

// Resolve returns the name without SQL's spelling.
func (t *Table) Resolve() (Name, error) {
	parts, err := identifiers(t.Table)
	if err != nil {
		return Name{}, err
	}
	switch len(parts) {
	case 1:
		return Name{t.Database, "public", parts[0]}, nil
	case 2:
		return Name{t.Database, parts[0], parts[1]}, nil
	}
	return Name{}, fmt.Errorf("%q is not schema.table", t.Table)
}

// identifiers splits a qualified name as SQL does.
func identifiers(s string) ([]string, error) {
	var out []string
	bad := fmt.Errorf("%q is not the name of a table: write schema.table, with double quotes where SQL wants them", s)
	for rest := s; ; {
		var part string
		if inner, quoted := strings.CutPrefix(rest, `"`); quoted {
			var b strings.Builder
			for {
				text, after, closed := strings.Cut(inner, `"`)
				if !closed {
					return nil, bad
				}
				b.WriteString(text)
				if inner, closed = strings.CutPrefix(after, `"`); !closed {
					rest = after
					break
				}
				b.WriteByte('"') // a doubled one
			}
			part = b.String()
		} else {
			n := strings.IndexByte(rest, '.')
			if n < 0 {
				n = len(rest)
			}
			part, rest = rest[:n], rest[n:]
			if strings.ContainsAny(part, " \t\n\"'();,") {
				return nil, bad
			}
			part = strings.ToLower(part)
		}
		if part == "" {
			return nil, bad
		}
		out = append(out, part)
		if rest == "" {
			return out, nil
		}
		var dot bool
		if rest, dot = strings.CutPrefix(rest, "."); !dot {
			return nil, bad
		}
	}
}

// kind is the vindex's, also where it is left out.
func (t *Table) kind() string {
	if t.Vindex == "" {
		return "hash"
	}
	return t.Vindex
}

// tableProblems adds what is wrong with the declarations. What a column's type has
// to do with is found by the proxy that declares the table.
func (c Cluster) tableProblems(ps *Problems) {
	seen := map[Name]int{}
	for i := range c.Tables {
		t := &c.Tables[i]
		place := fmt.Sprintf("tables[%d]", i)
		if t.Database == "" {
			ps.add(place+".database", "is needed")
		}
		name, err := t.Resolve()
		if t.Table == "" {
			ps.add(place+".table", "is needed")
		} else if err != nil {
			ps.add(place+".table", "%v", err)
		} else if j, dup := seen[name]; dup {
			ps.add(place+".table", "%s is also tables[%d]", t.Table, j)
		} else {
			seen[name] = i
		}
		v := directory.Vindex{Kind: t.kind()}
		switch {
		case t.Reference:
			if len(t.Columns) > 0 || t.Vindex != "" || t.Name != "" || len(t.Params) > 0 {
				ps.add(place+".reference", "a reference table has neither columns nor a vindex")
			}
		case len(t.Columns) == 0:
			ps.add(place+".columns", "at least one is needed, or reference: true")
		case !slices.Contains(vindex.Kinds(), v.Kind):
			hint := suggest(v.Kind, vindex.Kinds())
			if hint == "" {
				hint = "; known are " + strings.Join(vindex.Kinds(), ", ")
			}
			ps.add(place+".vindex", "unknown kind %q%s", v.Kind, hint)
		case v.Lookup() && t.Name == "":
			ps.add(place+".name", "is needed: a %s keeps its entries under it", v.Kind)
		case !v.Lookup() && t.Name != "":
			ps.add(place+".name", "only lookups have one, and this is a %s", v.Kind)
		}
	}
}

// Statement is what declares the table, through a proxy.
func (t *Table) Statement() (string, error) {
	if t.Reference {
		return "SELECT weft.reference_table(" + quote.Literal(t.Table) + ")", nil
	}
	args := []string{quote.Literal(t.Table), quote.Literal(strings.Join(t.Columns, ", "))}
	if t.Vindex != "" {
		args = append(args, "vindex => "+quote.Literal(t.Vindex))
	}
	if t.Name != "" {
		args = append(args, "name => "+quote.Literal(t.Name))
	}
	if len(t.Params) > 0 {
		b, err := json.Marshal(t.Params)
		if err != nil {
			return "", fmt.Errorf("params of %s: %w", t.Table, err)
		}
		args = append(args, "params => "+quote.Literal(string(b)))
	}
	return "SELECT weft.shard_table(" + strings.Join(args, ", ") + ")", nil
}

// Undeclared returns the tables that s does not have. A table that s has
// otherwise is an error.
func (c Cluster) Undeclared(s *directory.Snapshot) ([]Table, error) {
	var out []Table
	var errs []error
	for i := range c.Tables {
		t := &c.Tables[i]
		n, err := t.Resolve()
		if err != nil {
			return nil, err
		}
		var have *directory.Table
		if s != nil {
			have = s.Table(n.Database, n.Schema, n.Table)
		}
		if have == nil {
			out = append(out, *t)
		} else if why := t.differs(have); why != "" {
			errs = append(errs, fmt.Errorf("tables[%d]: %s in database %s is declared otherwise: %s; take the declaration back with SELECT weft.unshard_table(%s), or change the file",
				i, t.Table, t.Database, why, quote.Literal(t.Table)))
		}
	}
	return out, errors.Join(errs...)
}

// differs says how a declaration differs from t; nothing if it does not.
func (t *Table) differs(have *directory.Table) string {
	if t.Reference != (have.Kind == directory.Reference) {
		return fmt.Sprintf("it is a %s table", have.Kind)
	}
	if t.Reference {
		return ""
	}
	var columns []string
	for _, c := range have.Columns {
		columns = append(columns, c.Name)
	}
	want := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		want[i] = c
		if parts, err := identifiers(c); err == nil && len(parts) == 1 {
			want[i] = parts[0]
		}
	}
	if !slices.Equal(columns, want) {
		return "by " + strings.Join(columns, ", ")
	}
	v := directory.Vindex{Name: t.Name, Kind: t.kind(), Params: t.Params, Buckets: have.Vindex.Buckets}
	if !v.Equal(&have.Vindex) {
		return "its vindex is " + have.Vindex.String()
	}
	return ""
}

// Describe returns a declaration as a Table of a file, by the names of its keys.
func Describe(t *directory.Table) map[string]any {
	out := map[string]any{"database": t.Database, "table": quote.Name(t.Schema, t.Name)}
	if t.Kind == directory.Reference {
		out["reference"] = true
		return out
	}
	columns := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		columns[i] = quote.Ident(c.Name)
	}
	out["columns"], out["vindex"] = columns, t.Vindex.Kind
	if t.Vindex.Name != "" {
		out["name"] = t.Vindex.Name
	}
	if len(t.Vindex.Params) > 0 {
		out["params"] = t.Vindex.Params
	}
	return out
}
