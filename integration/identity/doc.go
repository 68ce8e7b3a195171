// Package identity gives weft the wrong servers: files with typos, hosts that were changed
// for each other, an etcd that was lost or is another cluster's, servers that were copied.
// Nothing may be answered from them; and what was lost is rebuilt from the shards.
package identity
