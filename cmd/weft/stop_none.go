//go:build !weftstop

package main

import "weft/twopc"

// stopAt is for tests, which build with the tag weftstop.
func stopAt() func(twopc.Point) { return nil }
