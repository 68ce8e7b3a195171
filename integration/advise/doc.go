// Package advise lets an application work on an undeclared database, asks weft for a shard key,
// declares it, and compares what then happens with what was said before.
package advise
