package proxy

import (
	"fmt"
	"slices"
	"strings"

	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// A function may set parameters for its transaction, such as those that say whose rows are
// to be seen. The function runs on one shard of a block. The other shards must have the
// same settings before they run anything, so the backend is asked for its settings when the
// block goes on elsewhere.

// ofOneShard are settings that may differ between participants of a block, beside those
// that are never carried: weft itself sees to timeouts.
var ofOneShard = map[string]bool{"statement_timeout": true, "idle_in_transaction_session_timeout": true, "session_authorization": true}

// shareSettings gives the parameters that functions have set on a backend of the block to
// its other participants, and to those that join later. There they hold for the
// transaction: parameters that were set for the session are asked for when the transaction
// ends.
func (h *held) shareSettings(c *pool.Conn) error {
	b := &h.s.tx.block
	if !b.isOpen() || !c.Touched() || c.Status() != wire.TxActive {
		return nil
	}
	rows, err := askHere(c, h.s.record.settingsQuery())
	if err != nil {
		return err
	}
	sql := h.settingsOf(c, rows)
	if sql == "" || len(b.replay) > 0 && b.replay[len(b.replay)-1] == sql {
		return nil
	}
	for _, p := range h.parked {
		if p == c || p.Status() != wire.TxActive {
			continue
		}
		if _, err := p.Exec(sql); err != nil {
			return err
		}
	}
	b.remember(sql)
	return nil
}

// settingsQuery asks a backend for all parameters that have been set.
func (rc *record) settingsQuery() string {
	var b strings.Builder
	b.WriteString("SELECT name, setting FROM pg_catalog.pg_settings WHERE source = 'session' AND context <> 'internal' UNION ALL SELECT 'role', pg_catalog.current_setting('role')")
	for name := range rc.placeholders {
		fmt.Fprintf(&b, " UNION ALL SELECT %s, pg_catalog.current_setting(%[1]s, true) WHERE pg_catalog.current_setting(%[1]s, true) IS NOT NULL", quote.Literal(name))
	}
	return b.String()
}

// settingsOf is the command that sets the parameters of a backend that have changed since
// before the block; empty if none has.
func (h *held) settingsOf(c *pool.Conn, rows [][]string) string {
	var calls []string
	found := map[string]bool{}
	set := func(name, value string) {
		calls = append(calls, "pg_catalog.set_config("+quote.Literal(name)+", "+value+", true)")
	}
	for _, r := range rows {
		name := strings.ToLower(r[0])
		if found[name] || neverCarried[name] || ofOneShard[name] || isOption(name) {
			continue
		}
		found[name] = true
		before, had := c.Settings().Get(name)
		if name == "role" && !had {
			before, had = h.s.lane.Role(), true
			if before == "" {
				before = "none"
			}
		}
		if !had || before != r[1] {
			set(name, quote.Literal(r[1]))
		}
	}
	for _, e := range c.Settings().All() {
		if name := e.Name; !found[name] && !neverCarried[name] && !ofOneShard[name] && !isOption(name) {
			set(name, "(SELECT reset_val FROM pg_catalog.pg_settings WHERE name = "+quote.Literal(name)+")")
		}
	}
	if len(calls) == 0 {
		return ""
	}
	slices.Sort(calls)
	return "SELECT " + strings.Join(calls, ", ")
}
