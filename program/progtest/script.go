package progtest

import (
	"math/rand/v2"
	"strings"
)

// ScriptArguments are the arguments of the functions in SQL whose bodies Script returns: the variables that programs have.
const ScriptArguments = "i int, j int, k int, n numeric, s text, v varchar, b bool, sm small, ch char, arr int[], p pair, md mood"

// ScriptValues are values for ScriptArguments.
const ScriptValues = "2, NULL, 1, 1.25, 'str', 'var', true, 3, 'c', '{1,2,3}', (1, 'p'), 'happy'"

// scriptNames are what functions in SQL have instead of the variables of programs that are no arguments.
var scriptNames = strings.NewReplacer("outer_block.", "f.", "r.x", "p.x", "r.y", "p.y", "rw.a", "i", "rw.b", "s", "rw.c", "n", "found", "b", "(rw)", "(p)", "r::text", "p::text")

// Script returns the body of a function f in SQL. The last statement returns integers: all rows of a query, or those that a
// statement has written.
func Script(seed uint64) string {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	for range g.IntN(3) {
		g.line("%s;", g.pick(append(g.changes("f.v"),
			"UPDATE ref SET name = s WHERE id = i",
			"SELECT "+g.int(1)+", "+g.str(1),
		)...))
	}
	g.line("%s", g.pick(
		"SELECT a FROM t WHERE "+g.where(1)+" ORDER BY a, t.b, c",
		"SELECT a FROM t WHERE "+g.where(1)+" ORDER BY a, t.b, c",
		"SELECT "+g.int(2), "SELECT "+g.int(2),
		"SELECT max(a) FROM t WHERE "+g.where(1),
		"SELECT count(*)::int FROM t JOIN u ON u.id = a WHERE "+g.bool(0),
		"INSERT INTO t (a, b) VALUES ("+g.int(0)+", s) RETURNING a",
		"UPDATE t SET c = c + 1 WHERE a = "+g.int(0)+" RETURNING a",
		"DELETE FROM u WHERE id = "+g.int(0)+" RETURNING id"))
	return scriptNames.Replace(g.b.String())
}
