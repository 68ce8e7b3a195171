package proxy

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"weft/directory"
	"weft/pgerr"
	"weft/schema"
)

// declaring has a job do what declaring tables needs besides carrying rows.
type declaring struct {
	*schema.Mover
	online *schema.Online
}

// PrepareMove implements carrier.Rows.
func (d declaring) PrepareMove(ctx context.Context, snap *directory.Snapshot, m directory.Move) (*schema.MoveSizes, error) {
	if m.Group != "" && !m.GoesHome() {
		if err := d.online.Prepare(ctx, snap, m); err != nil {
			return nil, err
		}
	}
	return d.Mover.PrepareMove(ctx, snap, m)
}

// FinishMove implements carrier.Rows.
func (d declaring) FinishMove(ctx context.Context, snap *directory.Snapshot, m directory.Move) error {
	if err := d.Mover.FinishMove(ctx, snap, m); err != nil || m.Group == "" {
		return err
	}
	if m.GoesHome() {
		if err := d.online.Dissolve(ctx, snap, m); err != nil {
			return err
		}
	}
	if m.Back {
		return d.EndMove(ctx, snap, &m, "cancelled", m.Reason)
	}
	return nil
}

// onlineCall runs the functions that declare tables while clients use them.
type onlineCall struct{ *utility }

// onlineOptions are the arguments that say how a table is declared.
type onlineOptions struct {
	chosen, online bool // chosen: the caller has said whether online
	cascade        bool
	wait           bool
	move           directory.MoveOptions
}

func readOnline(args map[string]string) (o onlineOptions, err error) {
	o.wait = true
	for name, into := range map[string]*bool{"online": &o.online, "cascade": &o.cascade, "cascade_via_foreign_keys": &o.cascade, "wait": &o.wait} {
		text, given := args[name]
		if !given {
			continue
		}
		if *into, err = boolean(text); err != nil {
			return o, pgerr.New(pgerr.InvalidParameterValue, "%s can be true or false, not %q", name, text)
		}
		if name == "online" {
			o.chosen = true
		}
	}
	_, bounded := args["max_pause"]
	o.move.Stretch = !bounded
	return o, moveOptions(args, &o.move)
}

// boolean reads a boolean as SQL writes it.
func boolean(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "on", "yes", "y":
		return true, nil
	case "off", "no", "n":
		return false, nil
	}
	return strconv.ParseBool(strings.ToLower(text))
}

// shardTable declares a table, online or at once.
func (u onlineCall) shardTable(ctx context.Context, req *schema.Request, args map[string]string, tell schema.Notice) error {
	o, err := readOnline(args)
	if err != nil {
		return err
	}
	online := schema.NewOnline(u.s.srv.mover)
	if o.cascade {
		if o.chosen && !o.online {
			return pgerr.New(pgerr.InvalidParameterValue, "cascade => true declares tables online").WithHint("Leave online out.")
		}
		list, err := online.Related(ctx, *req, tell)
		if err == nil {
			err = u.s.srv.mover.KeyLinks(ctx, list, true, tell)
		}
		if err != nil {
			return err
		}
		return u.declareOnline(ctx, list, o, tell)
	}
	if err := u.s.srv.mover.KeyLinks(ctx, []schema.Request{*req}, o.online, tell); err != nil {
		return err
	}
	switch {
	case o.chosen && !o.online:
		return u.s.srv.mover.Shard(ctx, *req, tell)
	case o.chosen:
		return u.declareOnline(ctx, []schema.Request{*req}, o, tell)
	}
	large, err := online.Large(ctx, req)
	if err == nil && large {
		err = u.declareOnline(ctx, []schema.Request{*req}, o, tell)
		if !schema.Offline(err) {
			return err
		}
		e := pgerr.From(err)
		tell(&pgerr.Error{Severity: pgerr.SeverityNotice, Code: "00000", Message: "the table is locked while its rows are copied: " + e.Message, Hint: e.Hint})
		err = nil
	}
	if err != nil {
		return err
	}
	return u.s.srv.mover.Shard(ctx, *req, tell)
}

// declareOnline declares tables online, and waits until their rows are where they belong.
func (u onlineCall) declareOnline(ctx context.Context, list []schema.Request, o onlineOptions, tell schema.Notice) error {
	move := u.newMove(directory.MoveDeclare)
	move.Options = o.move
	if err := schema.NewOnline(u.s.srv.mover).Declare(ctx, list, move, tell); err != nil {
		return err
	}
	u.s.log.Info("tables are declared, and their rows begin to move", "job", move.ID, "database", move.Database, "user", move.User)
	u.declared(ctx)
	return u.await(ctx, move.ID, o.wait, tell)
}

// await tells of a job, and waits until it is over if it is to.
func (u onlineCall) await(ctx context.Context, id string, wait bool, tell schema.Notice) error {
	tell(&pgerr.Error{
		Severity: pgerr.SeverityNotice, Code: "00000", Message: fmt.Sprintf("job %s carries the rows; clients go on meanwhile, and it goes on if you do not wait", id),
		Hint: fmt.Sprintf("SELECT * FROM weft.moves WHERE job = '%s' shows it, SELECT weft.cancel_move('%s') takes the rows back.", id, id),
	})
	if !wait {
		return nil
	}
	return u.over(ctx, id)
}

// over waits until a job is over. A job that was cancelled is an error.
func (u onlineCall) over(ctx context.Context, id string) error {
	if err := (moveCall{u.s}).waitMove(ctx, map[string]string{"job": id}); err != nil {
		return err
	}
	rec, err := moveCall{u.s}.remembered(ctx, id)
	if err == nil && directory.MoveState(rec.State) == directory.MoveCancelled {
		err = pgerr.New(pgerr.QueryCanceled, "job %s was cancelled: the rows are where they were", id)
	}
	return err
}

// shardTables declares tables that belong together: 'customers.id, orders.customer_id'.
func (u onlineCall) shardTables(ctx context.Context, args map[string]string) error {
	o, err := readOnline(args)
	if err != nil {
		return err
	}
	list, err := u.requests(args["tables"])
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Links, err = linksOf(args); err != nil {
			return err
		}
	}
	u.s.hub().Expect(ctx)
	tell := func(e *pgerr.Error) {
		u.s.out.tell(e)
		_ = u.s.out.flushClient()
	}
	if err := u.s.srv.mover.KeyLinks(ctx, list, true, tell); err != nil {
		return err
	}
	return u.declareOnline(ctx, list, o, tell)
}

// requests reads a list of tables with their key columns.
func (u onlineCall) requests(text string) ([]schema.Request, error) {
	var out []schema.Request
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		at := strings.LastIndexByte(part, '.')
		if strings.HasSuffix(part, `"`) { // the dot may be in the quoted column
			at = strings.LastIndex(part, `."`)
		}
		if at <= 0 || at == len(part)-1 {
			return nil, pgerr.New(pgerr.InvalidParameterValue, "%q is no table with its key column", part).WithHint("Write 'customers.id, orders.customer_id'.")
		}
		req, err := u.request(map[string]string{"table": part[:at]})
		if err != nil {
			return nil, err
		}
		column := unquote(part[at+1:])
		if n := len(out) - 1; n >= 0 && out[n].Table == req.Table {
			out[n].Columns = append(out[n].Columns, column)
			continue
		}
		for i := range out {
			if out[i].Table == req.Table {
				return nil, pgerr.New(pgerr.InvalidParameterValue, "%q is in the list twice", req.Table.Name).WithHint("Write the columns of one key one after the other.")
			}
		}
		req.Columns = []string{column}
		out = append(out, *req)
	}
	return out, nil
}

// unshardTable takes a declaration back, online or at once.
func (u onlineCall) unshardTable(ctx context.Context, req *schema.Request, args map[string]string, tell schema.Notice) error {
	o, err := readOnline(args)
	if err != nil {
		return err
	}
	online := schema.NewOnline(u.s.srv.mover)
	switch {
	case o.cascade && o.chosen && !o.online:
		return pgerr.New(pgerr.InvalidParameterValue, "cascade => true takes declarations back online").WithHint("Leave online out.")
	case o.cascade:
		list, err := online.RelatedDeclared(ctx, *req, tell)
		if err != nil {
			return err
		}
		return u.undeclareOnline(ctx, list, o, tell)
	case o.chosen && !o.online:
		return u.s.srv.mover.Unshard(ctx, *req, tell)
	case o.chosen:
		return u.undeclareOnline(ctx, []schema.Request{*req}, o, tell)
	}
	large, err := online.Large(ctx, req)
	if err == nil && large {
		err = u.undeclareOnline(ctx, []schema.Request{*req}, o, tell)
		if !schema.Offline(err) {
			return err
		}
		e := pgerr.From(err)
		tell(&pgerr.Error{Severity: pgerr.SeverityNotice, Code: "00000", Message: "the table is locked while its rows are copied: " + e.Message, Hint: e.Hint})
		err = nil
	}
	if err != nil {
		return err
	}
	return u.s.srv.mover.Unshard(ctx, *req, tell)
}

// undeclareOnline takes declarations back online, and waits until all rows are at home.
func (u onlineCall) undeclareOnline(ctx context.Context, list []schema.Request, o onlineOptions, tell schema.Notice) error {
	move := u.newMove(directory.MoveUndeclare)
	move.Options = o.move
	if err := schema.NewOnline(u.s.srv.mover).Undeclare(ctx, list, move); err != nil {
		return err
	}
	u.s.log.Info("rows of tables begin to move home", "job", move.ID, "database", move.Database, "user", move.User)
	return u.await(ctx, move.ID, o.wait, tell)
}
