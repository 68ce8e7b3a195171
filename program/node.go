package program

// Stmt is a statement of a program. A pointer to one of the structs below.
type Stmt interface{ at() *place }

// place is where a statement begins, and what PostgreSQL calls its kind in a CONTEXT.
type place struct {
	Line int
	Kind string
}

func (p *place) at() *place { return p }

type (
	// Block is BEGIN … END with its declarations.
	Block struct {
		place
		Label    string
		Vars     []*Var
		Body     []Stmt
		Handlers []*Handler // nil without EXCEPTION
		// SQLState and SQLErrm are the variables that handlers see.
		SQLState, SQLErrm *Var
	}

	// Handler is one WHEN of an EXCEPTION clause.
	Handler struct {
		Others bool
		Codes  []string
		Body   []Stmt
	}

	// Assign is target := expr.
	Assign struct {
		place
		Target *Target
		Expr   *Expr
	}

	// If is IF with its ELSIFs.
	If struct {
		place
		Arms []Arm
		Else []Stmt
	}

	// Arm is a condition and what is done if it holds.
	Arm struct {
		Line int
		Cond *Expr
		Body []Stmt
	}

	// Case is CASE. With a test expression, Var holds its value and the arms compare with it.
	Case struct {
		place
		Test    *Expr
		Var     *Var
		Arms    []Arm
		HasElse bool
		Else    []Stmt
	}

	// Loop is LOOP, and WHILE if Cond is set.
	Loop struct {
		place
		Label string
		Cond  *Expr
		Body  []Stmt
	}

	// ForInt is FOR over integers.
	ForInt struct {
		place
		Label              string
		Var                *Var
		Lower, Upper, Step *Expr
		Reverse            bool
		Body               []Stmt
	}

	// ForQuery is FOR over the rows of a query, which is Query, or what Dynamic yields.
	ForQuery struct {
		place
		Label          string
		Into           *Into
		Query, Dynamic *Expr
		Using          []*Expr
		Body           []Stmt
	}

	// ForCursor is FOR over a bound cursor.
	ForCursor struct {
		place
		Label  string
		Var    *Var
		Cursor *Var
		Args   []CursorArg
		Body   []Stmt
		// Steps: the body may look at a cursor, so each row is fetched when its turn comes.
		Steps bool
	}

	// Foreach is FOREACH over an array.
	Foreach struct {
		place
		Label string
		Into  *Into
		Slice int
		Array *Expr
		Body  []Stmt
	}

	// Exit is EXIT, or CONTINUE.
	Exit struct {
		place
		Continue bool
		Label    string
		When     *Expr
	}

	// Return is RETURN. A plain variable is in Expr too.
	Return struct {
		place
		Expr *Expr
	}

	// ReturnNext is RETURN NEXT.
	ReturnNext struct {
		place
		Expr *Expr
	}

	// ReturnQuery is RETURN QUERY.
	ReturnQuery struct {
		place
		Query, Dynamic *Expr
		Using          []*Expr
	}

	// Raise is RAISE. Without anything behind it, it throws the handled error again.
	Raise struct {
		place
		Level   string // DEBUG, LOG, INFO, NOTICE, WARNING or ERROR
		Again   bool
		Code    string // of a condition name or SQLSTATE
		Cond    string // the condition as it is written
		Message string
		HasText bool
		Params  []*Expr
		Options []RaiseOption
	}

	// RaiseOption is one item of USING.
	RaiseOption struct {
		Name string // in capitals
		Expr *Expr
	}

	// Assert is ASSERT.
	Assert struct {
		place
		Cond, Message *Expr
	}

	// SQL is a statement of SQL.
	SQL struct {
		place
		Query  *Expr
		Into   *Into
		Strict bool
	}

	// Execute is EXECUTE.
	Execute struct {
		place
		Query  *Expr
		Into   *Into
		Strict bool
		Using  []*Expr
	}

	// Perform is PERFORM.
	Perform struct {
		place
		Query *Expr
	}

	// Call is CALL.
	Call struct {
		place
		Query *Expr
	}

	// Diagnostics is GET DIAGNOSTICS.
	Diagnostics struct {
		place
		Stacked bool
		Items   []DiagnosticsItem
	}

	// DiagnosticsItem is target = kind.
	DiagnosticsItem struct {
		Target *Target
		Kind   string // in capitals
	}

	// Open is OPEN of a cursor.
	Open struct {
		place
		Cursor         *Var
		Options        string // SCROLL, NO SCROLL or nothing
		Query, Dynamic *Expr
		Using          []*Expr
		Args           []CursorArg
	}

	// CursorArg is the value of an argument of a bound cursor.
	CursorArg struct {
		Name string // empty: by position
		Expr *Expr
	}

	// Fetch is FETCH, or MOVE if Into is nil.
	Fetch struct {
		place
		Cursor    *Var
		Direction string // as SQL writes it, with %s in place of Count
		Count     *Expr
		Into      *Into
	}

	// Close is CLOSE.
	Close struct {
		place
		Cursor *Var
	}

	// End is COMMIT, or ROLLBACK.
	End struct {
		place
		Rollback, Chain bool
	}
)

// Into is where a row goes: one record, or scalars one by one.
type Into struct{ Targets []*Target }

// Target is a variable that is assigned to, a field of a record, or an element of an array.
type Target struct {
	Names []string // as they are written
	scope *scope
	// Subscripts are those of an element of an array.
	Subscripts []*Expr
}

// Var is a variable.
type Var struct {
	Name     string
	Line     int
	Type     TypeName
	Constant bool
	NotNull  bool
	Default  *Expr
	Cursor   *Cursor // of a bound cursor
	index    int     // in the frame of a run
}

// Cursor is what a bound cursor is bound to.
type Cursor struct {
	Query   *Expr
	Options string
	Args    []*Var
}

// TypeName is a type as it is written.
type TypeName struct {
	Text string
	// Like is set for name%TYPE and name%ROWTYPE: the name, part by part.
	Like    []string
	RowType bool
	// Same is the variable that %TYPE names.
	Same *Var
}

// Mode is how a piece of SQL is read.
type Mode uint8

// The modes of an Expr.
const (
	Expression Mode = iota
	Assignment
	Statement
)

// Expr is a piece of SQL of a program: an expression or a statement.
type Expr struct {
	Text string
	Mode Mode
	Line int
	// Shown is the text in a CONTEXT, if another one than Text.
	Shown string
	scope *scope
	tree  *tree
}
