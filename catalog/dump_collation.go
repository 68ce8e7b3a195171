package catalog

import pg_query "github.com/pganalyze/pg_query_go/v6"

// collation is what is known of one.
type collation struct{ nondeterministic, bytewise bool }

// createCollation follows CREATE COLLATION. A text without a provider means the
// C library's.
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

// createDatabase reads how strings compare.
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

// optionText is the value of an option that is a word, however it was written.
func optionText(n *pg_query.Node) string {
	if s := n.GetString_(); s != nil {
		return s.Sval
	}
	return lastName(n.GetTypeName().GetNames())
}

// collatable reports whether a type, or what it is an array of, has a collation.
// name has one of its own. Of an extension's type nothing is known.
func collatable(oid uint32) bool {
	for _, name := range []string{"text", "varchar", "bpchar"} {
		if b := builtinTypes[name]; oid == b.oid || oid == b.array {
			return true
		}
	}
	return false
}

// collation resolves COLLATE. What is not known is PostgreSQL's own.
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
