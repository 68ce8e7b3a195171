// Package console says what operators may see of a proxy, and does what they
// tell it to.
//
//	psql -d weft ──SHOW POOLS──▶ proxy ──Run──▶ console ──Table──▶ proxy ──▶ psql
//	SELECT … FROM weft.pools ──▶ proxy ──View──▶ console ──Table──▶ JSON ──▶ view of the shard
//
// A View is a table of facts with columns of real types. The admin database
// shows it with SHOW, ordinary databases as a table in schema weft. Both read
// a Source, and who looks decides what is in it: see Viewer. The other commands
// of the admin database are in command.go. Nothing here knows the protocol or
// what a proxy is. Start reading at Run.
package console
