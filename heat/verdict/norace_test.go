//go:build !race

package verdict

// simulatedSeconds is how long a simulation runs.
const simulatedSeconds = 1800
