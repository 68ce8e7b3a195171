package parser

import (
	"fmt"
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/quote"
)

// The values of sequences that a session has been given, and its backend has not drawn.

// sequence puts the value in the place of a call of currval, lastval or nextval.
func (r *identityRewriter) sequence(f *pg_query.FuncCall, name string, value func(string) (int64, bool)) {
	argument := ""
	if len(f.Args) == 1 {
		arg := f.Args[0]
		if cast := arg.GetTypeCast(); cast != nil {
			arg = cast.Arg
		}
		if argument = arg.GetAConst().GetSval().GetSval(); argument == "" {
			if name == "currval" {
				r.dynamic(f, value)
			}
			return
		}
	}
	start, end, _ := r.call(f)
	if r.err != nil {
		return
	}
	n, ok := value(argument)
	if !ok {
		return
	}
	v := "'" + strconv.FormatInt(n, 10) + "'::pg_catalog.int8"
	switch {
	case r.called[f] != nil:
		r.replace(start, end, "pg_catalog.int8larger("+v+", "+v+")")
		r.aliasCall(f, name)
	case r.plain:
		r.replace(start, end, v)
	default:
		r.replace(start, end, "(SELECT "+v+" AS "+name+")")
	}
}

// dynamic lets the server find out which of the sequences whose values are known a call of currval means, if any.
func (r *identityRewriter) dynamic(f *pg_query.FuncCall, value func(string) (int64, bool)) {
	value(Dynamic)
	start, end, args := r.call(f)
	if r.err != nil || len(r.Drawn) == 0 || len(args) != 1 || r.called[f] != nil || r.nested(f.Args[0]) {
		return
	}
	piece := args[0]
	var b strings.Builder
	b.WriteString("(SELECT CASE weft_s.s::pg_catalog.oid")
	for _, d := range r.Drawn {
		fmt.Fprintf(&b, " WHEN pg_catalog.to_regclass(%s)::pg_catalog.oid THEN '%d'::pg_catalog.int8", quote.Literal(d.Sequence), d.Value)
	}
	fmt.Fprintf(&b, " ELSE pg_catalog.currval(weft_s.s) END AS currval FROM (SELECT (%s)::pg_catalog.regclass AS s) weft_s)", r.text[piece[0].Start:piece[len(piece)-1].End])
	r.replace(start, end, b.String())
}

// nested reports whether an expression holds something that is edited by itself.
func (r *identityRewriter) nested(n *pg_query.Node) bool {
	found := false
	walk(n, func(m any) bool {
		if f, ok := m.(*pg_query.FuncCall); ok {
			name, _ := catalogName(f.Funcname)
			switch name {
			case "currval", "lastval", "nextval", "pg_backend_pid", "pg_cancel_backend", "pg_terminate_backend", "pg_blocking_pids", "pg_log_backend_memory_contexts":
				found = true
			}
		}
		_, query := m.(*pg_query.SelectStmt)
		found = found || query
		return !found
	})
	return found
}
