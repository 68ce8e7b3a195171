package proxy

import (
	"github.com/prometheus/client_golang/prometheus"

	"weft/pool"
)

// poolCollector reads the pools' state when scraped.
type poolCollector struct{ srv *Server }

var (
	descConns = prometheus.NewDesc("weft_pool_connections", "Connections to shards by state.",
		[]string{"shard", "database", "user", "state"}, nil)
	descWaiting = prometheus.NewDesc("weft_pool_waiting", "Sessions that wait for a connection.",
		[]string{"shard", "database", "user"}, nil)
	descShardTime = prometheus.NewDesc("weft_shard_seconds", "Time a shard took for a statement, or for its part of one.", []string{"shard"}, nil)
	descGhosts    = prometheus.NewDesc("weft_shard_ghosts", "Backends that may go on after their connection was closed in the middle of a statement.", []string{"shard"}, nil)
	descQueued    = prometheus.NewDesc("weft_pool_queue_seconds", "Time that sessions have waited for a connection, those that had to.", []string{"shard"}, nil)
	descTimeouts  = prometheus.NewDesc("weft_pool_timeouts_total", "Times a session waited for a connection in vain.", []string{"shard"}, nil)
	descRefusals  = prometheus.NewDesc("weft_pool_refusals_total", "Times a session was refused because a shard is overloaded.", []string{"shard"}, nil)
)

// Describe implements prometheus.Collector.
func (p *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descConns, descWaiting, descShardTime, descGhosts, descQueued, descTimeouts, descRefusals} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *poolCollector) Collect(ch chan<- prometheus.Metric) {
	defer p.srv.panics.Recover("metrics")
	type labels struct{ shard, database, user string }
	type counts struct{ open, idle, waiting int }
	sum := map[labels]counts{}
	for _, l := range p.srv.pool.Lanes() {
		k := labels{l.Shard, l.Key.Database, l.Key.User}
		c := sum[k]
		sum[k] = counts{c.open + l.Open, c.idle + l.Idle, c.waiting + l.Waiting}
	}
	for k, c := range sum {
		ch <- prometheus.MustNewConstMetric(descConns, prometheus.GaugeValue, float64(c.idle), k.shard, k.database, k.user, "idle")
		ch <- prometheus.MustNewConstMetric(descConns, prometheus.GaugeValue, float64(c.open-c.idle), k.shard, k.database, k.user, "used")
		ch <- prometheus.MustNewConstMetric(descWaiting, prometheus.GaugeValue, float64(c.waiting), k.shard, k.database, k.user)
	}
	p.srv.pool.Shards(func(sh *pool.Shard) {
		ch <- histogram(descShardTime, sh.Times, 1e9, sh.Name)
		ch <- histogram(descQueued, sh.Queued, 1e9, sh.Name)
		ch <- prometheus.MustNewConstMetric(descGhosts, prometheus.GaugeValue, float64(len(p.srv.pool.Ghosts(sh.Name))), sh.Name)
		ch <- prometheus.MustNewConstMetric(descTimeouts, prometheus.CounterValue, float64(sh.Stats.Timeouts.Load()), sh.Name)
		ch <- prometheus.MustNewConstMetric(descRefusals, prometheus.CounterValue, float64(sh.Stats.Refusals.Load()), sh.Name)
	})
}
