package plan

// Explain says that a query is to be explained and not answered, for a query
// that is gathered. One that a single shard answers is explained there.
type Explain struct {
	// Analyze: it is run.
	Analyze bool
	// Format is text, json, xml or yaml.
	Format string
	// Options are all but FORMAT as they are written in EXPLAIN (…), for the
	// shards' own plans.
	Options string
}
