package proxy

import (
	"context"
	"strings"

	"weft/pgerr"
	"weft/quote"
	"weft/schema"
)

// alterShardKey gives a sharded table another key while clients use it: one job takes its rows home, and another one
// from there to where the new key says. In between it is a table that is not declared.
func (u onlineCall) alterShardKey(ctx context.Context, req *schema.Request, args map[string]string, tell schema.Notice) error {
	for _, name := range []string{"shard_count", "colocate_with", "online", "wait", "until", "ids", "ids_column"} {
		if _, given := args[name]; given {
			return pgerr.New(pgerr.FeatureNotSupported, "a shard key cannot be changed with %s", name).WithHint("Give the table, its new key columns, the vindex, cascade and the options of moves.")
		}
	}
	o, err := readOnline(args)
	if err != nil {
		return err
	}
	if err := declaration(req, args); err != nil {
		return err
	}
	list, err := schema.NewOnline(u.s.srv.mover).Rekey(ctx, *req, o.cascade, tell)
	if schema.Offline(err) {
		e := *pgerr.From(err)
		e.Hint = "Take the declaration back with weft.unshard_table, and declare the table by its new key with weft.shard_table, both with online => false: it is locked while its rows are copied."
		return &e
	}
	if err != nil {
		return err
	}
	var again []string
	for i := range list {
		for _, c := range list[i].Columns {
			again = append(again, list[i].Table.SQL()+"."+quote.Ident(c))
		}
	}
	rest := "SELECT weft.shard_tables(" + quote.Literal(strings.Join(again, ", ")) + ")"
	if req.Vindex.Kind != "" {
		rest = "weft.shard_table, with this vindex,"
	}
	tell(&pgerr.Error{
		Severity: pgerr.SeverityNotice, Code: "00000", Message: "the rows go home first, and from there to where the new key says; clients go on meanwhile",
		Hint: "If this call does not come to its end, the table is at home or on its way there, and not declared then. " + rest + " does the rest.",
	})
	if err := u.undeclareOnline(ctx, list, o, tell); err != nil {
		return err
	}
	u.declared(ctx)
	err = u.declareOnline(ctx, list, o, tell)
	if err == nil {
		return nil
	}
	snap, loaded := u.s.srv.cfg.Directory.Load(context.WithoutCancel(ctx))
	if e := *pgerr.From(err); loaded == nil && snap.Table(req.Database, req.Table.Schema, req.Table.Name) == nil {
		e.Detail = strings.TrimSpace(e.Detail + " All rows are at home, and the table is not declared.")
		return &e
	}
	return err
}
