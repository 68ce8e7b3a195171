//go:build race

package verdict

// simulatedSeconds is how long a simulation runs. The race detector makes it slow, and finds nothing in
// it: one goroutine does all.
const simulatedSeconds = 200
