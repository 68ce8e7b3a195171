package proxy

import (
	"context"
	"errors"
	"fmt"

	"weft/directory"
	"weft/pgerr"
	"weft/reshard"
	"weft/schema"
)

// alterShardKey gives a sharded table another key while clients use it: one job takes its rows home, and another one,
// which follows it by itself, from there to where the new key says. In between the table is not declared.
func (u onlineCall) alterShardKey(ctx context.Context, req *schema.Request, args map[string]string, tell schema.Notice) error {
	for _, name := range []string{"shard_count", "colocate_with", "online", "until", "ids", "ids_column", "foreign_keys"} {
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
	move := u.newMove(directory.MoveUndeclare)
	move.Options, move.Then = o.move, schema.Then(reshard.NewJobID(), list)
	if err := schema.NewOnline(u.s.srv.mover).Undeclare(ctx, list, move); err != nil {
		return err
	}
	u.s.log.Info("a table gets another key: its rows begin to move home", "job", move.ID, "then", move.Then.Job, "database", move.Database, "user", move.User)
	tell(&pgerr.Error{
		Severity: pgerr.SeverityNotice, Code: "00000",
		Message: fmt.Sprintf("job %s carries the rows home, and job %s from there to where the new key says; clients go on meanwhile, and both go on if you do not wait", move.ID, move.Then.Job),
		Hint:    fmt.Sprintf("SELECT * FROM weft.moves shows them, SELECT weft.cancel_move('%s') takes the rows back as long as the first one runs.", move.ID),
	})
	if !o.wait {
		return nil
	}
	if err := u.over(ctx, move.ID); err != nil {
		return err
	}
	err = u.over(ctx, move.Then.Job)
	u.declared(ctx)
	if e := (*pgerr.Error)(nil); errors.As(err, &e) && e.Code == pgerr.QueryCanceled {
		return pgerr.New(e.Code, "job %s was cancelled: all rows are at home, and the table is not declared", move.Then.Job)
	}
	return err
}
