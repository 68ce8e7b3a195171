// Package span tells an OpenTelemetry collector what sessions do.
//
//	session ──▶ statement ──▶ what each shard did for it
//
// Spans of statements are made when the statement is over, from times that are
// noted anyway: a session that is not traced pays for a comparison with nil. A
// session is traced or not as a whole, by chance, or a statement is because it
// comes with the trace of its caller in a comment, as sqlcommenter writes it.
//
// The Tracer owns the SDK's goroutine, which sends spans in batches and drops
// them when the collector is slower than the clients; Close ends it. Start
// reading at Tracer.
package span
