// Package patroni reads what Patroni keeps in etcd of a cluster of servers, which is a shard of weft, and asks its REST API.
//
//	etcd /service/SCOPE/members/* ──▶ Members ──▶ addresses of servers, of REST APIs
//	                       config ──▶ Settings ──▶ what weft check complains of
//	REST API ◀── Client.Switchover
//
// What Patroni says of its servers tells where to look, and never which server is the primary: package primary finds that out.
//
// The package starts no goroutine. Start reading at Members.
package patroni
