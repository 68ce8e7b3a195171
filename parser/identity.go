package parser

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/quote"
)

// Identity is what process ids mean to a client. A client knows sessions of weft by their ids; a server knows its backends.
type Identity struct {
	// Self is the id of the client's own session.
	Self int32
	// Pairs are the sessions that hold a backend now. Ids that are in no pair pass as they are.
	Pairs []Pair
	// Sequence returns what currval of a sequence is, by its argument, or lastval by the empty one, where the session's
	// backend does not know. Nil: it always does.
	Sequence func(argument string) (value int64, ok bool)
	// Drawn are all that Sequence knows by name, for a currval whose argument is no constant. It is asked for Dynamic then,
	// only to be told.
	Drawn []Drawn
	// Next draws the next value of a sequence, by nextval's argument, where that is not the backend's to do. It is asked
	// only for calls that are evaluated exactly once. Nil: never.
	Next func(argument string) (value int64, ok bool)
	// Snapshot is what pg_export_snapshot returns. Empty: what the backend says.
	Snapshot string
	// Options are those the text is to be scanned with.
	Options Options
}

// Dynamic stands for the argument of a currval that is no constant.
const Dynamic = "\x00"

// Drawn is the last value of a sequence, which is named as regclass reads it.
type Drawn struct {
	Sequence string
	Value    int64
}

// Pair says which backend a session holds.
type Pair struct{ Session, Backend int32 }

// ErrIdentity is the error for a text that names process ids where they cannot be translated.
var ErrIdentity = errors.New("cannot translate session ids here")

// IdentityEdits returns the edits after which a text means sessions where it says process ids:
//
//   - pg_backend_pid() is Self;
//   - the arguments of pg_cancel_backend, pg_terminate_backend and pg_blocking_pids are translated from session to backend;
//   - currval and lastval are what Sequence says;
//   - the result of pg_blocking_pids, and the pids that pg_stat_activity, pg_stat_ssl and pg_locks show, from backend to session.
//
// Names and types of the result's columns stay. What is defined and not run (views, functions) is left alone. The pairs
// are written into the text, so it is good for one execution only.
func IdentityEdits(text string, m Identity) (Edits, error) {
	r, tree, before, err := newIdentityRewriter(text, m)
	if err != nil {
		return nil, err
	}
	for _, raw := range tree.Stmts {
		r.onceIn(raw.Stmt.GetSelectStmt())
		r.statement(raw.Stmt)
	}
	return r.clientEdits(before)
}

// newIdentityRewriter reads a text. before is what was done to it so that it could be read.
func newIdentityRewriter(text string, m Identity) (r *identityRewriter, tree *pg_query.ParseResult, before Edits, err error) {
	if tree, before, err = parse(text, m.Options); err != nil {
		return nil, nil, nil, err
	}
	parsed := before.Apply(text)
	scan, err := pg_query.Scan(parsed)
	if err != nil {
		return nil, nil, nil, err
	}
	r = &identityRewriter{Identity: m, text: parsed, tokens: significantTokens(scan.Tokens), called: map[*pg_query.FuncCall]*pg_query.RangeFunction{}}
	return r, tree, before, nil
}

// clientEdits are the edits of the text as the client sent it.
func (r *identityRewriter) clientEdits(before Edits) (Edits, error) {
	if r.err != nil {
		return nil, r.err
	}
	edits := r.edits()
	for i := range edits {
		edits[i].Start, edits[i].End = before.clientOffset(edits[i].Start), before.clientOffset(edits[i].End)
	}
	return edits, nil
}

func significantTokens(tokens []*pg_query.ScanToken) []*pg_query.ScanToken {
	return slices.DeleteFunc(tokens, func(tok *pg_query.ScanToken) bool {
		return tok.Token == pg_query.Token_C_COMMENT || tok.Token == pg_query.Token_SQL_COMMENT
	})
}

type identityRewriter struct {
	once map[*pg_query.FuncCall]bool // calls that are evaluated exactly once
	Identity
	text   string
	tokens []*pg_query.ScanToken

	plain  bool                                           // where subqueries are not allowed: arguments of CALL and EXECUTE, COPY … WHERE
	called map[*pg_query.FuncCall]*pg_query.RangeFunction // functions that are items of FROM
	ctes   map[string]bool
	bare   map[string]bool // views that stand in FROM without an alias

	opens, closes Edits // in the order of the walk, outer before inner
	err           error
}

// edits puts the edits in order. Where several end at one place the inner ones close first.
func (r *identityRewriter) edits() Edits {
	slices.Reverse(r.closes)
	return r.closes.With(r.opens...)
}

func (r *identityRewriter) statement(n *pg_query.Node) {
	switch n := n.GetNode().(type) {
	case *pg_query.Node_SelectStmt, *pg_query.Node_InsertStmt, *pg_query.Node_UpdateStmt, *pg_query.Node_DeleteStmt,
		*pg_query.Node_MergeStmt:
		r.query(n)
	case *pg_query.Node_DeclareCursorStmt:
		r.query(n.DeclareCursorStmt.Query)
	case *pg_query.Node_PrepareStmt:
		r.statement(n.PrepareStmt.Query)
	case *pg_query.Node_CreateTableAsStmt:
		r.statement(n.CreateTableAsStmt.Query)
	case *pg_query.Node_ExplainStmt:
		if option(n.ExplainStmt.Options, "analyze") {
			r.statement(n.ExplainStmt.Query)
		}
	case *pg_query.Node_CopyStmt:
		r.query(n.CopyStmt.Query)
		r.arguments(n.CopyStmt.WhereClause)
	case *pg_query.Node_ExecuteStmt:
		for _, param := range n.ExecuteStmt.Params {
			r.arguments(param)
		}
	case *pg_query.Node_CallStmt:
		r.arguments(n.CallStmt.Funccall)
	}
}

// arguments rewrites where PostgreSQL takes no subquery.
func (r *identityRewriter) arguments(message any) {
	r.plain = true
	r.query(message)
	r.plain = false
}

func (r *identityRewriter) query(message any) {
	r.ctes, r.bare = map[string]bool{}, map[string]bool{}
	walk(message, func(m any) bool {
		if cte, ok := m.(*pg_query.CommonTableExpr); ok {
			r.ctes[cte.Ctename] = true
		}
		return true
	})
	var qualified []*pg_query.ColumnRef
	walk(message, func(m any) bool {
		switch m := m.(type) {
		case *pg_query.SelectStmt:
			r.sources(m.FromClause...)
		case *pg_query.UpdateStmt:
			r.sources(m.FromClause...)
		case *pg_query.DeleteStmt:
			r.sources(m.UsingClause...)
		case *pg_query.MergeStmt:
			r.sources(m.SourceRelation)
		case *pg_query.JoinExpr:
			r.sources(m.Larg, m.Rarg)
		case *pg_query.RangeFunction:
			for _, item := range m.Functions {
				if items := item.GetList().GetItems(); len(items) > 0 && items[0].GetFuncCall() != nil {
					r.called[items[0].GetFuncCall()] = m
				}
			}
		case *pg_query.FuncCall:
			r.function(m)
		case *pg_query.ColumnRef:
			if len(m.Fields) > 2 && m.Fields[0].GetString_().GetSval() == "pg_catalog" {
				qualified = append(qualified, m)
			}
		}
		return true
	})
	// A subquery has no schema: pg_catalog.pg_locks.pid becomes pg_locks.pid.
	for _, ref := range qualified {
		if i := r.at(ref.Location); i >= 0 && i+2 < len(r.tokens) && r.bare[ref.Fields[1].GetString_().GetSval()] {
			r.replace(int(r.tokens[i].Start), int(r.tokens[i+2].Start), "")
		}
	}
}

// onceIn notes the calls that are items of a SELECT which returns one row whatever happens.
func (r *identityRewriter) onceIn(s *pg_query.SelectStmt) {
	if s == nil || len(s.FromClause) > 0 || s.WhereClause != nil || s.HavingClause != nil || s.LimitCount != nil || s.LimitOffset != nil ||
		len(s.GroupClause) > 0 || s.WithClause != nil || len(s.TargetList) == 0 {
		return
	}
	for _, t := range s.TargetList {
		item := t.GetResTarget().GetVal()
		for item.GetTypeCast() != nil {
			item = item.GetTypeCast().Arg
		}
		if f := item.GetFuncCall(); f != nil {
			if r.once == nil {
				r.once = map[*pg_query.FuncCall]bool{}
			}
			r.once[f] = true
		}
	}
}

// The functions.

func (r *identityRewriter) function(f *pg_query.FuncCall) {
	name, ok := catalogName(f.Funcname)
	if !ok {
		return
	}
	switch name {
	case "pg_backend_pid":
		if len(f.Args) == 0 {
			r.self(f)
		}
	case "pg_export_snapshot":
		if r.Snapshot != "" {
			r.exported(f)
		}
	case "currval", "lastval":
		if r.Sequence != nil {
			r.sequence(f, name, r.Sequence)
		}
	case "nextval":
		if r.Next != nil && r.once[f] {
			r.sequence(f, name, r.Next)
		}
	case "pg_cancel_backend", "pg_terminate_backend", "pg_blocking_pids", "pg_log_backend_memory_contexts":
		if len(f.Args) == 0 || len(r.Pairs) == 0 {
			return
		}
		if name == "pg_blocking_pids" {
			r.blockers(f)
		}
		r.argument(f)
	}
}

// catalogName returns the name of a function or relation of PostgreSQL's own.
func catalogName(names []*pg_query.Node) (string, bool) {
	if len(names) == 0 || len(names) > 2 || (len(names) == 2 && names[0].GetString_().GetSval() != "pg_catalog") {
		return "", false
	}
	return names[len(names)-1].GetString_().GetSval(), true
}

// self puts the session's id in the place of pg_backend_pid().
func (r *identityRewriter) self(f *pg_query.FuncCall) {
	start, end, _ := r.call(f)
	if r.err != nil {
		return
	}
	id := strconv.Itoa(int(r.Self))
	switch {
	case r.called[f] != nil:
		r.replace(start, end, "pg_catalog.abs("+id+")")
		r.aliasCall(f, "pg_backend_pid")
	case r.plain:
		r.replace(start, end, id)
	default:
		// A column made of a subquery takes the name of the subquery's column.
		r.replace(start, end, "(SELECT "+id+" AS pg_backend_pid)")
	}
}

// exported puts the name of a snapshot in the place of pg_export_snapshot().
func (r *identityRewriter) exported(f *pg_query.FuncCall) {
	start, end, _ := r.call(f)
	if r.err != nil {
		return
	}
	name := quote.Literal(r.Snapshot)
	if r.called[f] != nil {
		r.replace(start, end, "pg_catalog.concat("+name+")")
		r.aliasCall(f, "pg_export_snapshot")
		return
	}
	r.replace(start, end, "(SELECT pg_catalog.concat("+name+") AS pg_export_snapshot)")
}

// blockers translates the result of pg_blocking_pids.
func (r *identityRewriter) blockers(f *pg_query.FuncCall) {
	start, end, _ := r.call(f)
	switch {
	case r.err != nil:
		return
	case r.plain:
		r.err = ErrIdentity
		return
	}
	before, after := "", ""
	if r.called[f] != nil {
		before, after = "pg_catalog.trim_array(", ", 0)" // an item of FROM has to be a call
		r.aliasCall(f, "pg_blocking_pids")
	}
	r.wrap(start, end,
		before+"(SELECT CASE WHEN weft.a IS NULL THEN NULL ELSE ARRAY(SELECT "+r.toSession("u.p")+
			" FROM pg_catalog.unnest(weft.a) WITH ORDINALITY AS u(p, o) ORDER BY u.o) END AS pg_blocking_pids FROM (SELECT ",
		" AS a OFFSET 0) AS weft)"+after)
}

// argument translates the pid a function is given.
func (r *identityRewriter) argument(f *pg_query.FuncCall) {
	_, _, pieces := r.call(f)
	if r.err != nil {
		return
	}
	if len(pieces) != len(f.Args) {
		r.err = ErrIdentity
		return
	}
	arg, piece := f.Args[0], pieces[0]
	for i, a := range f.Args {
		if named := a.GetNamedArgExpr(); named != nil {
			if named.Name != "pid" || len(pieces[i]) < 3 {
				continue
			}
			arg, piece = named.Arg, pieces[i][2:] // pid => …
			break
		}
		if i == 0 {
			break
		}
	}
	if len(piece) == 0 {
		r.err = ErrIdentity
		return
	}
	start, end := int(piece[0].Start), int(piece[len(piece)-1].End)

	if v, ok := arg.GetAConst().GetVal().(*pg_query.A_Const_Ival); ok && len(piece) == 1 {
		for _, p := range r.Pairs {
			if p.Session == v.Ival.GetIval() {
				r.replace(start, end, strconv.Itoa(int(p.Backend)))
				break
			}
		}
		return
	}
	if simple(arg) {
		// Compared one by one, for CASE x WHEN would take a parameter or a string for text.
		var b strings.Builder
		b.WriteString("CASE")
		for _, p := range r.Pairs {
			fmt.Fprintf(&b, " WHEN %s = %d THEN %d", r.text[start:end], p.Session, p.Backend)
		}
		r.wrap(start, end, b.String()+" ELSE ", " END")
		return
	}
	if r.plain {
		r.err = ErrIdentity
		return
	}
	// OFFSET 0 keeps the planner from copying the expression: it must be evaluated once.
	r.wrap(start, end, "(SELECT "+r.toBackend("weft.e")+" FROM (SELECT ", " AS e OFFSET 0) AS weft)")
}

// simple reports whether an expression may be written twice. A parameter or constant has to be: only next to integers is
// its type known to be integer.
func simple(n *pg_query.Node) bool {
	for n.GetTypeCast() != nil {
		n = n.GetTypeCast().Arg
	}
	switch n := n.GetNode().(type) {
	case *pg_query.Node_AConst, *pg_query.Node_ParamRef:
		return true
	case *pg_query.Node_ColumnRef:
		return len(n.ColumnRef.Fields) <= 2
	}
	return false
}

func (r *identityRewriter) toBackend(expr string) string {
	return translate(expr, r.Pairs, func(p Pair) (from, to int32) { return p.Session, p.Backend })
}

func (r *identityRewriter) toSession(expr string) string {
	return translate(expr, r.Pairs, func(p Pair) (from, to int32) { return p.Backend, p.Session })
}

func translate(expr string, pairs []Pair, way func(Pair) (from, to int32)) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CASE %s", expr)
	for _, p := range pairs {
		from, to := way(p)
		fmt.Fprintf(&b, " WHEN %d THEN %d", from, to)
	}
	fmt.Fprintf(&b, " ELSE %s END", expr)
	return b.String()
}

// aliasCall gives an item of FROM the name it would have had.
func (r *identityRewriter) aliasCall(f *pg_query.FuncCall, name string) {
	item := r.called[f]
	if item.IsRowsfrom {
		r.err = ErrIdentity // the columns of ROWS FROM are named after the functions
		return
	}
	if item.Alias != nil {
		return
	}
	_, end, _ := r.call(f)
	if item.Ordinality {
		i := r.after(end)
		if i+1 >= len(r.tokens) {
			r.err = ErrIdentity
			return
		}
		end = int(r.tokens[i+1].End) // WITH ORDINALITY
	}
	r.closes = append(r.closes, Edit{Start: end, End: end, New: " AS " + name})
}

// The views.

// identityViews are the columns of the views that show pids, as all servers from version 14 on have them.
var identityViews = map[string]struct{ columns, pids []string }{
	"pg_stat_activity": {
		columns: []string{
			"datid", "datname", "pid", "leader_pid", "usesysid", "usename", "application_name", "client_addr",
			"client_hostname", "client_port", "backend_start", "xact_start", "query_start", "state_change", "wait_event_type",
			"wait_event", "state", "backend_xid", "backend_xmin", "query_id", "query", "backend_type",
		},
		pids: []string{"pid", "leader_pid"},
	},
	"pg_stat_ssl": {
		columns: []string{"pid", "ssl", "version", "cipher", "bits", "client_dn", "client_serial", "issuer_dn"},
		pids:    []string{"pid"},
	},
	"pg_locks": {
		columns: []string{
			"locktype", "database", "relation", "page", "tuple", "virtualxid", "transactionid", "classid", "objid", "objsubid",
			"virtualtransaction", "pid", "mode", "granted", "fastpath", "waitstart",
		},
		pids: []string{"pid"},
	},
}

func (r *identityRewriter) replace(start, end int, text string) {
	r.opens = append(r.opens, Edit{Start: start, End: end, New: text})
}

func (r *identityRewriter) wrap(start, end int, before, after string) {
	r.opens = append(r.opens, Edit{Start: start, End: start, New: before})
	r.closes = append(r.closes, Edit{Start: end, End: end, New: after})
}

// at returns the index of the token that begins at an offset, or -1; after that of the first one not before it.
func (r *identityRewriter) at(offset int32) int {
	if i := r.after(int(offset)); i < len(r.tokens) && r.tokens[i].Start == offset {
		return i
	}
	return -1
}

func (r *identityRewriter) after(offset int) int {
	i, _ := slices.BinarySearchFunc(r.tokens, offset, func(tok *pg_query.ScanToken, off int) int { return int(tok.Start) - off })
	return i
}

func (r *identityRewriter) is(i int, token pg_query.Token) bool {
	return i >= 0 && i < len(r.tokens) && r.tokens[i].Token == token
}

// call finds a call in the text: from the first token of its name to after its closing parenthesis, and the tokens of each
// argument.
func (r *identityRewriter) call(f *pg_query.FuncCall) (start, end int, args [][]*pg_query.ScanToken) {
	i := r.at(f.Location)
	open := i + 1 + 2*(len(f.Funcname)-1)
	if i < 0 || !r.is(open, pg_query.Token_ASCII_40) {
		r.err = ErrIdentity
		return 0, 0, nil
	}
	depth, from := 0, open+1
	for j := open; j < len(r.tokens); j++ {
		switch r.tokens[j].Token {
		case pg_query.Token_ASCII_40, pg_query.Token_ASCII_91:
			depth++
		case pg_query.Token_ASCII_41, pg_query.Token_ASCII_93:
			if depth--; depth == 0 {
				if j > from {
					args = append(args, r.tokens[from:j])
				}
				return int(r.tokens[i].Start), int(r.tokens[j].End), args
			}
		case pg_query.Token_ASCII_44:
			if depth == 1 {
				args = append(args, r.tokens[from:j])
				from = j + 1
			}
		}
	}
	r.err = ErrIdentity
	return 0, 0, nil
}
