package schema

import (
	"context"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// followLookups makes the lookups that a table's unique indexes need when the table has been
// declared, or drops its lookups when the table is home again. Statements that name the table wait
// meanwhile, so proxies need not be told of the steps in between.
func (m *Mover) followLookups(ctx context.Context, snap *directory.Snapshot, t *directory.Table) error {
	if t.Kind != directory.Sharded {
		return nil
	}
	table := catalog.Name{Schema: t.Schema, Name: t.Name}
	home, err := open(ctx, m.cfg.Shards, snap.Home, t.Database, t.Job.User, "weft")
	if err != nil {
		return err
	}
	defer home.close()
	if may, err := mayNeedLookups(home, t); err != nil || !may {
		return err
	}
	schema, err := catalog.Load(0, home.Exec)
	if err != nil {
		return err
	}
	rel := schema.Relation(table)
	if rel == nil {
		return nil
	}
	if t.State == directory.Undeclaring {
		for _, l := range rel.Lookups {
			if err := m.dropLookupAt(ctx, snap.Home, t.Database, l.Name); err != nil {
				return err
			}
		}
		return nil
	}
	for _, u := range needLookups(rel, t) {
		req := lookupFor(Request{Database: t.Database, User: t.Job.User, Table: table}, u)
		spec, err := judgeLookup(schema, snap, &req)
		if err != nil {
			return err
		}
		if spec.known != nil && spec.known.Public {
			continue
		}
		j := &lookupJob{Mover: m, ctx: ctx, snap: snap.For(req.Database), spec: spec, req: &req.Request, notice: func(*pgerr.Error) {}, quiet: true}
		err = j.build()
		j.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// mayNeedLookups reports whether a table has lookups, or a unique index without the whole key. Most
// tables have neither and need no closer look.
func mayNeedLookups(home *session, t *directory.Table) (bool, error) {
	table := "to_regclass(" + quote.Literal(catalog.Name{Schema: t.Schema, Name: t.Name}.SQL()) + ")"
	var keys []string
	for _, c := range t.Columns {
		keys = append(keys, quote.Literal(c.Name))
	}
	found, err := home.one("SELECT count(*) FROM pg_index i WHERE i.indisunique AND i.indrelid = " + table +
		" AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attname IN (" + strings.Join(keys, ", ") + ") AND NOT a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]))")
	if err != nil || found != "0" {
		return found != "0", err
	}
	if made, err := home.one("SELECT to_regclass('weft.lookup')"); err != nil || made == "" {
		return false, err
	}
	found, err = home.one("SELECT count(*) FROM weft.lookup WHERE owner = " + table)
	return found != "0", err
}

// needLookups returns the unique indexes that single shards cannot keep unique, one for each lookup that keeps them.
func needLookups(rel *catalog.Relation, t *directory.Table) []*catalog.Unique {
	var out []*catalog.Unique
	for i := range rel.Unique {
		u := &rel.Unique[i]
		whole := !slices.ContainsFunc(t.Columns, func(k directory.Column) bool { return !slices.Contains(u.Columns, k.Name) })
		made := slices.ContainsFunc(u.Columns, func(name string) bool {
			c := rel.Column(name)
			return name != "" && (c == nil || generated(c))
		})
		if u.Exclusion || whole || made || slices.ContainsFunc(out, func(o *catalog.Unique) bool { return sameUnique(o, u) }) {
			continue
		}
		out = append(out, u)
	}
	return out
}

// sameUnique reports whether one lookup keeps two indexes unique.
func sameUnique(a, b *catalog.Unique) bool {
	if a.Derived != nil || b.Derived != nil {
		return a.Derived != nil && b.Derived != nil && a.Derived.Shape == b.Derived.Shape
	}
	return sameSet(a.Columns, b.Columns)
}

// lookupFor is the request for the lookup that keeps an index unique.
func lookupFor(req Request, u *catalog.Unique) LookupRequest {
	out := LookupRequest{Request: req, Unique: true}
	if u.Derived != nil {
		out.From = u.Name
	} else {
		out.Columns = u.Columns
	}
	return out
}

// dropLookupAt drops a lookup on one shard.
func (m *Mover) dropLookupAt(ctx context.Context, shard, database, name string) error {
	s, err := open(ctx, m.cfg.Shards, shard, database, m.cfg.Service, "weft lookup "+name)
	if err != nil {
		return err
	}
	defer s.close()
	return s.run("SET lock_timeout = '10s'", "SELECT weft.lookup_drop(name) FROM weft.lookup WHERE name = "+quote.Literal(name))
}
