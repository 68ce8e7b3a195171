package proxy

import (
	"fmt"
	"strings"

	"weft/catalog"
	"weft/parser"
	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// inspectSQL asks a backend for all session state that outlives a transaction.
const inspectSQL = `SELECT 's', name, setting FROM pg_catalog.pg_settings WHERE source = 'session' AND context <> 'internal' AND name <> 'statement_timeout'
UNION ALL SELECT 'd', name, reset_val FROM pg_catalog.pg_settings WHERE name = 'statement_timeout'
UNION ALL SELECT 'r', 'role', pg_catalog.current_setting('role')
UNION ALL SELECT 'u', 'session_authorization', session_user::text
UNION ALL SELECT 't', EXISTS (SELECT FROM pg_catalog.pg_depend WHERE refclassid = 2615 AND refobjid = pg_catalog.pg_my_temp_schema())::text, 'temp'
  WHERE pg_catalog.pg_my_temp_schema() <> 0
UNION ALL SELECT 'a', '', 'lock' WHERE EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid())
UNION ALL SELECT 'h', '', 'hold' WHERE EXISTS (SELECT FROM pg_catalog.pg_cursors WHERE is_holdable)
UNION ALL SELECT 'p', name, '' FROM pg_catalog.pg_prepared_statements
UNION ALL SELECT 'l', c, '' FROM pg_catalog.pg_listening_channels() c`

// neverCarried are settings that inspect may find but that belong to the
// moment, not to the session.
var neverCarried = map[string]bool{
	"statement_timeout_local": true, "transaction_isolation": true, "transaction_read_only": true,
	"transaction_deferrable": true, "seed": true,
}

// remains is the session state that a backend holds beyond its transaction.
type remains struct {
	settings           map[string]string
	bare               bool // the role is weft's login role, not the client's
	pins               pin
	prepared, channels map[string]bool
}

// remainsOf asks an idle backend for its session state.
func (h *held) remainsOf(c *pool.Conn) (*remains, error) {
	var b strings.Builder
	b.WriteString(inspectSQL)
	for name := range h.s.record.placeholders {
		fmt.Fprintf(&b, "\nUNION ALL SELECT 'c', %s, pg_catalog.current_setting(%[1]s, true) WHERE pg_catalog.current_setting(%[1]s, true) IS NOT NULL", quote.Literal(name))
	}
	rows, err := c.Ask(askTimeout, b.String())
	if err != nil {
		return nil, err
	}
	timeout := rows[0][1]
	found := &remains{settings: map[string]string{}, prepared: map[string]bool{}, channels: map[string]bool{}}
	for _, r := range rows[1:] {
		switch r[0] {
		case "d":
			if gucDuration(timeout) != gucDuration(r[2]) {
				found.settings[r[1]] = timeout
			}
		case "s", "c":
			if !neverCarried[r[1]] && !(r[2] == "" && isOption(r[1])) {
				found.settings[strings.ToLower(r[1])] = r[2]
			}
		case "r":
			base := h.s.lane.Role()
			found.bare = r[2] == "none" && base != ""
			if r[2] != "none" && r[2] != base {
				found.settings["role"] = r[2]
			}
		case "u":
			if r[2] != h.s.lane.LoginRole() {
				found.settings["session_authorization"] = r[2]
			}
		case "t":
			h.s.record.hasTemporary(c)
			if r[1] == "true" {
				found.pins |= pinTemp
			}
		case "a":
			found.pins |= pinAdvisory
		case "h":
			found.pins |= pinHoldCursor
		case "p":
			found.prepared[r[1]] = true
			if !strings.HasPrefix(r[1], "\x01") {
				found.pins |= pinPrepared // made by a function, unseen by weft
			}
		case "l":
			found.channels[r[1]] = true
		}
	}
	return found, nil
}

// temporarySchema stands for a temporary schema among the parameters that a backend cannot
// forget: the schema stays when the tables in it are gone, and shows up in current_schemas.
const temporarySchema = "pg_temp"

// hasTemporary notes that a backend has a temporary schema: only sessions that have made one
// get this backend again.
func (rc *record) hasTemporary(c *pool.Conn) {
	if rc.placeholders == nil {
		rc.placeholders = map[string]bool{}
	}
	rc.placeholders[temporarySchema] = true
	c.NotePlaceholder(temporarySchema)
}

// inspect asks the backend for the session's state and adopts it.
func (h *held) inspect(c *pool.Conn, bits parser.Effect) error {
	found, err := h.remainsOf(c)
	if err != nil {
		return err
	}
	h.s.record.pins.tieAsFound(found.pins)
	if found.bare {
		// The client is back at the role it logged in as, which is not the role weft logged in
		// as.
		if _, err := c.Exec("SET ROLE " + quote.Ident(h.s.lane.Role())); err != nil {
			return c.Lost(fmt.Errorf("inspect: %w", err))
		}
	}
	c.OnlyPrepared(found.prepared)
	if len(found.channels) > 0 && !c.Listening() {
		if err := h.s.record.listenUnseen(c, found.channels); err != nil {
			return err
		}
	}
	c.NoteSettings(pool.SettingsOf(found.settings))
	h.s.record.adopt(c, bits)
	return nil
}

// touch notes that functions of a text may change the session state of the leg's backend. The
// session does not adopt such changes: its own state is on the home shard.
func (h *held) touch(l *leg, f *parser.Facts) {
	if h.s.record.touches(f) != catalog.Untouched {
		l.conn.Touch()
	}
	h.s.record.stain(l.conn, f)
}

// untouch checks whether the session state of a touched backend is unchanged. A backend whose
// state has changed is closed when it is released.
func (h *held) untouch(c *pool.Conn) {
	if !c.Touched() || c.Status() != wire.TxIdle {
		return
	}
	c.AwaitCancels()
	found, err := h.remainsOf(c)
	if err == nil && !found.bare && found.pins == 0 && len(found.channels) == 0 && c.Settings().Equal(pool.SettingsOf(found.settings)) {
		c.OnlyPrepared(found.prepared)
		c.Checked()
	}
}
