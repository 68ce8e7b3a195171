// Package identity tells whether a server is the shard it is taken for.
//
//	cluster.yaml, etcd ──▶ Expected ──┐
//	                                  ├── Check ──▶ nil, or the error that says both
//	a database of a server ──▶ Found ─┘
//
// A file or a directory can name the wrong server: a typo in a cluster's name, two
// hosts changed for each other, a lost etcd that was filled anew. The server would
// answer, with somebody else's rows. So each database with declared tables says
// whose it is: a Stamp with the cluster's id, the shard's name and the identifier of the
// server, which PostgreSQL makes at initdb and which standbys and physical backups share.
//
// The life of a stamp:
//
//  1. The first declaration of a database, or the first proxy that finds one without,
//     writes it as a comment on the schema weft. A comment can be read by every role in
//     every database with one query that cannot fail, and nobody but the schema's
//     owner can change it.
//  2. Every new connection to a shard runs Query and compares. What does not fit is closed
//     before any statement is sent.
//  3. weft apply and weft check compare before a proxy has to.
//  4. weft apply --adopt writes another one, when an operator says so.
//
// Nothing here talks to a server: callers run the texts. Start reading at Expected.Check.
package identity
