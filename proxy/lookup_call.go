package proxy

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"weft/pgerr"
	"weft/plan"
	"weft/schema"
)

// callLookup runs one of the functions that make and drop lookups.
func (u *utility) callLookup(ctx context.Context, name string, req *schema.Request, args map[string]string, tell schema.Notice) error {
	if req.Columns = columnList(args["columns"]); len(req.Columns) == 0 {
		return pgerr.New(pgerr.InvalidParameterValue, "no column is given").WithHint("SELECT weft.%s('users', 'email').", name)
	}
	r := schema.LookupRequest{Request: *req, Name: args["name"]}
	switch args["unique"] {
	case "", "f", "false", "off", "no", "0":
	case "t", "true", "on", "yes", "1":
		r.Unique = true
	default:
		return pgerr.New(pgerr.InvalidParameterValue, "unique is neither true nor false: %q", args["unique"])
	}
	if name == "create_lookup" {
		return u.s.srv.mover.CreateLookup(ctx, r, tell)
	}
	return u.s.srv.mover.DropLookup(ctx, r)
}

// columnList splits a list of column names at its commas.
func columnList(text string) (out []string) {
	for _, c := range strings.Split(text, ",") {
		if c = strings.TrimSpace(c); c != "" {
			out = append(out, unquote(c))
		}
	}
	return out
}

// verifyLookups compares one lookup, those of a table, or all, and repairs them. It returns a
// row for each.
func (u *utility) verifyLookups(ctx context.Context, args map[string]string) (rows [][]string, err error) {
	tell := func(e *pgerr.Error) {
		u.s.out.tell(e)
		_ = u.s.out.flushClient()
	}
	req := u.newRequest()
	if _, named := args["table"]; named {
		if req, err = u.request(args); err != nil {
			return nil, err
		}
	}
	req.Columns = columnList(args["columns"])
	list := []schema.LookupRequest{{Request: *req}}
	if len(req.Columns) == 0 {
		if list, err = u.s.srv.mover.Lookups(ctx, req); err != nil {
			return nil, err
		}
	}
	for _, r := range list {
		found, err := u.s.srv.mover.VerifyLookup(ctx, r, tell)
		if err != nil {
			return nil, err
		}
		if found.Duplicates > 0 {
			tell(&pgerr.Error{
				Severity: pgerr.SeverityWarning, Code: "23505",
				Message: fmt.Sprintf("%d values of lookup %s are in rows of more than one shard, which only a change of the rows can repair", found.Duplicates, found.Name),
			})
		}
		row := []string{found.Name, quotedName(plan.Name{Schema: r.Table.Schema, Table: r.Table.Name}), found.Key}
		for _, n := range []int64{found.Rows, found.Missing, found.Stale, found.Duplicates} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		rows = append(rows, row)
	}
	return rows, nil
}
