// Package config reads weft's two files: weft.yaml, how one proxy runs, and
// cluster.yaml, which shards a cluster has.
//
//	weft.yaml ────Load────▶ Config ──▶ server
//	cluster.yaml ─LoadCluster▶ Cluster ──Merge──▶ directory.Snapshot
//
// Reading is strict: a key that weft does not know, a value of the wrong kind
// or out of range is a Problem with its line and column, and all problems are
// reported at once, not the first alone. What a file leaves out has the value
// it has in Default.
//
// A password may be written as env:NAME or file:PATH. Nothing here looks at
// the environment: the command passes the lookup to ResolveSecrets.
//
// The package owns no goroutines. Start reading at Config; decode.go turns
// YAML into it, validate.go says what may be in it, and example.yaml is the
// commented file that users start from.
package config
