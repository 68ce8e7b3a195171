package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/console"
	"weft/directory"
	"weft/executor"
	"weft/heat/throttle"
	"weft/pgerr"
	"weft/proxy/peer"
	"weft/proxy/throttler"
	"weft/quote"
)

// newThrottler returns what knows the throttles in effect. A directory that keeps none has none.
func newThrottler(s *Server) *throttler.Throttler {
	return throttler.New(throttler.Config{
		Store: s.cfg.Keeps.Throttles, Log: s.log, Cores: s.keeper.verdicts.cores.all,
		Guarded: func(f func()) func() { return s.guarded("throttles", f) },
		Others: func(ctx context.Context) (counted [][]throttle.Figures, silent int) {
			answers, missing := s.circle.Ask(ctx, peer.Question{Throttles: true})
			for _, b := range answers {
				var list []throttle.Figures
				if json.Unmarshal(b, &list) == nil { // else the other proxy is of another version
					counted = append(counted, list)
				} else {
					silent++
				}
			}
			return counted, silent + len(missing)
		},
	})
}

// all returns how many cores shards have, as far as they say.
func (c *coreCounts) all() map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]float64{}
	for name, n := range c.known {
		out[name] = n.cores
	}
	return out
}

// Throttles implements console.Source.
func (a adminSource) Throttles(ctx context.Context, values bool) []console.Throttle {
	hashed := a.srv.conf().Heat.Hashed
	var out []console.Throttle
	for _, r := range a.srv.keeper.throttles.Rows(ctx) {
		target := r.Target
		if target.Kind == throttle.Key && (hashed || !values) {
			target.Shown = "(hidden)"
		}
		t := console.Throttle{
			ID: r.ID, Kind: string(target.Kind), Target: console.Printable(target.Words()), Database: target.Database, Class: string(r.Class), Allows: r.Limit.Words(), Below: r.Below,
			MaxWait: float64(r.MaxWait) / 1e6, Mode: string(r.Mode), Origin: string(r.Origin), Reason: console.Printable(r.Reason), By: r.By, Created: r.Created,
			Demand: r.Figures.Demand, Passed: r.Figures.Passed, Delayed: r.Figures.Delayed, Refused: r.Figures.Refused, DelayP99: r.Figures.DelayP99,
		}
		if !r.Ends.IsZero() {
			t.Expires = time.Now().Add(time.Until(r.Ends))
		}
		switch target.Kind {
		case throttle.User:
			t.User = target.Name
		case throttle.Database:
			t.Database = target.Name
		}
		out = append(out, t)
	}
	return out
}

// ThrottleShard implements console.Control.
func (a adminSource) ThrottleShard(ctx context.Context, shard, rate, lasts string) (int64, error) {
	call := throttleMaker{srv: a.srv, snap: a.srv.cfg.Snapshot(), by: "admin"}
	return call.put(ctx, map[string]string{"shard": shard, "rate": rate, "duration": lasts}, nil)
}

// Unthrottle implements console.Control.
func (a adminSource) Unthrottle(ctx context.Context, id string) error {
	return throttleMaker{srv: a.srv, by: "admin"}.drop(ctx, id)
}

// throttleMaker makes and ends throttles, for one user.
type throttleMaker struct {
	srv  *Server
	snap *directory.Snapshot
	// database is that of the session, "" for the console.
	database string
	by       string
}

// throttleCall runs weft.throttle and weft.unthrottle, for one session.
type throttleCall struct{ s *Session }

// throttle makes a throttle and returns its id.
func (u throttleCall) throttle(ctx context.Context, args map[string]string) ([][]string, error) {
	if err := u.may(ctx); err != nil {
		return nil, err
	}
	maker := throttleMaker{srv: u.s.srv, snap: u.s.srv.cfg.Snapshot(), database: u.s.db.Name, by: u.s.login.user}
	id, err := maker.put(ctx, args, func() (string, string, error) {
		req, err := u.s.util.request(args)
		if err != nil {
			return "", "", err
		}
		if key := args["key"]; u.s.out.reported["client_encoding"] != "UTF8" && slices.ContainsFunc([]byte(key), func(c byte) bool { return c >= 0x80 }) {
			return "", "", pgerr.New(pgerr.FeatureNotSupported, "weft cannot tell which key this is: its characters are not ASCII, and client_encoding is not UTF8").
				WithHint("SET client_encoding = 'UTF8'.")
		}
		return req.Table.Schema, req.Table.Name, nil
	})
	if err != nil {
		return nil, err
	}
	return [][]string{{strconv.FormatInt(id, 10)}}, nil
}

// unthrottle ends a throttle.
func (u throttleCall) unthrottle(ctx context.Context, args map[string]string) error {
	if err := u.may(ctx); err != nil {
		return err
	}
	return throttleMaker{srv: u.s.srv, by: u.s.login.user}.drop(ctx, args["id"])
}

// may refuses users who may not cancel what others do.
func (u throttleCall) may(ctx context.Context) error {
	if hasRights(ctx, u.s, "pg_signal_backend") {
		return nil
	}
	return pgerr.New(pgerr.InsufficientPrivilege, "must be superuser, a member of pg_signal_backend or one of admin_users to change throttles")
}

// put makes a throttle of the arguments of weft.throttle. table finds the table that they name.
func (c throttleMaker) put(ctx context.Context, args map[string]string, table func() (schema, name string, err error)) (int64, error) {
	r := throttle.Rule{
		Class: throttle.Class(arg(args, "class", string(throttle.Any))), Mode: throttle.Mode(arg(args, "mode", string(throttle.Enforce))), Below: args["below"],
		Origin: throttle.Manual, MaxWait: throttle.UsualWait, Reason: args["reason"], By: c.by, Created: time.Now().UTC().Truncate(time.Millisecond),
	}
	for _, read := range []func(map[string]string, *throttle.Rule) error{readLimit, readTimes} {
		if err := read(args, &r); err != nil {
			return 0, err
		}
	}
	target, err := c.target(args, table)
	if err != nil {
		return 0, err
	}
	r.Target = target
	id, err := c.srv.keeper.throttles.Put(ctx, r)
	if err != nil {
		return 0, err
	}
	c.srv.log.Info("a throttle was made", "id", id, "kind", r.Target.Kind, "allows", r.Limit.Words(), "class", r.Class, "mode", r.Mode, "for", r.Lasts, "user", c.by)
	return id, nil
}

// drop ends a throttle.
func (c throttleMaker) drop(ctx context.Context, text string) error {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return pgerr.New(pgerr.InvalidParameterValue, "%q is not the id of a throttle", text).WithHint("weft.throttles has the ids.")
	}
	ok, err := c.srv.keeper.throttles.Drop(ctx, id)
	if err != nil {
		return err
	}
	if !ok {
		return pgerr.New(pgerr.UndefinedObject, "there is no throttle %d", id).WithHint("weft.throttles has the ids. A throttle ends by itself.")
	}
	c.srv.log.Info("a throttle was ended", "id", id, "user", c.by)
	return nil
}

// arg returns an argument, or what holds without it.
func arg(args map[string]string, name, usual string) string {
	if v, given := args[name]; given {
		return v
	}
	return usual
}

// readLimit reads what a throttle allows.
func readLimit(args map[string]string, r *throttle.Rule) error {
	number := func(name, unit, example string, to *float64) error {
		text, given := args[name]
		if !given {
			return nil
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, unit)), 64)
		if err != nil || n <= 0 {
			return pgerr.New(pgerr.InvalidParameterValue, "%s %q is not a number above 0", name, text).WithHint("Write %s => '%s'.", name, example)
		}
		*to = n
		return nil
	}
	var slots float64
	err := errors.Join(number("rate", "/s", "200/s", &r.Limit.Rate), number("concurrency", "", "2", &slots), number("share", "", "0.1", &r.Limit.Share))
	if err != nil {
		return err
	}
	if r.Limit.Concurrency = int(slots); float64(r.Limit.Concurrency) != slots {
		return pgerr.New(pgerr.InvalidParameterValue, "concurrency %q is not a whole number", args["concurrency"])
	}
	if text, given := args["refuse"]; given {
		if r.Limit.Refuse, err = boolean(text); err != nil {
			return pgerr.New(pgerr.InvalidParameterValue, "refuse %q is not true or false", text)
		}
	}
	return nil
}

// readTimes reads how long a throttle lasts, and how long statements wait.
func readTimes(args map[string]string, r *throttle.Rule) error {
	units := map[string]float64{"ms": 1e6, "s": 1e9, "m": 60e9, "min": 60e9, "h": 3600e9, "d": 24 * 3600e9}
	text, given := args["duration"]
	if !given {
		return pgerr.New(pgerr.InvalidParameterValue, "a throttle needs a duration").WithHint("Write duration => '10min': the units are ms, s, min, h and d.")
	}
	n, ok := guc(text, units)
	if !ok || n <= 0 || n > float64(throttle.MaxLasts) {
		return pgerr.New(pgerr.InvalidParameterValue, "duration %q is not a time of up to 30 days", text).WithHint("Write duration => '10min': the units are ms, s, min, h and d.")
	}
	r.Lasts = time.Duration(n)
	if text, given := args["max_wait"]; given {
		n, ok := guc(text, units)
		if text == "0" {
			n, ok = 0, true
		}
		if !ok || n < 0 || n > float64(throttle.MaxWait) {
			return pgerr.New(pgerr.InvalidParameterValue, "max_wait %q is not a time of up to 1 min", text).WithHint("Write max_wait => '500ms'. With 0 statements are refused without a wait.")
		}
		r.MaxWait = time.Duration(n)
	}
	return nil
}

// targets are the arguments that say whom a throttle concerns.
var targets = []string{"key", "bucket", "shard", "statement", "username", "database", "application_name"}

// target reads whom a throttle concerns.
func (c throttleMaker) target(args map[string]string, table func() (schema, name string, err error)) (t throttle.Target, err error) {
	var given []string
	for _, name := range targets {
		if _, ok := args[name]; ok {
			given = append(given, name)
		}
	}
	if len(given) != 1 {
		return t, pgerr.New(pgerr.InvalidParameterValue, "a throttle has one target, not %d", len(given)).
			WithHint("Give one of key (with table_name), bucket, shard, statement, username, database, application_name.")
	}
	if _, ok := args["table"]; ok != (given[0] == "key") {
		return t, pgerr.New(pgerr.InvalidParameterValue, "table_name and key belong together").WithHint("Write table_name => 'orders', key => '7'.")
	}
	value := args[given[0]]
	unknown := func(format string, a ...any) (throttle.Target, error) {
		return t, pgerr.New(pgerr.UndefinedObject, format, a...)
	}
	t = throttle.Target{Kind: throttle.Kind(given[0]), Name: value}
	switch t.Kind {
	case throttle.Key:
		schema, name, err := table()
		if err != nil {
			return t, err
		}
		return c.key(schema, name, value)
	case throttle.Bucket:
		return c.buckets(value)
	case throttle.Shard:
		if _, ok := c.snap.Shard(value); !ok {
			return unknown("there is no shard %q", value)
		}
	case throttle.Statement:
		return c.statement(value)
	case throttle.User:
		if ok, err := c.exists("pg_catalog.pg_roles WHERE rolname = " + quote.Literal(value)); err != nil || !ok && !c.srv.knowsUser(value) {
			return t, cmpError(err, pgerr.New(pgerr.UndefinedObject, "role %q does not exist", value))
		}
	case throttle.Database:
		if ok, err := c.exists("pg_catalog.pg_database WHERE datname = " + quote.Literal(value)); err != nil || !ok {
			return t, cmpError(err, pgerr.New(pgerr.InvalidCatalogName, "database %q does not exist", value))
		}
	case throttle.Application:
		t.Name = clean(value)
	}
	return t, nil
}

func cmpError(err error, otherwise *pgerr.Error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// knowsUser reports whether a user is in auth.users, or connected.
func (s *Server) knowsUser(name string) bool {
	if _, ok := s.conf().Pool.Users[name]; ok {
		return true
	}
	s.register.mu.Lock()
	defer s.register.mu.Unlock()
	return s.register.byUser[name] > 0
}

// exists asks the home shard whether there is a row.
func (c throttleMaker) exists(from string) (bool, error) {
	ctx, stop := context.WithTimeout(c.srv.ctx, movesTimeout)
	defer stop()
	rows, err := c.srv.execAnywhere(ctx, c.snap.Home, "SELECT 1 FROM "+from)
	return len(rows) > 0, err
}

// key is a value of a table's shard key.
func (c throttleMaker) key(schema, name, value string) (t throttle.Target, err error) {
	d := c.snap.Table(c.database, schema, name)
	if d == nil || d.Kind != directory.Sharded {
		return t, pgerr.New(pgerr.WrongObjectType, "%q is not a sharded table", name).WithHint("SELECT * FROM weft.tables lists the sharded tables.")
	}
	return keyTarget(d, value, c.snap.BucketCount)
}

// keyTarget names a key of a table as people write it.
func keyTarget(d *directory.Table, value string, buckets int) (throttle.Target, error) {
	t, err := executor.KeyTarget(d, value, buckets)
	t.Shown = shorten(console.Printable(t.Shown))
	return t, err
}

// shorten cuts a value for people.
func shorten(value string) string {
	runes := []rune(value)
	if len(runes) <= maxValue {
		return value
	}
	return string(runes[:maxValue]) + "…"
}

// buckets is one bucket, or a range of them.
func (c throttleMaker) buckets(text string) (t throttle.Target, err error) {
	first, last, several := strings.Cut(text, "-")
	if !several {
		last = first
	}
	a, err1 := strconv.ParseInt(strings.TrimSpace(first), 10, 32)
	b, err2 := strconv.ParseInt(strings.TrimSpace(last), 10, 32)
	if err1 != nil || err2 != nil || a > b {
		return t, pgerr.New(pgerr.InvalidParameterValue, "%q is not a bucket, or a range of buckets", text).WithHint("Write bucket => '17' or bucket => '16-31'.")
	}
	if n := len(c.snap.PlacementOf(c.database, "")); b >= int64(n) {
		return t, pgerr.New(pgerr.UndefinedObject, "there is no bucket %d: the last is %d", b, n-1)
	}
	return throttle.Target{Kind: throttle.Bucket, Database: c.database, First: int32(a), Last: int32(b), Buckets: c.snap.BucketCount}, nil
}

// statement is a statement of weft.statements, of any proxy.
func (c throttleMaker) statement(text string) (t throttle.Target, err error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return t, pgerr.New(pgerr.InvalidParameterValue, "%q is not the id of a statement", text).WithHint("weft.statements and weft.hot_statements have the ids.")
	}
	if !c.knowsStatement(id) {
		return t, pgerr.New(pgerr.UndefinedObject, "no statement of this database has the id %d", id).WithHint("weft.statements and weft.hot_statements have the ids.")
	}
	return throttle.Target{Kind: throttle.Statement, Database: c.database, Statement: id}, nil
}

// knowsStatement reports whether a proxy knows a statement of the database, or one does not answer.
func (c throttleMaker) knowsStatement(id int64) bool {
	if slices.ContainsFunc(adminSource{srv: c.srv}.Statements(), func(s console.Statement) bool { return s.ID == id && s.Database == c.database }) {
		return true
	}
	answers, silent := c.srv.circle.Ask(c.srv.ctx, peer.Question{View: "statements", All: true})
	return len(silent) > 0 || slices.ContainsFunc(answers, func(b []byte) bool {
		type row struct {
			ID       int64
			Database string
		}
		var rows []row
		return json.Unmarshal(b, &rows) == nil && slices.Contains(rows, row{id, c.database})
	})
}
