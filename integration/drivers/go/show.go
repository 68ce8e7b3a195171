package main

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

// show writes a value in one way, whichever driver read it.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return v
	case []byte:
		return fmt.Sprintf("%q", v)
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05.999999")
	case error:
		return failure(v)
	case []any:
		return list(v, ", ")
	case [][]any:
		lines := make([]any, len(v))
		for i := range v {
			lines[i] = v[i]
		}
		return list(lines, "\n")
	case []string:
		return strings.Join(v, "\n")
	}
	return fmt.Sprintf("%+v", v)
}

func list(values []any, between string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = show(v)
	}
	return strings.Join(out, between)
}

// place is where in its table a row is, which is each server's own affair.
var place = regexp.MustCompile(`tuple \(\d+,\d+\)`)

// failure writes all of an error that an application may look at: every field but those that name
// a place in PostgreSQL's source.
func failure(err error) string {
	var ours *pgconn.PgError
	var theirs *pq.Error
	var network net.Error
	switch {
	case errors.As(err, &ours):
		return strings.Join([]string{
			ours.Severity, ours.Code, ours.Message, ours.Detail, ours.Hint, fmt.Sprint(ours.Position), ours.InternalQuery, place.ReplaceAllString(ours.Where, "tuple"),
			ours.SchemaName, ours.TableName, ours.ColumnName, ours.DataTypeName, ours.ConstraintName,
		}, "|")
	case errors.As(err, &theirs):
		return strings.Join([]string{
			theirs.Severity, string(theirs.Code), theirs.Message, theirs.Detail, theirs.Hint, theirs.Position, theirs.InternalQuery, place.ReplaceAllString(theirs.Where, "tuple"),
			theirs.Schema, theirs.Table, theirs.Column, theirs.DataTypeName, theirs.Constraint,
		}, "|")
	case errors.As(err, &network) && network.Timeout():
		return "timeout"
	}
	return err.Error()
}

// want is an error unless the two are alike. It is for what is known in advance; the rest is compared
// between the targets.
func want(what string, got, wanted any) error {
	if g, w := show(got), show(wanted); g != w {
		return fmt.Errorf("%s: %s, want %s", what, g, w)
	}
	return nil
}
