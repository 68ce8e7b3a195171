package program

// The names in this file let other packages look at a program without running it.

// Body returns the outermost block of a program. It must not be changed.
func (p *Program) Body() *Block { return p.body }

// Variable returns the variable of the i-th argument.
func (p *Program) Variable(i int) *Var { return p.args[i] }

// Found returns the variable FOUND.
func (p *Program) Found() *Var { return p.found }

// PrefersColumns reports whether a name that is a variable and a column means the column.
func (p *Program) PrefersColumns() bool { return p.conflict == UseColumn }

// LineOf returns the line of the body that a statement begins in.
func LineOf(s Stmt) int { return s.at().Line }

// Find returns the variable that the first of some names mean where the Expr stands, and how many of the names it took. It
// returns nil if they mean no variable.
func (e *Expr) Find(names []string) (*Var, int) { return e.scope.find(names, mayBeRecord) }

// SQL returns a piece of SQL as a statement: an expression becomes a SELECT.
func (e *Expr) SQL() string { return e.tree.sql }

// Find returns the variable that is assigned to, and the names of the field behind it.
func (t *Target) Find() (v *Var, field []string) {
	v, n := t.scope.find(t.Names, mayBeRecord)
	return v, t.Names[n:]
}
