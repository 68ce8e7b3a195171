package parser

import (
	"regexp"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// RolePassword is what CREATE ROLE or ALTER ROLE gives a role as its password.
type RolePassword struct {
	// Role is the role's name, or empty if it is who Current says: CURRENT_USER, SESSION_USER.
	Role    string
	Current string
	// Password is what the literal says: clear text, or a form that is stored as it is.
	Password string
	// Start, End is where the text has the literal, with its UESCAPE clause; both are 0 if
	// that cannot be told.
	Start, End int
	// Doubled: the literal stands in another one, where quotes are doubled.
	Doubled bool
}

// RolePasswords finds the passwords of a text. One that is PASSWORD NULL is none, and those of a statement that has
// several are left out: PostgreSQL refuses it.
func RolePasswords(text string, opt Options) ([]RolePassword, error) {
	tree, err := ParseTree(text, opt)
	if err != nil {
		return nil, err
	}
	var s Scanner
	s.Scan([]byte(text), opt)
	var found []RolePassword
	for _, raw := range tree.Statements {
		if do := raw.Stmt.GetDoStmt(); do != nil {
			list, err := bodyPasswords(text, tree, s.Literals, do, opt)
			if err != nil {
				return nil, err
			}
			found = append(found, list...)
			continue
		}
		given := RolePassword{}
		var options []*pg_query.Node
		switch n := raw.Stmt.Node.(type) {
		case *pg_query.Node_CreateRoleStmt:
			given.Role, options = n.CreateRoleStmt.Role, n.CreateRoleStmt.Options
		case *pg_query.Node_AlterRoleStmt:
			given.Role, given.Current = roleSpec(n.AlterRoleStmt.Role)
			options = n.AlterRoleStmt.Options
		}
		d := passwordOption(options)
		if d == nil {
			continue
		}
		given.Password = d.Arg.GetString_().GetSval()
		given.Start, given.End = literalAfter(text, s.Literals, tree.Offset(d.Location))
		found = append(found, given)
	}
	return found, nil
}

// GivesPassword reports whether the options of CREATE or ALTER ROLE have a password.
func GivesPassword(options []*pg_query.Node) bool { return passwordOption(options) != nil }

// givesPasswordOnly reports whether ALTER ROLE says nothing but a password and until when it is valid.
func givesPasswordOnly(options []*pg_query.Node) bool {
	for _, o := range options {
		if name := o.GetDefElem().GetDefname(); name != "password" && name != "validUntil" {
			return false
		}
	}
	return len(options) > 0
}

func passwordOption(options []*pg_query.Node) (found *pg_query.DefElem) {
	for _, o := range options {
		d := o.GetDefElem()
		if d.GetDefname() != "password" {
			continue
		}
		if found != nil {
			return nil
		}
		found = d
	}
	if found.GetArg() == nil {
		return nil
	}
	return found
}

func roleSpec(r *pg_query.RoleSpec) (name, current string) {
	switch r.GetRoletype() {
	case pg_query.RoleSpecType_ROLESPEC_CURRENT_USER, pg_query.RoleSpecType_ROLESPEC_CURRENT_ROLE:
		return "", "CURRENT_USER"
	case pg_query.RoleSpecType_ROLESPEC_SESSION_USER:
		return "", "SESSION_USER"
	}
	return r.GetRolename(), ""
}

var escapeClause = regexp.MustCompile(`(?i)^\s*uescape\s*'[^']'`)

// literalAfter returns where the first literal behind an offset is; both 0 if there is none.
func literalAfter(text string, literals []Literal, offset int) (start, end int) {
	for _, l := range literals {
		if int(l.Start) < offset {
			continue
		}
		end = int(l.End)
		if l.Kind == UnicodeString {
			end += len(escapeClause.FindString(text[end:]))
		}
		return int(l.Start), end
	}
	return 0, 0
}
