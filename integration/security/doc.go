// Package security tries to get at what a client of weft must not have: another
// user's rights, another session's state, a door without a password, a secret in
// a log.
//
//	attacker ──SQL, raw bytes, HTTP──▶ weft ──▶ two shards that ask for passwords
//
// The shards' pg_hba.conf trusts nobody but the service user, so that whoever gets
// through has been logged in by weft as somebody. Start reading at climb_test.go.
package security
