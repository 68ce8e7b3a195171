package proxy

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"weft/pool"
)

// readMetrics counts, for sessions whose target is not primary, which servers transactions have chosen to read a shard, and how often
// sessions have waited for a standby.
type readMetrics struct{ standby, primary, waits atomic.Int64 }

// readCollector reports what was counted of reads on standbys.
type readCollector struct {
	srv *Server
	m   *readMetrics
}

var (
	descReads     = prometheus.NewDesc("weft_reads_total", "Choices of a server to read a shard, in sessions that may read standbys.", []string{"target"}, nil)
	descEjections = prometheus.NewDesc("weft_replica_ejections_total", "Times a standby was left alone because it could not be reached.", []string{"shard"}, nil)
	descCausal    = prometheus.NewDesc("weft_causal_waits_total", "Times a session has waited for a standby that is up to date.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *readCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descReads, descEjections, descCausal} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *readCollector) Collect(ch chan<- prometheus.Metric) {
	defer c.srv.panics.Recover("metrics")
	ch <- prometheus.MustNewConstMetric(descReads, prometheus.CounterValue, float64(c.m.standby.Load()), "standby")
	ch <- prometheus.MustNewConstMetric(descReads, prometheus.CounterValue, float64(c.m.primary.Load()), "primary")
	ch <- prometheus.MustNewConstMetric(descCausal, prometheus.CounterValue, float64(c.m.waits.Load()))
	c.srv.pool.Shards(func(sh *pool.Shard) {
		ch <- prometheus.MustNewConstMetric(descEjections, prometheus.CounterValue, float64(sh.Ejections()), sh.Name)
	})
}
