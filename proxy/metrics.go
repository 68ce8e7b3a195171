package proxy

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"weft/tally"
	"weft/twopc"
)

// metrics is what the proxy reports to Prometheus. What happens at every statement is counted
// in histograms of package tally, which cost an atomic addition or two; these and the pools are
// read when Prometheus asks.
type metrics struct {
	clients  prometheus.Gauge
	kinds    [tally.Kinds]*tally.Histogram
	commits  [len(outcomeNames)]*tally.Histogram // by twopc.Outcome
	gathered *tally.Histogram
	plans    *tally.Histogram // the sum is how many plans were asked for
	codes    tally.Codes
	// misplaced counts connections that were refused because the server is not the shard that
	// it should be.
	misplaced *prometheus.CounterVec
	repeated  prometheus.Counter
	held      holdMetrics
	reads     readMetrics
}

// holdMetrics is what was counted of statements that rounds of moves have held here.
type holdMetrics struct {
	waited *tally.Histogram // how long
	now    atomic.Int64     // statements that wait now
}

// outcomeNames are Prometheus's names for the outcomes of transactions of several shards.
var outcomeNames = [...]string{twopc.Open: "unknown", twopc.Committed: "committed", twopc.Aborted: "aborted"}

func newMetrics(s *Server, reg prometheus.Registerer) *metrics {
	m := &metrics{
		clients:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_clients", Help: "Clients connected."}),
		gathered: tally.NewHistogram(tally.Bytes),
		plans:    tally.NewHistogram(nil),
		held:     holdMetrics{waited: tally.NewHistogram(tally.Durations)},
		repeated: prometheus.NewCounter(prometheus.CounterOpts{Name: "weft_repeated_total", Help: "Statements that were carried out again because their shard was lost under them."}),
		misplaced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_shard_misplaced_total", Help: "Connections refused because the server is another one than the shard should be.",
		}, []string{"shard"}),
	}
	for i := range m.kinds {
		m.kinds[i] = tally.NewHistogram(tally.Durations)
	}
	for i := range m.commits {
		m.commits[i] = tally.NewHistogram(tally.Durations)
	}
	if reg != nil {
		reg.MustRegister(m.clients, m.misplaced, m.repeated, &poolCollector{srv: s}, &serverCollector{srv: s}, &runCollector{srv: s, m: m}, &heatCollector{srv: s})
	}
	if reg != nil {
		reg.MustRegister(&readCollector{srv: s, m: &m.reads})
	}
	return m
}

func (m *metrics) clientCame() { m.clients.Inc() }
func (m *metrics) clientGone() { m.clients.Dec() }

// runCollector reports what was counted of statements.
type runCollector struct {
	srv *Server
	m   *metrics
}

var (
	descStatements = prometheus.NewDesc("weft_statement_seconds", "Time from a statement's arrival to its answer, by how it was carried out.", []string{"kind"}, nil)
	descCommits    = prometheus.NewDesc("weft_two_phase_seconds", "Time that commits of transactions of several shards took, by how they ended.", []string{"outcome"}, nil)
	descGathered   = prometheus.NewDesc("weft_gather_bytes", "Bytes of rows that statements over several shards have read.", nil, nil)
	descErrors     = prometheus.NewDesc("weft_errors_total", "Errors that clients were told, by SQLSTATE.", []string{"sqlstate"}, nil)
	descPlans      = prometheus.NewDesc("weft_plan_lookups_total", "Plans that were asked for.", nil, nil)
	descPlanMisses = prometheus.NewDesc("weft_plan_misses_total", "Plans that had to be made.", nil, nil)
	descPlanBytes  = prometheus.NewDesc("weft_plan_cache_bytes", "Memory of the cache of plans.", nil, nil)
	descParsed     = prometheus.NewDesc("weft_parse_misses_total", "Texts that had to be parsed.", nil, nil)
	descTracked    = prometheus.NewDesc("weft_statements_tracked", "Normalised statements in weft.statements.", nil, nil)
	descStalls     = prometheus.NewDesc("weft_loop_stalls_total", "Times a session was made to leave its loop because it held up the others.", nil, nil)
	descPanics     = prometheus.NewDesc("weft_panics_total", "Bugs that weft ran into; each has ended a session at most.", nil, nil)
	descMoveRows   = prometheus.NewDesc("weft_moves_rows_total", "Rows that this proxy has carried to other shards.", nil, nil)
	descMoveBytes  = prometheus.NewDesc("weft_moves_bytes_total", "Bytes of rows that this proxy has carried to other shards.", nil, nil)
	descMovePauses = prometheus.NewDesc("weft_move_pause_seconds", "Time that rounds of moves have held statements, by kind of statement.", []string{"kind"}, nil)
	descMoveRounds = prometheus.NewDesc("weft_move_rounds_total", "Rounds of moves that this proxy has run, by what became of them.", []string{"outcome"}, nil)
	descHolds      = prometheus.NewDesc("weft_holds", "Statements of clients of this proxy that wait for a round of a move now.", nil, nil)
	descHeld       = prometheus.NewDesc("weft_hold_seconds", "Time that statements of clients of this proxy have waited for rounds of moves.", nil, nil)
	descBuckets    = prometheus.NewDesc("weft_buckets", "Buckets of a database on a shard.", []string{"database", "shard"}, nil)
	descTrackedOut = prometheus.NewDesc("weft_statements_dropped_total", "Normalised statements that had to leave weft.statements for others.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *runCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descStatements, descCommits, descGathered, descErrors, descPlans, descPlanMisses, descPlanBytes, descParsed,
		descTracked, descTrackedOut, descPanics, descStalls, descMoveRows, descMoveBytes, descMovePauses, descMoveRounds, descHolds, descHeld, descBuckets,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *runCollector) Collect(ch chan<- prometheus.Metric) {
	defer c.srv.panics.Recover("metrics")
	for k, h := range c.m.kinds {
		ch <- histogram(descStatements, h, 1e9, tally.Kind(k).String())
	}
	for o, h := range c.m.commits {
		ch <- histogram(descCommits, h, 1e9, outcomeNames[o])
	}
	ch <- histogram(descGathered, c.m.gathered, 1)
	for code, n := range c.m.codes.All() {
		ch <- prometheus.MustNewConstMetric(descErrors, prometheus.CounterValue, float64(n), code)
	}
	counter := func(d *prometheus.Desc, n int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
	counter(descPanics, c.srv.panics.count.Load())
	counter(descStalls, int64(c.srv.register.loops.Stalls()))
	counter(descPlans, c.m.plans.Read().Sum)
	counter(descPlanMisses, c.srv.memory.plans.Misses())
	counter(descParsed, c.srv.memory.texts.Misses())
	ch <- prometheus.MustNewConstMetric(descPlanBytes, prometheus.GaugeValue, float64(c.srv.memory.plans.Bytes()))
	st := c.srv.counts.statements.State()
	ch <- prometheus.MustNewConstMetric(descTracked, prometheus.GaugeValue, float64(st.Statements))
	counter(descTrackedOut, st.Dropped)
	c.collectMoves(ch)
}

// collectMoves reports what was counted of moves.
func (c *runCollector) collectMoves(ch chan<- prometheus.Metric) {
	m := c.srv.moving.jobs.Counts()
	ch <- prometheus.MustNewConstMetric(descMoveRows, prometheus.CounterValue, float64(m.Rows))
	ch <- prometheus.MustNewConstMetric(descMoveBytes, prometheus.CounterValue, float64(m.Bytes))
	for outcome, n := range m.Outcomes {
		ch <- prometheus.MustNewConstMetric(descMoveRounds, prometheus.CounterValue, float64(n), outcome)
	}
	ch <- histogram(descMovePauses, m.Writes, 1e9, "write")
	ch <- histogram(descMovePauses, m.Reads, 1e9, "read")
	ch <- histogram(descHeld, c.m.held.waited, 1e9)
	ch <- prometheus.MustNewConstMetric(descHolds, prometheus.GaugeValue, float64(c.m.held.now.Load()))
	snap := c.srv.cfg.Snapshot()
	for _, db := range snap.Databases() {
		on := make([]int, len(snap.Shards))
		for _, i := range snap.PlacementOf(db, "")[:snap.BucketCount] {
			if int(i) < len(on) {
				on[i]++
			}
		}
		for i, n := range on {
			ch <- prometheus.MustNewConstMetric(descBuckets, prometheus.GaugeValue, float64(n), db, snap.Shards[i].Name)
		}
	}
}

// histogram translates a histogram for Prometheus. unit is how many of its values make one of
// Prometheus's unit.
func histogram(d *prometheus.Desc, h *tally.Histogram, unit float64, labels ...string) prometheus.Metric {
	r := h.Read()
	buckets := make(map[float64]uint64, len(r.Bounds))
	for i, b := range r.Bounds {
		buckets[float64(b)/unit] = r.Counts[i]
	}
	return prometheus.MustNewConstHistogram(d, r.Count, float64(r.Sum)/unit, buckets, labels...)
}
