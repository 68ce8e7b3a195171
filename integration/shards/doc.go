// Package shards grows and shrinks a cluster while clients read and write, and compares every row
// with what the clients did.
package shards
