package proxy

import (
	"encoding/binary"
	"strconv"

	"weft/executor"
	"weft/parser"
	"weft/pgerr"
	"weft/quote"
)

// Statements that all participants of a block must run, such as SET, SAVEPOINT and set_config,
// are bound on one participant. The other participants run the statement when its portal is
// executed, and later participants when they join: as a text that contains the values of the
// Bind.

// forAll is the statement that the other participants run when a portal is executed.
type forAll struct {
	text  string
	facts *parser.Facts
}

// useForAll makes a backend ready to run a statement that all participants must run, and lets
// the others run it.
func (ps *portals) useForAll(text string, f *parser.Facts) error {
	if ps.s.tx.isOpen() && ps.s.tx.clock == nil && !ps.s.tx.isSnapped() {
		// The environment that texts are planned under is asked for before the block has a
		// participant: asked on a participant, the question would be the first query of its
		// transaction, and SET TRANSACTION would come too late.
		if _, err := ps.s.route.environment(); err != nil {
			return err
		}
	}
	if err := ps.s.tx.snapshotsFor(f); err != nil { // SELECT set_config(…)
		return err
	}
	sql, err := ps.oneOfAll(text, f)
	if err != nil || !ps.s.tx.isOpen() {
		return err
	}
	return ps.s.tx.onAll(sql, f)
}

// oneOfAll makes the backend ready that answers the client, and returns the text that the
// others run.
func (ps *portals) oneOfAll(text string, f *parser.Facts) (sql string, err error) {
	lane := ps.s.route.atHand()
	sql, home := elsewhere(text, f)
	if home {
		lane = ps.s.lane
	}
	return sql, ps.s.held.useLane(lane)
}

// bindForAll prepares a Bind of a statement that all participants must run. tail is the part of
// the Bind behind the names.
func (ps *portals) bindForAll(portal []byte, pl *planned, f *parser.Facts, tail []byte) error {
	if err := ps.s.tx.snapshotsFor(f); err != nil {
		return err
	}
	text, err := ps.withValues(pl, tail)
	if err != nil {
		if ps.s.tx.isOpen() {
			return err
		}
		text = ""
	}
	sql, err := ps.oneOfAll(text, f)
	if err != nil {
		return err
	}
	if !ps.s.tx.isOpen() {
		// The statement holds for all messages up to the Sync, and is undone with them.
		ps.s.implicit.noteWrite()
	}
	ps.wide.noteForAll(portal, sql, f)
	return nil
}

// withValues returns the text of a statement with the values of a Bind in place of parameters.
func (ps *portals) withValues(pl *planned, tail []byte) (string, error) {
	params, ok := executor.DecodeParams(tail)
	if !ok || params.Len() == 0 {
		return string(pl.text), nil
	}
	types := declaredTypes(pl.oids)
	if len(pl.params) > 0 {
		types = declaredTypes(pl.params)
	}
	values := make([]string, params.Len())
	for i := range values {
		v, format, ok := params.At(i)
		if !ok {
			return string(pl.text), nil // the backend reports what is wrong with the Bind
		}
		oid := uint32(0)
		if i < len(types) {
			oid = types[i]
		}
		if values[i], ok = asLiteral(v, format != 0, oid); !ok {
			return "", unspeakable()
		}
	}
	text, ok := parser.WithValues(string(pl.text), ps.s.record.scanOptions(), values)
	if !ok {
		return "", unspeakable()
	}
	return text, nil
}

// unspeakable is the error for a parameter value that cannot be written as a literal.
func unspeakable() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "the parameters of a statement that is for all shards of a transaction cannot be of this type in the binary format").
		WithHint("Send them in the text format.")
}

// asLiteral writes a value of a Bind as an SQL literal. It returns false if it cannot.
func asLiteral(v []byte, binaryFormat bool, oid uint32) (string, bool) {
	const (
		oidBool, oidName, oidInt8, oidInt2, oidInt4, oidVarchar = 16, 19, 20, 21, 23, 1043
	)
	name := map[uint32]string{
		oidBool: "bool", oidInt8: "int8", oidInt2: "int2", oidInt4: "int4", oidText: "text", oidVarchar: "varchar", oidName: "name",
	}[oid]
	text := ""
	switch {
	case v == nil:
		text = "NULL"
	case !binaryFormat, oid == oidText, oid == oidVarchar, oid == oidName, oid == 0, oid == oidUnknown:
		text = quote.Literal(string(v))
	case oid == oidBool && len(v) == 1:
		text = quote.Literal(strconv.FormatBool(v[0] != 0))
	case oid == oidInt2 && len(v) == 2:
		text = quote.Literal(strconv.Itoa(int(int16(binary.BigEndian.Uint16(v)))))
	case oid == oidInt4 && len(v) == 4:
		text = quote.Literal(strconv.Itoa(int(int32(binary.BigEndian.Uint32(v)))))
	case oid == oidInt8 && len(v) == 8:
		text = quote.Literal(strconv.FormatInt(int64(binary.BigEndian.Uint64(v)), 10))
	default:
		return "", false
	}
	if name == "" {
		return "(" + text + ")", true
	}
	return "(CAST(" + text + " AS pg_catalog." + name + "))", true
}
