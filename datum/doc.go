// Package datum holds one PostgreSQL value and the one form in which weft
// hashes it.
//
//	wire, parser ──Value──▶ datum.Column ──Key──▶ vindex
//
// A client may write the customer 42 as a literal, as text, as two, four or
// eight bytes; a uuid in a dozen spellings; 1 as 1.00. They mean one stored row,
// so they must give one place. The column's type decides, not what was sent:
//
//  1. A Value is what arrived: type OID, format, bytes.
//  2. Column.Match turns it into the Key that a stored value must have to be
//     equal to it (WHERE key = value), Column.Store into the Key of what will be
//     stored when it is assigned (INSERT, UPDATE … SET). They differ: storing
//     rounds 1.5 to an integer column's 2, comparing with 1.5 finds nothing.
//  3. A vindex hashes the Key.
//
// What cannot be told for certain is refused, with an Error whose Verdict says
// which way: Undecided means the server may know more than we do (its version,
// DateStyle, TimeZone), so visit every shard; Invalid means PostgreSQL refuses
// the value wherever it is sent; Never means that no stored value equals it.
// A wrong Key would lose rows, a refused one only costs time.
//
// Everything is pure: no I/O, no clock, no settings. Text is taken to be UTF-8,
// the servers' encoding; a session with another client_encoding must convert it
// first. Start reading at Column.
package datum
