// Package queue has clients of two proxies that write or read one key, and what the shards and the other clients notice of that.
package queue
