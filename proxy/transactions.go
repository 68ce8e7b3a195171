package proxy

import (
	"encoding/json"
	"slices"
	"strings"

	"weft/parser"
	"weft/pool"
	"weft/twopc"
)

// weft.transactions looks like a table to clients. It is a view on every shard, over a
// parameter of the backend: before a text that names it is run, the parameter is
// given what all shards say.

// transactionsView is how texts name it.
const transactionsView = "weft.transactions"

// transactionsParameter is what the view reads, see ownSteps of package schema.
const transactionsParameter = "weft.in_doubt"

// readsTransactions reports whether a text reads the view.
func readsTransactions(f *parser.Facts) bool {
	return len(f.Relations) > 0 && slices.Contains(f.Relations, transactionsView)
}

// showTransactions gives the backend at hand the rows of the view.
func (s *Session) showTransactions(exec func(sql string) error) error {
	if _, err := s.srv.own(s.ctx, s.conn.Shard(), s.db.Name); err != nil {
		return err
	}
	snap := s.srv.cfg.Snapshot()
	in := databases(snap)
	if !slices.Contains(in, s.db.Name) {
		in = append(in, s.db.Name)
	}
	var shards []string
	for i := range snap.Shards {
		shards = append(shards, snap.Shards[i].Name)
	}
	list, err := s.srv.resolver().List(s.ctx, shards, in)
	if err != nil { // there is a line about it
		s.log.Debug("transactions cannot be listed everywhere", "err", err)
	}
	return exec("SELECT pg_catalog.set_config('" + transactionsParameter + "', " + pool.QuoteLiteral(transactionsJSON(list)) + ", false)")
}

// transactionsJSON writes the rows as json_to_recordset reads them.
func transactionsJSON(list []twopc.Listed) string {
	type row struct {
		GID          string   `json:"gid,omitempty"`
		Database     string   `json:"database,omitempty"`
		Shard        string   `json:"shard"`
		State        string   `json:"state"`
		Age          *float64 `json:"age,omitempty"`
		Role         string   `json:"role,omitempty"`
		Proxy        string   `json:"proxy,omitempty"`
		Decider      string   `json:"decider,omitempty"`
		Participants string   `json:"participants,omitempty"`
	}
	rows := make([]row, 0, len(list))
	for _, l := range list {
		r := row{l.GID, l.Database, l.Shard, l.State, nil, l.Role, l.Proxy, l.Decider, strings.Join(l.Participants, ",")}
		if l.GID != "" {
			age := l.Age.Seconds()
			r.Age = &age
		}
		rows = append(rows, r)
	}
	b, err := json.Marshal(rows)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return string(b)
}
