// Package quote writes names and values into SQL. Every text that weft makes of something
// that a client, a catalog or a file has said goes through it:
//
//	"SELECT * FROM " + quote.Name(schema, table) + " WHERE v = " + quote.Literal(value)
//
// What it writes means the same under every setting of a session: a backslash makes a
// literal an E'…', so that standard_conforming_strings does not matter. Nothing
// ends a quotation early. A NUL, which no SQL text can hold, is written as an escape that
// PostgreSQL refuses.
//
// Texts that hold marks to be replaced later, such as @rows@, are not made with it: a name
// can be any mark. They are joined from parts instead.
package quote
