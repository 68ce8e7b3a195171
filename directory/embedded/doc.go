// Package embedded runs an etcd server inside this process, for weft dev and
// for tests, and hands out the same store that a real etcd has.
//
//	weft dev ──Start──▶ Server (etcd on a loopback port, data in a directory)
//	    └──Store──▶ etcd.Store ──▶ that port, as any other proxy would
//
// There is no second implementation of the directory: what works in dev works
// in production, and a second proxy joins through the same port. Server owns
// etcd's goroutines; Close ends them. Start reading at Start.
package embedded
