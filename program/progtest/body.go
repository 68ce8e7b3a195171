package progtest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// Types makes what the programs use beside tables.
const Types = `
CREATE DOMAIN small AS int CHECK (VALUE < 10);
CREATE DOMAIN full_text AS text NOT NULL;
CREATE DOMAIN short AS varchar(3);
CREATE TYPE pair AS (x int, y text);
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE PROCEDURE bump(INOUT n int, INOUT s text) LANGUAGE plpgsql AS 'BEGIN n := n + 1; s := s || n; END';
CREATE PROCEDURE half(n int, OUT s text) LANGUAGE plpgsql AS 'BEGIN s := n / 2; END';
CREATE FUNCTION noisy(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''noisy %'', n; RETURN n; END';
CREATE FUNCTION failing(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1 / n; END';
`

// Tables makes the tables that the programs use.
const Tables = `
CREATE TABLE t (a int, b text, c numeric(6,2));
CREATE TABLE u (id int PRIMARY KEY, v varchar(5));
`

// Rows fills the tables.
const Rows = `
INSERT INTO t VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, NULL, 3.25);
INSERT INTO u VALUES (1, 'x'), (2, 'y');
`

// Shape says what a program is the body of.
type Shape struct {
	// Set: a function that returns a set of integers.
	Set bool
	// Scalar: a function that returns an integer.
	Scalar bool
	// Ends: a procedure or a DO that may end its transaction.
	Ends bool
	// Given: the arguments given_i, an integer, and given_s, a text, are the first values of i and s.
	Given bool
	// Keeps: nearly all statements on tables keep to the rows of the key given_i, and there are no cursors and no texts to run. Given is set too.
	Keeps bool
	// More are statements that the program may have beside the others, without the semicolon.
	More []string
}

// generator writes a program.
type generator struct {
	*rand.Rand
	Shape
	b      strings.Builder
	depth  int
	loops  []string // labels of the loops around
	fresh  int
	inside bool // a handler is around
}

// Body returns the program of a seed.
func Body(seed uint64, shape Shape) string {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), Shape: shape}
	return g.program()
}

func (g *generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g *generator) line(format string, args ...any) {
	fmt.Fprintf(&g.b, strings.Repeat(" ", g.depth)+format+"\n", args...)
}

// program writes a body.
func (g *generator) program() string {
	if n := g.IntN(6); n < 2 && !g.Keeps {
		g.b.WriteString([]string{"#variable_conflict use_column\n", "#variable_conflict use_variable\n"}[n])
	}
	i, s := "2", "'str'"
	if g.Given {
		i, s = "given_i", "given_s"
	}
	g.b.WriteString("<<outer_block>>\nDECLARE\n i int := " + i + "; j int; k int := 1; n numeric := 1.25; s text := " + s + "; v varchar(5) := 'var'; b bool := true;\n" +
		" sm small := 3; ch char(4) := 'c'; arr int[] := '{1,2,3}'; r record; p pair := (1, 'p'); rw t%ROWTYPE; md mood := 'happy';\n")
	if g.Keeps {
		g.b.WriteString(" mine " + g.pick("int", "bigint", "smallint") + g.pick(" := given_i", " := given_i", "") + ";\n")
	} else {
		g.b.WriteString(" ref refcursor := 'refc'; cur SCROLL CURSOR (lo int) FOR SELECT * FROM t WHERE t.a >= lo ORDER BY 1, 2, 3;\n")
	}
	g.b.WriteString("BEGIN\n SELECT 1 AS x, 'rec'::text AS y INTO r;\n")
	if g.Keeps && g.IntN(3) > 0 {
		g.line("mine := given_i;")
	}
	if g.IntN(3) == 0 {
		g.statements(8)
	} else { // an error ends one statement only
		for range 2 + g.IntN(10) {
			if g.Ends && g.IntN(4) == 0 {
				g.line("%s;", g.pick("COMMIT", "ROLLBACK", "COMMIT AND CHAIN"))
			}
			g.line("BEGIN")
			g.statements(2)
			g.line("EXCEPTION WHEN OTHERS OR assert_failure THEN RAISE NOTICE '%% %%', SQLSTATE, SQLERRM; END;")
		}
	}
	g.line("RAISE NOTICE '%% %% %% %% %% %% %%', i, j, n, s, arr, p, r;")
	if g.Scalar && g.IntN(4) > 0 {
		g.line("RETURN %s;", g.int(1))
	}
	g.b.WriteString("END")
	return g.b.String()
}

var lineNumber = regexp.MustCompile(`line (\d+) at`)

// StaleLine reports whether PostgreSQL names, in one of the lines of a CONTEXT, the line of a variable's declaration instead of
// that of a statement, as PostgreSQL 15 does after the variable's value has failed.
func StaleLine(body string, contexts ...string) bool {
	lines := strings.Split(body, "\n")
	for _, s := range contexts {
		if m := lineNumber.FindStringSubmatch(s); m != nil && !strings.Contains(s, "noisy") {
			if n, _ := strconv.Atoi(m[1]); n > 1 && n <= len(lines) && strings.TrimSpace(lines[n-2]) == "DECLARE" {
				return true
			}
		}
	}
	return false
}

// WithoutLines returns a CONTEXT without the numbers of lines.
func WithoutLines(context string) string { return lineNumber.ReplaceAllString(context, "") }
