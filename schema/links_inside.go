package schema

import (
	"context"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// InsideLinks are the changes that let foreign keys contain the shard key of a table without rows, which is declared inside a
// transaction block: in the transaction that declares it.
type InsideLinks struct {
	// All are the statements for every shard, about tables that are declared. Home are those for the home shard, which come after:
	// the other shards get the table as these leave it.
	All, Home []string
	Notices   []*pgerr.Error
}

// KeyInside finds the changes that a declaration needs, over a connection to the home shard on which a transaction is open that
// has the table locked. It changes settings of the connection: the caller rolls back to a savepoint.
func KeyInside(ctx context.Context, c Conn, snap *directory.Snapshot, req Request) (*InsideLinks, error) {
	s := &session{Conn: c, ctx: ctx}
	if err := s.run(settings + quote.Literal("weft")); err != nil {
		return nil, err
	}
	schema, err := catalog.Load(0, insideConn{c}.Exec)
	if err != nil {
		return nil, err
	}
	if err := owner(s, &req); err != nil {
		return nil, err
	}
	found, err := findLinks(&links{inside: true}, schema, snap, []Request{req})
	if err != nil {
		return nil, err
	}
	out := &InsideLinks{}
	for _, u := range found.uniques {
		add := "ALTER TABLE " + u.table.SQL() + " ADD UNIQUE (" + quote.Idents(u.columns) + ")"
		if u.all {
			out.All = append(out.All, add)
		} else {
			out.Home = append(out.Home, add)
		}
	}
	for i := range found.keyed {
		l := &found.keyed[i]
		name := quote.Ident(l.was.Name)
		out.Home = append(out.Home, "ALTER TABLE "+l.was.Table.SQL()+" DROP CONSTRAINT "+name+", ADD CONSTRAINT "+name+" "+l.now.Definition)
	}
	found.tell(func(n *pgerr.Error) { out.Notices = append(out.Notices, n) })
	return out, nil
}
