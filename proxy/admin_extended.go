package proxy

import (
	"encoding/binary"

	"weft/console"
	"weft/pgerr"
	"weft/wire"
)

// Drivers speak to the console in the extended protocol, as to any database. Its
// commands take no parameters, and their columns are known without running them.

// adminPortal is a command that has been bound.
type adminPortal struct {
	line    string
	formats []byte // of the result, as a Bind has them: without the count
	// table is its result, once it has run, and sent how many rows have gone.
	table *console.Table
	sent  int
}

// extendedAdmin handles one message of the extended protocol.
func (a *admin) extendedAdmin(typ byte, body []byte) error {
	switch typ {
	case wire.Parse:
		p, err := wire.DecodeParse(body)
		if err != nil {
			return malformedAdmin()
		}
		if _, err := console.Describe(string(p.SQL)); err != nil {
			return err
		}
		if _, there := a.statements[string(p.Name)]; there && len(p.Name) > 0 {
			return pgerr.New(pgerr.DuplicatePreparedStatement, "prepared statement %q already exists", p.Name)
		}
		if len(a.statements) >= maxAdmin {
			return pgerr.New(pgerr.ConfigurationLimitExceeded, "too many prepared statements")
		}
		a.statements[string(p.Name)] = string(p.SQL)
		a.s.out.B = wire.AppendEmpty(a.s.out.B, wire.ParseComplete)
	case wire.Bind:
		return a.bindAdmin(body)
	case wire.Describe:
		return a.describeAdmin(body)
	case wire.Execute:
		return a.executeAdmin(body)
	case wire.Close:
		kind, name, ok := wire.DescribeName(body)
		if !ok {
			return malformedAdmin()
		}
		if kind == 'S' {
			delete(a.statements, string(name))
		} else {
			delete(a.portals, string(name))
		}
		a.s.out.B = wire.AppendEmpty(a.s.out.B, wire.CloseComplete)
	default:
		return pgerr.New(pgerr.FeatureNotSupported, "the admin database knows queries only")
	}
	return nil
}

func malformedAdmin() error { return pgerr.New(pgerr.ProtocolViolation, "invalid message format") }

func (a *admin) bindAdmin(body []byte) error {
	portal, name, rest, ok := wire.BindNames(body)
	if !ok {
		return malformedAdmin()
	}
	line, there := a.statements[string(name)]
	if !there {
		return pgerr.New(pgerr.InvalidSQLStatementName, "prepared statement %q does not exist", name)
	}
	values, formats, ok := splitBind(rest)
	if !ok {
		return malformedAdmin()
	}
	if at := 2 + 2*int(binary.BigEndian.Uint16(values)); binary.BigEndian.Uint16(values[at:]) > 0 {
		return pgerr.New(pgerr.ProtocolViolation, "the admin database takes no parameters").WithHint("Write the value into the command.")
	}
	if len(a.portals) >= maxAdmin {
		return pgerr.New(pgerr.ConfigurationLimitExceeded, "too many portals")
	}
	a.portals[string(portal)] = &adminPortal{line: line, formats: append([]byte(nil), formats[2:]...)}
	a.s.out.B = wire.AppendEmpty(a.s.out.B, wire.BindComplete)
	return nil
}

func (a *admin) describeAdmin(body []byte) error {
	kind, name, ok := wire.DescribeName(body)
	if !ok {
		return malformedAdmin()
	}
	var line string
	var formats []byte
	if kind == 'S' {
		if line, ok = a.statements[string(name)]; !ok {
			return pgerr.New(pgerr.InvalidSQLStatementName, "prepared statement %q does not exist", name)
		}
		a.s.out.B = wire.AppendFrame(a.s.out.B, wire.ParameterDescription, []byte{0, 0})
	} else {
		p := a.portals[string(name)]
		if p == nil {
			return pgerr.New(pgerr.InvalidCursorName, "portal %q does not exist", name)
		}
		line, formats = p.line, p.formats
	}
	cols, err := console.Describe(line)
	if err != nil {
		return err
	}
	if cols == nil {
		a.s.out.B = wire.AppendEmpty(a.s.out.B, wire.NoData)
		return nil
	}
	a.s.out.B = appendColumns(a.s.out.B, cols, formats)
	return nil
}

func (a *admin) executeAdmin(body []byte) error {
	name, rest, ok := wire.CString(body)
	if !ok || len(rest) != 4 {
		return malformedAdmin()
	}
	p := a.portals[string(name)]
	if p == nil {
		return pgerr.New(pgerr.InvalidCursorName, "portal %q does not exist", name)
	}
	if p.table == nil {
		t, err := a.runAdmin(p.line)
		if err != nil {
			return err
		}
		p.table = &t
	}
	t := p.table
	if t.Tag == "" {
		a.s.out.B = wire.AppendEmpty(a.s.out.B, wire.EmptyQueryResponse)
		return nil
	}
	left := len(t.Rows) - p.sent
	n := left
	if limit := int(int32(binary.BigEndian.Uint32(rest))); limit > 0 {
		n = min(n, limit)
	}
	for _, r := range t.Rows[p.sent : p.sent+n] {
		a.s.out.Grow()
		a.s.out.B = appendValues(a.s.out.B, r, t.Columns, p.formats)
	}
	if p.sent += n; n < left {
		a.s.out.B = wire.AppendEmpty(a.s.out.B, wire.PortalSuspended)
		return nil
	}
	a.s.out.B = wire.AppendCommandComplete(a.s.out.B, t.Tag)
	return nil
}
