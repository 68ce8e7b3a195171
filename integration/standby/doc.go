// Package standby has clients read standbys, and compares what they see with what the primaries have: under every way to send a statement, while standbys
// are behind, stand still, die and are promoted.
package standby
