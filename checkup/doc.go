// Package checkup says what is wrong with a cluster, or will be soon, and what to do about it.
//
//	server, directory/etcd, cmd/weft ── Facts ──▶ Examine ──▶ []Finding ──▶ cmd/weft: weft doctor
//
// The way of a finding:
//
//  1. Others collect the Facts: what servers, proxies, etcd and files say of themselves. What could
//     not be asked says why.
//  2. Examine compares the facts with each other and with bounds, area by area. An area without a
//     fault gets one finding that says what was looked at.
//  3. A Finding has a sentence for people, and another one that says what to do.
//
// The package is pure: no clock, no I/O; the time is a fact like others.
//
// Start reading at Examine.
package checkup
