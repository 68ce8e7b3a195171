package catalog

import (
	_ "embed" // the list of functions
	"fmt"
	"strings"
	"sync"
)

// Traits say where the built-in functions of one name may run, apart from the place
// where the client called them. Each trait is the worst among the functions of that
// name, because only PostgreSQL knows which of them a call means.
type Traits struct {
	Known        bool // there is a built-in function of that name
	Aggregate    bool
	Window       bool
	SetReturning bool
	Volatility   byte // i, s, v
}

// Builtin returns the traits of the functions of pg_catalog that have this name. A
// user's function in pg_catalog is not among them, but among Functions.
func (s *Schema) Builtin(name string) Traits { return s.builtins[name] }

// builtinVersion is the major version whose functions builtinList has. They are the
// same in every database of every server of that version, and reading them from a
// server takes longer (9 ms) than reading the rest of a small schema. So Load reads
// them only from servers of other versions.
const builtinVersion = 15

// builtinQuery lists the built-in functions by their traits, written as letters.
const builtinQuery = `SET TRANSACTION READ ONLY;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL statement_timeout = 0;
SET LOCAL jit = off;
SELECT g.traits, pg_catalog.string_agg(g.name, ' ' ORDER BY g.name COLLATE "C")
FROM (SELECT p.proname::text AS name, pg_catalog.translate(pg_catalog.max(pg_catalog.translate(p.provolatile::text, 'isv', '123')), '123', 'isv') ||
 CASE WHEN pg_catalog.bool_or(p.prokind = 'a') THEN 'a' ELSE '' END ||
 CASE WHEN pg_catalog.bool_or(p.prokind = 'w') THEN 'w' ELSE '' END ||
 CASE WHEN pg_catalog.bool_or(p.proretset) THEN 'r' ELSE '' END AS traits
 FROM pg_catalog.pg_proc p WHERE p.pronamespace = 11 AND p.oid < 16384 GROUP BY p.proname) g
GROUP BY g.traits ORDER BY g.traits`

// builtinList has a line for each set of traits: the traits as letters, and the names of
// the functions. TestBuiltinFunctions compares the list with a server, and rewrites it
// with -rewrite.
//
//go:embed functions15.txt
var builtinList string

var builtinFunctions = sync.OnceValue(func() map[string]Traits {
	m := map[string]Traits{}
	for line := range strings.Lines(builtinList) {
		traits, names, _ := strings.Cut(line, ": ")
		if err := addTraits(m, traits, names); err != nil {
			panic(err) // the file is part of the program, and a test reads it
		}
	}
	return m
})

// addTraits gives all functions in names the traits that letters stand for.
func addTraits(m map[string]Traits, letters, names string) error {
	t := Traits{Known: true}
	for i := range len(letters) {
		switch c := letters[i]; c {
		case 'i', 's', 'v':
			t.Volatility = c
		case 'a':
			t.Aggregate = true
		case 'w':
			t.Window = true
		case 'r':
			t.SetReturning = true
		default:
			return fmt.Errorf("unknown trait %q", c)
		}
	}
	if t.Volatility == 0 {
		return fmt.Errorf("no volatility in %q", letters)
	}
	for name := range strings.FieldsSeq(names) {
		m[name] = t
	}
	return nil
}
