package catalog

import pg_query "github.com/pganalyze/pg_query_go/v6"

// collation holds what a Schema needs to know of a collation.
type collation struct{ nondeterministic, bytewise bool }

// createCollation follows CREATE COLLATION. The default provider is the C library
// (libc).
func (d *dump) createCollation(s *pg_query.DefineStmt) error {
	n, err := d.place(nameOf(s.Defnames))
	if err != nil {
		return err
	}
	var c collation
	if from := defined(s, "from"); from != nil {
		c = d.collations[d.collation(&pg_query.CollateClause{Collname: from.GetList().GetItems()})]
	}
	if e := defined(s, "deterministic"); e != nil {
		v := lower(e.GetString_().GetSval())
		c.nondeterministic = v == "false" || v == "off" || v == "0" || e.GetBoolean() != nil && !e.GetBoolean().Boolval
	}
	if provider := lower(optionText(defined(s, "provider"))); provider == "" || provider == "libc" {
		for _, option := range []string{"locale", "lc_collate"} {
			c.bytewise = c.bytewise || isC(optionText(defined(s, option)))
		}
	}
	d.collations[n] = c
	return nil
}

// createDatabase reads the encoding and the default collation from CREATE DATABASE.
func (d *dump) createDatabase(s *pg_query.CreatedbStmt) {
	options := map[string]string{}
	for _, o := range s.Options {
		options[o.GetDefElem().GetDefname()] = optionText(o.GetDefElem().GetArg())
	}
	collate := options["lc_collate"]
	if collate == "" {
		collate = options["locale"]
	}
	d.bytewise = isC(collate) && (options["locale_provider"] == "" || lower(options["locale_provider"]) == "libc")
	if e := options["encoding"]; e != "" {
		d.encoding = e
	}
}

func isC(locale string) bool { return locale == "C" || locale == "POSIX" }

// optionText returns the value of an option that is a word, with or without quotes.
func optionText(n *pg_query.Node) string {
	if s := n.GetString_(); s != nil {
		return s.Sval
	}
	return lastName(n.GetTypeName().GetNames())
}

// collatable reports whether a type, or the element type of an array type, uses the
// database's default collation. Type name does not: its collation is C. Types of
// extensions are not known, so collatable reports false for them.
func collatable(oid uint32) bool {
	for _, name := range []string{"text", "varchar", "bpchar"} {
		if b := builtinTypes[name]; oid == b.oid || oid == b.array {
			return true
		}
	}
	return false
}

// collation resolves the name in COLLATE. A name that no CREATE COLLATION has made
// is taken for a collation of pg_catalog. The default collation is the empty Name.
func (d *dump) collation(c *pg_query.CollateClause) Name {
	n := nameOf(c.Collname)
	if n.Schema == "" {
		for _, schema := range d.path {
			if _, ok := d.collations[Name{schema, n.Name}]; ok {
				return Name{schema, n.Name}
			}
		}
		n.Schema = "pg_catalog"
	}
	if n == (Name{"pg_catalog", "default"}) {
		return Name{}
	}
	return n
}
