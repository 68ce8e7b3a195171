// Package primary tests what clients of two proxies notice while a shard has no primary, and that an old primary is not written to.
package primary
