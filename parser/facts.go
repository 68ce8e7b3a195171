package parser

import (
	"errors"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/tally"
)

// Facts is what a text does to the session it runs in, over all its statements. Facts are immutable and shared.
//
// What a statement calls is counted where it runs: in queries, in the arguments of EXECUTE and CALL, under EXPLAIN ANALYZE
// (with whatever argument), in COPY (query) and CREATE TABLE AS; not in the bodies of functions, views and rules. What a function that is
// called does inside is not known here.
type Facts struct {
	Effects    Effect
	Statements int // 0 for an empty text, and when Err is set
	Settings   []Setting
	// Options are those of weft's own parameters that are set to a constant, be it for a role or a database.
	Options []Option
	// Funcs are the functions called: distinct names in lower case, without schema.
	Funcs []string
	// Relations are the relations named: distinct, with their schema where the text gives one. A name may be that of a CTE.
	Relations []string
	Channels  []Channel
	Prepared  []Prepared
	// Exact: these facts depend on values of literals, or have offsets, and hold for this very text only, not for others
	// with the same Norm.
	Exact bool
	// Snapless: it is one statement, and one that PostgreSQL runs without a snapshot, so that a REPEATABLE READ transaction
	// which begins with it takes its own later.
	Snapless bool
	// Reads: it changes nothing, for certain.
	Reads bool
	// Whole: it is one statement, and one that PostgreSQL carries out in one transaction whatever it calls.
	Whole bool
	// Alone is what PostgreSQL calls a command that it always refuses in a transaction block.
	Alone string
	// Err: pg_query could not parse the text, or it is too deep to be parsed safely; Effects is then Opaque.
	Err error

	// Norm is the text without its literals, shortened; Statement is it for people. Empty for one that is not kept, or
	// cannot be parsed: what looks like a name in it may be anything.
	Norm string
	// Tally is where the executions of it are counted.
	Tally tally.Anchor
}

// Setting is one SET, RESET or set_config.
type Setting struct {
	// Name is the setting's name as PostgreSQL knows it, in lower case.
	Name string
	// Local: the change ends with the transaction.
	Local bool
	// Reset: back to the default.
	Reset bool
	// Value is the constant that a timeout is set to. Empty: it is another parameter, or no constant.
	Value string
}

// TimeoutSettings are the parameters whose values Setting has.
var TimeoutSettings = [...]string{"statement_timeout", "lock_timeout"}

// Option is one of weft's own parameters and the constant it is set to.
type Option struct{ Name, Value string }

// OptionPrefix is what the names of weft's own parameters begin with.
const OptionPrefix = "weft."

// ChannelKind is what is done to a channel.
type ChannelKind uint8

// The kinds.
const (
	Listen ChannelKind = iota + 1
	Unlisten
	Notify
)

// Channel is one LISTEN, UNLISTEN, NOTIFY, or pg_notify with a constant name. UNLISTEN * has the name "*".
type Channel struct {
	Kind ChannelKind
	Name string
}

// PreparedKind is what is done to an SQL-level prepared statement.
type PreparedKind uint8

// The kinds.
const (
	Prepare PreparedKind = iota + 1
	Execute
	Deallocate
	DeallocateAll
)

// Prepared is one PREPARE, EXECUTE or DEALLOCATE. The offsets are in bytes of the text.
type Prepared struct {
	Kind PreparedKind
	Name string
	// NameStart, NameEnd is where the text has the name, quotes and all; both 0 for DEALLOCATE ALL.
	NameStart, NameEnd int
	// BodyStart, BodyEnd is the statement that PREPARE prepares, and Body what it will do when executed: none of it is in the
	// Facts of the PREPARE itself.
	BodyStart, BodyEnd int
	Body               *Facts
}

// ParseFacts parses a text and collects its facts. It always returns some: those of a text that cannot be parsed say Opaque.
func ParseFacts(text string) *Facts { return parseFacts(text, Options{}) }

func parseFacts(text string, opt Options) *Facts {
	tree, edits, err := parse(text, opt)
	if err != nil {
		return &Facts{Effects: Opaque, Err: err}
	}
	c := collector{facts: &Facts{Statements: len(tree.Stmts)}, text: edits.Apply(text), edits: edits}
	for _, raw := range tree.Stmts {
		start := int(raw.StmtLocation)
		end := start + int(raw.StmtLen)
		if raw.StmtLen == 0 {
			end = len(c.text)
		}
		c.start, c.end = start, end
		c.statement(raw.Stmt)
	}
	if c.err != nil {
		return &Facts{Effects: Opaque, Err: c.err}
	}
	c.facts.Reads = onlyReads(tree, c.facts.Funcs)
	c.facts.Whole = len(tree.Stmts) == 1 && whole(tree.Stmts[0].Stmt)
	c.facts.Snapless = len(tree.Stmts) == 1 && snapless(tree.Stmts[0].Stmt)
	// The meaning of U&"…" depends on the literal of its UESCAPE.
	if i := strings.IndexAny(text, "uU"); i >= 0 && strings.Contains(strings.ToLower(text[i:]), `u&"`) {
		c.facts.Exact = true
	}
	return c.facts
}

// snapless reports whether PostgreSQL runs a statement without a snapshot (PlannedStmtRequiresSnapshot has the list).
func snapless(n *pg_query.Node) bool {
	switch n.GetNode().(type) {
	case *pg_query.Node_TransactionStmt, *pg_query.Node_LockStmt, *pg_query.Node_VariableSetStmt, *pg_query.Node_VariableShowStmt,
		*pg_query.Node_ConstraintsSetStmt, *pg_query.Node_FetchStmt, *pg_query.Node_ListenStmt, *pg_query.Node_NotifyStmt,
		*pg_query.Node_UnlistenStmt, *pg_query.Node_CheckPointStmt:
		return true
	}
	return false
}

var (
	errDeep = errors.New("statement is nested too deeply to be analysed")
	errZero = errors.New("statement has a zero byte") // pg_query would see its beginning only
)

// parse is pg_query.Parse made safe and faithful. The tree's locations are offsets in edits.Apply(text), which differs from
// text only where the session has standard_conforming_strings off.
func parse(text string, opt Options) (*pg_query.ParseResult, Edits, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, nil, errZero
	}
	var s Scanner
	ok := s.Scan([]byte(text), opt)
	if ok && deep(s.Norm) || !ok && len(text) > maxDepth {
		return nil, nil, errDeep
	}
	var edits Edits
	if ok && opt.NonStandardStrings {
		edits = standardStrings(text, s.Literals)
	}
	tree, err := pg_query.Parse(edits.Apply(text))
	if err != nil && ok {
		if blank := blankContinuations([]byte(text), s.Literals, opt); string(blank) != text {
			tree, err = pg_query.Parse(edits.Apply(string(blank)))
		}
	}
	return tree, edits, err
}

// standardStrings says of each string with a backslash that it has escapes: pg_query reads all text as if
// standard_conforming_strings were on.
func standardStrings(text string, lits []Literal) Edits {
	var edits Edits
	for _, l := range lits {
		start := int(l.Start)
		if strings.IndexByte(text[start:l.End], '\\') < 0 {
			continue
		}
		switch {
		case l.Kind == NationalString:
			edits = append(edits, Edit{Start: start, End: start + 1, New: " nchar E"})
		case l.Kind == String && text[start] == '\'':
			edits = append(edits, Edit{Start: start, End: start, New: " E"})
		}
	}
	return edits
}
