package proxy

import (
	"context"
	"fmt"
	"strings"

	"weft/pgerr"
	"weft/schema"
)

// callLookup runs one of the functions that make, drop and compare lookups.
func (s *Session) callLookup(ctx context.Context, name string, req *schema.Request, args map[string]string, tell schema.Notice) error {
	for _, c := range strings.Split(args["columns"], ",") {
		if c = strings.TrimSpace(c); c != "" {
			req.Columns = append(req.Columns, unquote(c))
		}
	}
	if len(req.Columns) == 0 {
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
	switch name {
	case "create_lookup":
		return s.srv.mover.CreateLookup(ctx, r, tell)
	case "drop_lookup":
		return s.srv.mover.DropLookup(ctx, r)
	}
	report, err := s.srv.mover.VerifyLookup(ctx, r, tell)
	if err != nil {
		return err
	}
	e := &pgerr.Error{Severity: pgerr.SeverityNotice, Code: "00000", Message: fmt.Sprintf("lookup of %s (%s): %d rows compared, %d entries were missing, %d were stale; repaired",
		req.Table.Name, strings.Join(req.Columns, ", "), report.Rows, report.Missing, report.Stale)}
	if report.Duplicates > 0 {
		e.Severity, e.Code = pgerr.SeverityWarning, "23505"
		e.Detail = fmt.Sprintf("%d values are in rows of more than one shard, which only a change of the rows can repair.", report.Duplicates)
	}
	tell(e)
	return nil
}
