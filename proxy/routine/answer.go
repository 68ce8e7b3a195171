package routine

import (
	"encoding/binary"
	"strings"

	"weft/pgerr"
	"weft/pool"
	"weft/program"
	"weft/wire"
)

// refusal is an error that PostgreSQL would not have raised. No program catches it.
type refusal struct{ err *pgerr.Error }

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// failure returns the error of an ErrorResponse as a program meets it.
func failure(body []byte) error {
	e := pool.ServerError(body)
	if e.Routine == "" && isOurs(e.Code) {
		return &refusal{e}
	}
	return e
}

// isOurs reports whether an error that names no place in PostgreSQL's code is a refusal of weft, or tells of a lost shard.
func isOurs(code string) bool {
	switch code {
	case pgerr.QueryCanceled:
		return false
	case pgerr.FeatureNotSupported, pgerr.InFailedSQLTransaction, pgerr.ObjectNotInPrerequisiteState:
		return true
	}
	switch code[:min(2, len(code))] {
	case "08", "53", "54", "57", "58", "F0", "XX":
		return true
	}
	return false
}

// Refuse returns an error that no program catches.
func Refuse(err error) error { return &refusal{pgerr.From(err)} }

// Columns reads a RowDescription.
func Columns(body []byte) []program.Column {
	if len(body) < 2 {
		return nil
	}
	out := make([]program.Column, 0, binary.BigEndian.Uint16(body))
	for b := body[2:]; len(b) > 0; {
		name, rest, ok := wire.CString(b)
		if !ok || len(rest) < 18 {
			break
		}
		out = append(out, program.Column{
			Name: string(name), OID: binary.BigEndian.Uint32(rest[6:]), Typmod: int32(binary.BigEndian.Uint32(rest[12:])),
		})
		b = rest[18:]
	}
	return out
}

// typesOf reads a ParameterDescription.
func typesOf(body []byte) []uint32 {
	var out []uint32
	for b := body[min(2, len(body)):]; len(b) >= 4; b = b[4:] {
		out = append(out, binary.BigEndian.Uint32(b))
	}
	return out
}

// valuesOf reads a DataRow whose values are texts.
func valuesOf(body []byte) []program.Value {
	if len(body) < 2 {
		return nil
	}
	row := make([]program.Value, binary.BigEndian.Uint16(body))
	b := body[2:]
	for i := range row {
		if len(b) < 4 {
			break
		}
		n := int(int32(binary.BigEndian.Uint32(b)))
		if b = b[4:]; n >= 0 && n <= len(b) {
			row[i] = program.Value{Text: string(b[:n]), Valid: true}
			b = b[n:]
		}
	}
	return row
}

// firstWord returns the word that a statement begins with, in capitals.
func firstWord(sql string) string {
	sql = strings.TrimLeft(sql, " \t\r\n(")
	for i, c := range sql {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return strings.ToUpper(sql[:i])
		}
	}
	return strings.ToUpper(sql)
}

// changesNames reports whether a statement may change what names mean: the schema, or search_path.
func changesNames(sql string) bool {
	switch firstWord(sql) {
	case "CREATE", "ALTER", "DROP", "SET", "RESET", "DISCARD", "IMPORT":
		return true
	}
	return strings.Contains(sql, "set_config")
}
