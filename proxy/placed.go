package proxy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/directory"
	"weft/pgerr"
	"weft/planner"
	"weft/quote"
)

// weft.distribute_function declares that a function runs on the shard that one of its
// arguments determines: see planner/placed.go.

// findFunction finds the function that a call names. It returns a row for each argument, in
// order, or one row if there is none: schema and name of the function, OID and name of the
// argument's type, name of the argument, and whether the client owns the function.
func (u *utility) findFunction(args map[string]string) ([][]string, error) {
	name, ok := args["function"]
	if !ok {
		return nil, pgerr.New("22004", "the function must not be null")
	}
	cast := "regproc"
	if strings.Contains(name, "(") {
		cast = "regprocedure"
	}
	rows, err := u.s.route.askHome("SELECT n.nspname, p.proname, t.oid, pg_catalog.format_type(t.oid, NULL), coalesce(p.proargnames[a.i], ''), pg_catalog.pg_has_role(p.proowner, 'USAGE') " +
		"FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace " +
		"LEFT JOIN LATERAL pg_catalog.unnest(p.proargtypes::oid[]) WITH ORDINALITY a(t, i) ON true LEFT JOIN pg_catalog.pg_type t ON t.oid = a.t " +
		"WHERE p.oid = " + quote.Literal(name) + "::pg_catalog." + cast + " ORDER BY a.i")
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, pgerr.New(pgerr.UndefinedFunction, "function %s does not exist", name)
	}
	if rows[0][5] != "t" {
		return nil, pgerr.New(pgerr.InsufficientPrivilege, "must be owner of function %s", rows[0][1])
	}
	return rows, nil
}

// placeFunction is weft.distribute_function.
func (u *utility) placeFunction(ctx context.Context, args map[string]string) error {
	rows, err := u.findFunction(args)
	if err != nil {
		return err
	}
	arg, ok := args["argument"]
	if !ok {
		// Citus copies a function to all shards with such a call. With weft all shards have
		// the function.
		return nil
	}
	at := slices.IndexFunc(rows, func(r []string) bool { return r[4] == unquote(arg) && r[4] != "" })
	if n, err := strconv.Atoi(strings.TrimPrefix(arg, "$")); err == nil && n >= 1 && n <= len(rows) {
		at = n - 1
	}
	if at < 0 || rows[at][2] == "" {
		return pgerr.New(pgerr.InvalidParameterValue, "function %s has no argument %q", rows[0][1], arg).WithHint("Give its name, or $1, $2, ….")
	}
	oid, err := strconv.ParseUint(rows[at][2], 10, 32)
	if err != nil {
		return err
	}
	f := directory.Function{
		Database: u.s.db.Name, Schema: rows[0][0], Name: rows[0][1], Argument: at,
		Column: directory.Column{Name: rows[at][4], Type: uint32(oid), TypeName: rows[at][3], Mod: -1},
		Vindex: directory.Vindex{Kind: "hash"},
	}
	if like, ok := args["colocate_with"]; ok && like != "" && like != "default" {
		if err := u.placeLike(&f, like); err != nil {
			return err
		}
	}
	env, err := u.s.route.environment()
	if err != nil {
		return err
	}
	if e := planner.CheckPlaced(env, &f, u.s.route.snap.BucketCount); e != nil {
		return e
	}
	return u.changeFunctions(ctx, func(next *directory.Snapshot) { next.PutFunction(f) })
}

// placeLike gives f the vindex of a declared table.
func (u *utility) placeLike(f *directory.Function, like string) error {
	req, err := u.request(map[string]string{"table": like})
	if err != nil {
		return err
	}
	t := u.s.route.snap.Table(u.s.db.Name, req.Table.Schema, req.Table.Name)
	if t == nil || t.Kind != directory.Sharded || len(t.Columns) != 1 {
		return pgerr.New(pgerr.InvalidParameterValue, "%q is not sharded by one column", like)
	}
	f.Vindex = t.Vindex
	return nil
}

// unplaceFunction is weft.undistribute_function.
func (u *utility) unplaceFunction(ctx context.Context, args map[string]string) error {
	rows, err := u.findFunction(args)
	if err != nil {
		return err
	}
	there := false
	err = u.changeFunctions(ctx, func(next *directory.Snapshot) { there = next.DropFunction(u.s.db.Name, rows[0][0], rows[0][1]) })
	if err == nil && !there {
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "function %s is not declared", rows[0][1])
	}
	return err
}

// changeFunctions changes declarations of functions, and waits until every proxy knows the
// change.
func (u *utility) changeFunctions(ctx context.Context, do func(*directory.Snapshot)) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	next, err := u.s.srv.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		do(next)
		next.Schemas = counted(next.Schemas, u.s.db.Name)
		return next, nil
	})
	if err == nil {
		err = u.s.srv.keeper.spreadVersion(ctx, next.Version)
	}
	if err != nil {
		return fmt.Errorf("declare function: %w", err)
	}
	u.s.route.refresh()
	return nil
}
