package proxy

import (
	"context"
	"fmt"
	"maps"
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

// resumeLookups goes on with lookups that proxies were making which are gone. Those
// are seen in the schemas that this proxy has read.
func (s *Server) resumeLookups(ctx context.Context) {
	s.envs.mu.Lock()
	slots := maps.Clone(s.envs.loaded)
	s.envs.mu.Unlock()
	for database, slot := range slots {
		select {
		case slot.turn <- struct{}{}:
		default:
			continue // it is being read
		}
		schema := slot.schema
		<-slot.turn
		if schema == nil {
			continue
		}
		for _, rel := range schema.LookedUp() {
			for _, l := range rel.Lookups {
				if l.Public || l.Job == s.cfg.Proxy && s.mover.Running("lookup "+l.Name) || l.Job != s.cfg.Proxy && s.alive(ctx, l.Job) {
					continue
				}
				if err := s.mover.ResumeLookup(ctx, database, rel.Name, l); err != nil && ctx.Err() == nil {
					s.log.Warn("unfinished lookup", "lookup", l.Name, "err", err)
				}
			}
		}
	}
}
