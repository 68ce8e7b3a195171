package proxy

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"weft/console"
	"weft/parser"
	"weft/pgerr"
	"weft/proxy/peer"
	"weft/recording"
)

// tapeCall starts, ends and reads recordings, for one session.
type tapeCall struct{ s *Session }

const (
	// usualTaping and longestTaping say how long a recording takes: unless something else is said, and
	// at most. usualShare is the share of the transactions that are recorded.
	usualTaping   = 10 * time.Minute
	longestTaping = 24 * time.Hour
	usualShare    = 0.01
)

func (c tapeCall) run(ctx context.Context, name string, args map[string]string) ([][]string, error) {
	if !c.s.route.monitors(ctx) {
		return nil, pgerr.New(pgerr.InsufficientPrivilege, "must be superuser, a member of pg_read_all_stats or one of admin_users to record transactions")
	}
	switch name {
	case "record":
		return nil, c.record(ctx, args)
	case "record_stop":
		c.s.srv.counts.tapes.stop(c.s.db.Name)
		_, silent := c.s.srv.circle.Ask(ctx, peer.Question{TapeStop: c.s.db.Name})
		c.s.route.warnSilent(silent, "transactions may still be recorded there, until the time that was given")
		return nil, nil
	}
	return c.recorded(ctx)
}

// record starts a recording on all proxies, under one key.
func (c tapeCall) record(ctx context.Context, args map[string]string) error {
	lasting, share := usualTaping, usualShare
	if text, given := args["duration"]; given {
		n, ok := guc(text, map[string]float64{"s": 1e9, "m": 60e9, "min": 60e9, "h": 3600e9})
		if !ok || n < 1e9 || n > float64(longestTaping) {
			return pgerr.New(pgerr.InvalidParameterValue, "%q is not a time from 1 second to 24 hours", text).WithHint(`Write '10min' or '1h': the units are "s", "min" and "h".`)
		}
		lasting = time.Duration(n)
	}
	if text, given := args["share"]; given {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n > 0 && n <= 1) {
			return pgerr.New(pgerr.InvalidParameterValue, "%q is not a share of transactions: more than 0, up to 1", text)
		}
		share = n
	}
	order := &peer.Tape{Database: c.s.db.Name, Key: newSecret(len(recording.Key{})), Share: share, Seconds: lasting.Seconds()}
	c.s.srv.startTape(order)
	_, silent := c.s.srv.circle.Ask(ctx, peer.Question{Tape: order})
	c.s.route.warnSilent(silent, "transactions of its clients are not recorded")
	c.s.log.Info("transactions are recorded", "database", order.Database, "user", c.s.login.user, "share", share, "for", lasting)
	return nil
}

// startTape starts a recording on this proxy.
func (s *Server) startTape(o *peer.Tape) {
	r := &recording.Recorder{Database: o.Database, Share: o.Share}
	copy(r.Key[:], o.Key)
	s.counts.tapes.start(r, seconds(o.Seconds))
}

// recorded returns what all proxies have recorded, a row for each transaction.
func (c tapeCall) recorded(ctx context.Context) ([][]string, error) {
	var rows [][]string
	add := func(proxy string, list []recording.Transaction) error {
		for _, t := range list {
			b, err := json.Marshal(t)
			if err != nil {
				return err
			}
			rows = append(rows, []string{proxy, string(b)})
		}
		return nil
	}
	own := c.s.srv.taped(c.s.db.Name)
	if err := add(own.Proxy, own.Transactions); err != nil {
		return nil, err
	}
	answers, silent := c.s.srv.circle.Ask(ctx, peer.Question{Taped: c.s.db.Name})
	c.s.route.warnSilent(silent, "what was recorded there is missing")
	for _, b := range answers {
		var other tapedOf
		if json.Unmarshal(b, &other) != nil {
			continue // it is of another version
		}
		if err := add(other.Proxy, other.Transactions); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// tapedOf is what one proxy has recorded.
type tapedOf struct {
	Proxy        string                  `json:"proxy"`
	Transactions []recording.Transaction `json:"transactions"`
}

// taped is what this proxy has recorded of a database, with the numbers that weft.statements has for
// statements.
func (s *Server) taped(database string) tapedOf {
	out := tapedOf{Proxy: s.cfg.Proxy}
	t := s.counts.tapes.recorded(database)
	if t == nil {
		return out
	}
	ids := map[string]int64{}
	for _, tx := range t.Transactions() {
		numbered := make(recording.Transaction, len(tx))
		for i, e := range tx {
			id, ok := ids[e.Text]
			if !ok {
				id = statementID(parser.Statement(e.Text))
				ids[e.Text] = id
			}
			numbered[i] = recording.Execution{ID: id, Values: e.Values}
		}
		out.Transactions = append(out.Transactions, numbered)
	}
	return out
}

// Recordings implements console.Source.
func (a adminSource) Recordings() []console.Recording {
	t := a.srv.counts.tapes.recorded("")
	if t == nil {
		return nil
	}
	state := "over"
	if a.srv.counts.tapes.on.Load() == t.Recorder {
		state = "recording"
	}
	s := t.State()
	return []console.Recording{{
		Database: t.Database, State: state, Share: t.Share, Since: t.since, Until: t.until, Seen: s.Seen, Kept: s.Kept, Bytes: s.Bytes,
	}}
}
