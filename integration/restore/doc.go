// Package restore makes backup points under load, restores all shards to one of them and looks whether every
// transaction is there whole.
package restore
