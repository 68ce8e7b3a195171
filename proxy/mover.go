package proxy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/plan"
	"weft/quote"
	"weft/reshard"
	"weft/schema"
)

// verifiers are the functions that look at all shards, and what they do there.
var verifiers = map[string]reshard.Access{
	"verify_reference": reshard.Write, "verify_lookup": reshard.Write,
}

// callFunction runs one of weft's functions with arguments by name, and returns
// its rows.
func (u *utility) callFunction(ctx context.Context, f *plan.Function, args map[string]string) ([][]string, error) {
	// No bucket moves while shards are looked at one after the other, and repaired.
	if access, ok := verifiers[f.Name]; ok {
		if err := u.s.route.touch.enterAll(access); err != nil {
			return nil, err
		}
	}
	switch f.Name {
	case "pin":
		return isolateCall{u.s}.pin(ctx, args)
	case "distribute_function":
		return nil, u.placeFunction(ctx, args)
	case "undistribute_function":
		return nil, u.unplaceFunction(ctx, args)
	case "token":
		return u.s.held.away.give()
	case "schema_diff":
		list, err := u.s.srv.mover.Diff(ctx, u.s.db.Name, u.s.login.user)
		return schema.Rows(list), err
	case "verify_reference":
		return u.verifyReference(ctx, args)
	case "verify_placement":
		return u.verifyPlacement(ctx, args)
	case "shard_tables":
		return nil, onlineCall{u}.shardTables(ctx, args)
	case "move_buckets":
		return moveCall{u.s}.moveBuckets(ctx, args)
	case "add_shard":
		return u.addShard(ctx, args)
	case "set_shard_state":
		return nil, u.setShardState(ctx, args)
	case "drain_shard":
		return u.drainShard(ctx, args)
	case "remove_shard":
		return nil, u.removeShard(ctx, args)
	case "isolate", "isolate_tenant":
		return isolateCall{u.s}.run(ctx, f.Name, args)
	case "grow_buckets":
		return growCall{u.s}.run(ctx, args)
	case "rebalance":
		return rebalanceCall{u}.run(ctx, args)
	case "plan_heat":
		return planHeatCall{u}.run(ctx)
	case "wait_move":
		return nil, moveCall{u.s}.waitMove(ctx, args)
	case "cancel_move":
		return nil, moveCall{u.s}.cancelMove(ctx, args)
	case "pause_moves":
		return moveCall{u.s}.pauseMoves(ctx, args)
	case "resume_moves":
		return moveCall{u.s}.resumeMoves(ctx, args)
	case "rebalance_stop", "rebalance_wait", "rebalance_status", "rebalance_progress":
		return moveCall{u.s}.citus(ctx, f.Name)
	case "set_move":
		return nil, moveCall{u.s}.setMove(ctx, args)
	case "undo_move":
		return moveCall{u.s}.undoMove(ctx, args)
	case "statements_reset":
		return nil, u.s.route.resetStatements(ctx)
	case "record", "record_stop", "recorded":
		return tapeCall{u.s}.run(ctx, f.Name, args)
	case "throttle":
		return throttleCall{u.s}.throttle(ctx, args)
	case "restore_point":
		return pointCall{u.s}.run(ctx, args)
	case "unthrottle":
		return nil, throttleCall{u.s}.unthrottle(ctx, args)
	case "dismiss":
		return nil, dismissCall{u.s}.run(ctx, args)
	case "verify_lookup":
		return u.verifyLookups(ctx, args)
	}
	return nil, u.declareTable(ctx, f, args)
}

// declareTable runs a function that is about one table.
func (u *utility) declareTable(ctx context.Context, f *plan.Function, args map[string]string) error {
	mover := u.s.srv.mover
	tell := func(e *pgerr.Error) {
		u.s.out.tell(e)
		_ = u.s.out.flushClient()
	}
	if err := u.s.commit.awaitShards(); err != nil {
		return err
	}
	req, err := u.request(args)
	if err != nil {
		return err
	}
	if f.Name == "shard_table" || f.Name == "reference_table" {
		u.s.hub().Expect(ctx)
	}
	switch f.Name {
	case "shard_table":
		if err := declaration(req, args); err != nil {
			return err
		}
		err = onlineCall{u}.shardTable(ctx, req, args, tell)
	case "reference_table":
		err = mover.Reference(ctx, *req, tell)
	case "alter_shard_key":
		err = onlineCall{u}.alterShardKey(ctx, req, args, tell)
	case "unshard_table":
		err = onlineCall{u}.unshardTable(ctx, req, args, tell)
	case "create_lookup", "drop_lookup":
		err = u.callLookup(ctx, f.Name, req, args, tell)
	default:
		err = pgerr.New("42883", "function weft.%s does not exist", f.Name)
	}
	if err == nil {
		u.declared(ctx)
	}
	return err
}

// declared makes the session know what it has just declared.
func (u *utility) declared(ctx context.Context) {
	u.s.db.Generation.Add(1)
	u.installOwn(ctx)
	u.s.commit.keepCopies(ctx)
}

// request finds the table a function was called for.
func (u *utility) request(args map[string]string) (*schema.Request, error) {
	name, ok := args["table"]
	if !ok {
		return nil, pgerr.New("22004", "the table must not be null")
	}
	rows, err := u.s.route.askHome("SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace " +
		"WHERE c.oid = " + quote.Literal(name) + "::pg_catalog.regclass")
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, pgerr.New(pgerr.UndefinedTable, "relation %q does not exist", name)
	}
	if strings.HasPrefix(rows[0][0], "pg_temp") {
		return nil, pgerr.New(pgerr.WrongObjectType, "%q is a temporary table", rows[0][1]).WithHint("A temporary table lives in its session, on the home shard.")
	}
	req := u.newRequest()
	req.Table = catalog.Name{Schema: rows[0][0], Name: rows[0][1]}
	return req, nil
}

// newRequest is a request of the session's user, for no table yet.
func (u *utility) newRequest() *schema.Request {
	timeout, _ := u.s.record.settings.Get("lock_timeout")
	user, _ := u.s.record.settings.Get("session_authorization")
	if user == "" {
		user = u.s.login.user
	}
	return &schema.Request{Database: u.s.db.Name, User: user, LockTimeout: gucDuration(timeout)}
}

// verifyReference compares the copies of one reference table, or of all.
func (u *utility) verifyReference(ctx context.Context, args map[string]string) ([][]string, error) {
	req := u.newRequest()
	if _, named := args["table"]; named {
		var err error
		if req, err = u.request(args); err != nil {
			return nil, err
		}
	}
	lines, err := u.s.srv.mover.VerifyReference(ctx, *req)
	rows := make([][]string, len(lines))
	for i, line := range lines {
		rows[i] = []string{line}
	}
	return rows, err
}

// verifyPlacement looks for misplaced rows of one sharded table, or of all: rows on a shard
// where no query looks for them.
func (u *utility) verifyPlacement(ctx context.Context, args map[string]string) ([][]string, error) {
	req := u.newRequest()
	if _, named := args["table"]; named {
		var err error
		if req, err = u.request(args); err != nil {
			return nil, err
		}
	}
	list, err := u.s.srv.mover.VerifyPlacement(ctx, *req)
	return schema.PlacementRows(list), err
}

// declaration reads the arguments of shard_table.
func declaration(req *schema.Request, args map[string]string) error {
	for _, c := range strings.Split(args["columns"], ",") {
		if c = strings.TrimSpace(c); c != "" {
			req.Columns = append(req.Columns, unquote(c))
		}
	}
	links, err := linksOf(args)
	if err != nil {
		return err
	}
	req.Links = links
	req.IDs, req.IDColumn = args["ids"], unquote(args["ids_column"])
	req.Vindex = directory.Vindex{Kind: args["vindex"], Name: args["name"]}
	params := map[string]any{}
	if text, ok := args["params"]; ok {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&params); err != nil {
			return pgerr.New(pgerr.InvalidParameterValue, "params is not a JSON object: %s", err.Error())
		}
	}
	for name, v := range args {
		if !slices.Contains([]string{
			"table", "columns", "vindex", "name", "params", "colocate_with", "shard_count", "distribution_type", "ids", "ids_column", "foreign_keys",
			"online", "cascade", "wait", "max_pause", "pause_target", "rate", "duty", "verify", "until",
		}, name) {
			params[name] = v
		}
	}
	for name, v := range params {
		if n, ok := v.(json.Number); ok {
			params[name] = n.String()
		}
	}
	if len(params) > 0 {
		req.Vindex.Params = params
	}
	if d := args["distribution_type"]; d != "" && d != "hash" {
		return pgerr.New(pgerr.FeatureNotSupported, "distribution type %q is not supported", d).WithHint("Use weft.shard_table with vindex => '…'.")
	}
	return nil
}

// linksOf reads what becomes of foreign keys that do not contain the shard key.
func linksOf(args map[string]string) (string, error) {
	switch how := args["foreign_keys"]; how {
	case "", "key":
		return "", nil
	case schema.InShard:
		return how, nil
	default:
		return "", pgerr.New(pgerr.InvalidParameterValue, "foreign_keys can be key or shard, not %q", how).
			WithHint("With shard, foreign keys that do not contain the shard key get it; with key, they are refused.")
	}
}

// unquote reads an identifier as SQL does.
func unquote(name string) string {
	if len(name) >= 2 && name[0] == '"' && name[len(name)-1] == '"' {
		return strings.ReplaceAll(name[1:len(name)-1], `""`, `"`)
	}
	return strings.ToLower(name)
}
