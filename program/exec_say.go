package program

import (
	"context"
	"strconv"
	"strings"

	"weft/pgerr"
)

// raise runs RAISE.
func (f *frame) raise(ctx context.Context, s *Raise) error {
	if s.Again {
		if len(f.caught) == 0 {
			return pgerr.New("0Z002", "RAISE without parameters cannot be used outside an exception handler")
		}
		return &thrown{clone(f.caught[len(f.caught)-1])}
	}
	e := &pgerr.Error{Severity: pgerr.Severity(s.Level), Code: s.Code}
	hasMessage := s.HasText
	if s.HasText {
		var err error
		if e.Message, err = f.format(ctx, s.Message, s.Params); err != nil {
			return err
		}
	}
	if s.Cond != "" {
		e.Message, hasMessage = s.Cond, true
	}
	named := s.Cond != ""
	for _, o := range s.Options {
		v, _, err := f.eval(ctx, o.Expr)
		if err != nil {
			return err
		}
		if !v.Valid {
			return pgerr.New("22004", "RAISE statement option cannot be null")
		}
		if o.Name == "ERRCODE" {
			if e.Code != "" {
				return twice(o.Name)
			}
			if e.Code, err = codeOf(v.Text); err != nil {
				return err
			}
			if !hasMessage {
				e.Message = v.Text
			}
			continue
		}
		if o.Name == "MESSAGE" && named && !s.HasText {
			hasMessage, named = false, false
		}
		if err := option(e, o.Name, v.Text, hasMessage); err != nil {
			return err
		}
		hasMessage = hasMessage || o.Name == "MESSAGE"
	}
	if e.Code == "" {
		e.Code = map[string]string{"ERROR": "P0001", "WARNING": "01000"}[s.Level]
		if e.Code == "" {
			e.Code = "00000"
		}
	}
	if e.Message == "" && !hasMessage {
		e.Message = e.Code
	}
	if s.Level == "ERROR" {
		return e
	}
	addContext(e, "PL/pgSQL function "+f.signature+" line "+itoa(s.Line)+" at RAISE")
	f.env.Output.Notice(e)
	return nil
}

func twice(name string) error {
	return syntax("RAISE option already specified: %s", name)
}

// option sets a field of an error.
func option(e *pgerr.Error, name, value string, hasMessage bool) error {
	field := map[string]*string{
		"MESSAGE": &e.Message, "DETAIL": &e.Detail, "HINT": &e.Hint, "COLUMN": &e.Column, "CONSTRAINT": &e.Constraint,
		"DATATYPE": &e.Type, "TABLE": &e.Table, "SCHEMA": &e.Schema,
	}[name]
	if name == "MESSAGE" && hasMessage || name != "MESSAGE" && *field != "" {
		return twice(name)
	}
	*field = value
	return nil
}

// codeOf returns the SQLSTATE of a condition's name, or of itself.
func codeOf(s string) (string, error) {
	if validCode(s) {
		return s, nil
	}
	if codes := conditionCodes(s); codes != nil {
		return codes[0], nil
	}
	return "", pgerr.New(pgerr.UndefinedObject, `unrecognized exception condition "%s"`, s)
}

// format puts values in the place of the % of a message.
func (f *frame) format(ctx context.Context, message string, params []*Expr) (string, error) {
	var b strings.Builder
	next := 0
	for i := 0; i < len(message); i++ {
		switch {
		case message[i] != '%':
			b.WriteByte(message[i])
		case i+1 < len(message) && message[i+1] == '%':
			b.WriteByte('%')
			i++
		default:
			v, err := f.shown(ctx, params[next])
			if err != nil {
				return "", err
			}
			next++
			if v.Valid {
				b.WriteString(v.Text)
			} else {
				b.WriteString("<NULL>")
			}
		}
	}
	return b.String(), nil
}

// shown evaluates an expression whose text is wanted.
func (f *frame) shown(ctx context.Context, e *Expr) (Value, error) {
	if e.tree.only {
		if m := f.matches(e)[0]; m.v != nil && m.whole {
			return f.whole(m.v), nil
		}
	}
	v, _, err := f.eval(ctx, e)
	return v, err
}

// assert runs ASSERT.
func (f *frame) assert(ctx context.Context, s *Assert) error {
	if !f.env.Asserts {
		return nil
	}
	if yes, err := f.evalBool(ctx, s.Cond); err != nil || yes {
		return err
	}
	message := "assertion failed"
	if s.Message != nil {
		v, _, err := f.eval(ctx, s.Message)
		if err != nil {
			return err
		}
		if v.Valid {
			message = v.Text
		}
	}
	return pgerr.New("P0004", "%s", message)
}

// diagnostics runs GET DIAGNOSTICS.
func (f *frame) diagnostics(ctx context.Context, s *Diagnostics) error {
	var e *pgerr.Error
	if s.Stacked {
		if len(f.caught) == 0 {
			return pgerr.New("0Z002", "GET STACKED DIAGNOSTICS cannot be used outside an exception handler")
		}
		e = f.caught[len(f.caught)-1]
	}
	for _, item := range s.Items {
		val, typ := Value{}, Column{OID: oidText, Typmod: -1}
		switch item.Kind {
		case "ROW_COUNT":
			val, typ.OID = text(strconv.FormatInt(f.rowCount, 10)), oidInt8
		case "PG_CONTEXT":
			val = text("PL/pgSQL function " + f.signature + " line " + itoa(s.Line) + " at " + s.Kind)
		case "RETURNED_SQLSTATE":
			val = text(e.Code)
		case "MESSAGE_TEXT":
			val = text(e.Message)
		case "PG_EXCEPTION_DETAIL":
			val = text(e.Detail)
		case "PG_EXCEPTION_HINT":
			val = text(e.Hint)
		case "PG_EXCEPTION_CONTEXT":
			val = text(e.Where)
		case "COLUMN_NAME":
			val = text(e.Column)
		case "CONSTRAINT_NAME":
			val = text(e.Constraint)
		case "PG_DATATYPE_NAME":
			val = text(e.Type)
		case "TABLE_NAME":
			val = text(e.Table)
		case "SCHEMA_NAME":
			val = text(e.Schema)
		}
		if err := f.put(ctx, item.Target, val, typ); err != nil {
			return err
		}
	}
	return nil
}
