// Package load makes work whose hot keys are known, and measures what its clients notice.
//
//	Keys ──which key──▶ Run ──statements──▶ weft
//	                     └──▶ Times: how many, how long
//
// A measurement goes like this:
//
//  1. Keys says which key the next statement is about: Even and Zipf, and Hot, whose hot key can move.
//  2. Start runs clients until Run.Stop. Each sends the next statement after a pause (a closed loop), or at times that do not depend on
//     the answers (Open).
//  3. Run.Reset and Run.Times bound a measurement.
//  4. Bars holds what is wanted beside what was measured, and says what is missed.
//
// Run owns the goroutines of its clients; Stop waits for them. Start reading at Start.
package load
