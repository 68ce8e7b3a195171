// Package progtest writes PL/pgSQL at random, for tests that let PostgreSQL and weft run the same program.
//
//	seed, Shape ──Body──▶ the body of a DO, a function or a procedure over Tables
//
// A program fails now and then, as programs do: most statements stand in blocks that catch errors and say what they were. A
// seed and a Shape always make the same program. Start reading at Body.
package progtest
