package proxy

import (
	"slices"
	"strings"
	"unicode"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// A schema of a shard that was changed behind weft's back differs from that of the home shard. PostgreSQL's error then names something that users can see
// at home. Its hint says where to look.

// drifted returns an error of a backend, with a hint if the shard lacks what the home shard has.
func drifted(rt *routing, c *pool.Conn, e *pgerr.Error) *pgerr.Error {
	if e.Code != pgerr.UndefinedTable && e.Code != pgerr.UndefinedColumn || rt.snap == nil {
		return e
	}
	home := rt.snap.Shards[rt.homeShard()].Name
	database := rt.s.db.Name
	if c.Shard() == home || !lacked(e, rt.snap.Declared(database), rt.s.srv.memory.envs.slot(database).known()) {
		return e
	}
	hint := "Shard \"" + c.Shard() + "\" lacks what the home shard, \"" + home + "\", has: SELECT * FROM weft.schema_diff() lists what differs."
	if e.Hint != "" {
		hint = e.Hint + " " + hint
	}
	return e.WithHint("%s", hint)
}

// driftedBody is drifted for an error that is on its way to the client.
func driftedBody(rt *routing, c *pool.Conn, body []byte) []byte {
	if code, _ := wire.ErrorField(body, 'C'); code != pgerr.UndefinedTable && code != pgerr.UndefinedColumn {
		return body
	}
	was := pool.ServerError(body)
	hint := was.Hint
	if drifted(rt, c, was).Hint == hint {
		return body
	}
	return wire.AppendError(nil, was)[wire.HeaderLen:]
}

// known returns the schema as last read, nil if none was read or it is being read now.
func (sl *schemaSlot) known() *catalog.Schema {
	select {
	case sl.turn <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-sl.turn }()
	return sl.schema
}

// lacked reports whether a declared table or one of its columns is what an error says is missing. Messages come in all languages, names do not: a name of
// the message is looked for among the declared ones. Where the message names the table too, the column must be that table's.
func lacked(e *pgerr.Error, declared []directory.Table, home *catalog.Schema) bool {
	names := strings.FieldsFunc(e.Message, func(r rune) bool { return r != '_' && r != '$' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	has := func(name string) bool { return slices.Contains(names, name) }
	named := slices.ContainsFunc(declared, func(t directory.Table) bool { return has(t.Name) })
	return slices.ContainsFunc(declared, func(t directory.Table) bool {
		switch {
		case e.Code == pgerr.UndefinedTable:
			return has(t.Name)
		case home == nil || named && !has(t.Name):
			return false
		}
		rel := home.Relation(catalog.Name{Schema: t.Schema, Name: t.Name})
		return rel != nil && slices.ContainsFunc(rel.Columns, func(c catalog.Column) bool { return has(c.Name) })
	})
}
