package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics is what the proxy tells Prometheus. Counters on the way of every
// statement would cost more than the statement; they are read from the pools
// when asked for.
type metrics struct {
	clients prometheus.Gauge
}

func newMetrics(s *Server, reg prometheus.Registerer) *metrics {
	m := &metrics{clients: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weft_clients", Help: "Clients connected.",
	})}
	if reg != nil {
		reg.MustRegister(m.clients, &poolCollector{srv: s})
	}
	return m
}

func (m *metrics) clientCame() { m.clients.Inc() }
func (m *metrics) clientGone() { m.clients.Dec() }

// poolCollector reads the pools' state when scraped.
type poolCollector struct{ srv *Server }

var (
	descConns = prometheus.NewDesc("weft_pool_connections", "Connections to shards by state.",
		[]string{"shard", "database", "user", "state"}, nil)
	descWaiting = prometheus.NewDesc("weft_pool_waiting", "Sessions that wait for a connection.",
		[]string{"shard", "database", "user"}, nil)
	descWaits    = prometheus.NewDesc("weft_pool_waits_total", "Times a session had to wait for a connection.", nil, nil)
	descTimeouts = prometheus.NewDesc("weft_pool_timeouts_total", "Times a session waited for a connection in vain.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descConns, descWaiting, descWaits, descTimeouts} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *poolCollector) Collect(ch chan<- prometheus.Metric) {
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
	st := p.srv.pool.Stats()
	ch <- prometheus.MustNewConstMetric(descWaits, prometheus.CounterValue, float64(st.Waits.Load()))
	ch <- prometheus.MustNewConstMetric(descTimeouts, prometheus.CounterValue, float64(st.Timeouts.Load()))
}
