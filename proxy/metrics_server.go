package proxy

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weft/pool"
	"weft/primary"
	"weft/proxy/failovers"
)

// serverCollector reports what is known of the servers of shards, and of transactions in doubt.
type serverCollector struct{ srv *Server }

var (
	descUp           = prometheus.NewDesc("weft_shard_up", "1 if a server of a shard answers and may be used.", []string{"shard", "server", "role"}, nil)
	descLag          = prometheus.NewDesc("weft_replica_lag_seconds", "How far a standby is behind.", []string{"shard", "server"}, nil)
	descLagBytes     = prometheus.NewDesc("weft_replica_lag_bytes", "How much of the primary's log a standby has not replayed.", []string{"shard", "server"}, nil)
	descSeeking      = prometheus.NewDesc("weft_shard_seeking_seconds_total", "For how long a shard had no primary.", []string{"shard"}, nil)
	descFailover     = prometheus.NewDesc("weft_failover_pause_seconds", "Time from the first suspicion until clients went on, by where.", []string{"shard", "outcome"}, nil)
	descAtGate       = prometheus.NewDesc("weft_gate_waiting", "Sessions that wait because a shard has no primary, or is paused.", []string{"shard"}, nil)
	descUnled        = prometheus.NewDesc("weft_failover_timeouts_total", "Times a session waited for a primary in vain.", []string{"shard"}, nil)
	descHarmed       = prometheus.NewDesc("weft_failover_transactions_total", "Transactions of several shards of which a failover has lost all or a part, by state.", []string{"state"}, nil)
	descLossy        = prometheus.NewDesc("weft_failovers_total", "Changes of the primary of a shard, by whether something was lost.", []string{"shard", "lossy"}, nil)
	descDurable      = prometheus.NewDesc("weft_shard_durable", "1 if commits of a shard are as durable as the cluster declares.", []string{"shard"}, nil)
	descPointSeconds = prometheus.NewDesc("weft_backup_point_seconds", "How long the newest backup point took.", nil, nil)
	descPointAge     = prometheus.NewDesc("weft_backup_point_age_seconds", "How old the newest backup point is.", nil, nil)
	descPointEvery   = prometheus.NewDesc("weft_backup_point_interval_seconds", "How far apart backup points are made, if one command makes them.", nil, nil)
	descInDoubt      = prometheus.NewDesc("weft_in_doubt_transactions", "Prepared transactions of the cluster on a shard that are older than so many seconds.", []string{"shard", "older_than"}, nil)
)

// Describe implements prometheus.Collector.
func (c *serverCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descUp, descLag, descLagBytes, descSeeking, descFailover, descAtGate, descUnled, descDurable, descLossy, descHarmed, descInDoubt, descPointSeconds, descPointAge, descPointEvery} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *serverCollector) Collect(ch chan<- prometheus.Metric) {
	defer c.srv.panics.Recover("metrics")
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	accounts := c.srv.keeper.seeker.Accounts()
	for shard, a := range accounts {
		for i := range a.View.Servers {
			s := &a.View.Servers[i]
			up := 0.0
			if s.Role == primary.Leads || s.Role == primary.Follows {
				up = 1
			}
			gauge(descUp, up, shard, s.Address, roleLabel(a.View, s))
			if s.LagKnown {
				gauge(descLag, s.Lag.Seconds(), shard, s.Address)
				gauge(descLagBytes, float64(s.LagBytes), shard, s.Address)
			}
		}
		ch <- prometheus.MustNewConstMetric(descSeeking, prometheus.CounterValue, a.Sought.Seconds(), shard)
		ch <- histogram(descFailover, a.Promoted, 1e9, shard, "promoted")
		ch <- histogram(descFailover, a.Returned, 1e9, shard, "returned")
	}
	c.srv.pool.Shards(func(sh *pool.Shard) {
		gauge(descAtGate, float64(sh.AtGate()), sh.Name)
		ch <- prometheus.MustNewConstMetric(descUnled, prometheus.CounterValue, float64(sh.Unled()), sh.Name)
	})
	counts := c.srv.keeper.failovers.Counts()
	for shard := range accounts { // a counter that begins with its first event shows no increase
		for _, lossy := range []string{"no", "unknown", "yes"} {
			counts[failovers.Count{Shard: shard, Lossy: lossy}] += 0
		}
	}
	for what, n := range counts {
		ch <- prometheus.MustNewConstMetric(descLossy, prometheus.CounterValue, float64(n), what.Shard, what.Lossy)
	}
	for state, n := range c.srv.keeper.ledger.Counts() {
		ch <- prometheus.MustNewConstMetric(descHarmed, prometheus.CounterValue, float64(n), state)
	}
	if p := c.srv.keeper.points.Newest(); p != nil {
		gauge(descPointSeconds, p.Took.Seconds())
		gauge(descPointAge, max(0, time.Since(p.At).Seconds()))
		if p.Every > 0 {
			gauge(descPointEvery, p.Every.Seconds())
		}
	}
	for shard, v := range c.srv.keeper.durable.Verdicts() {
		durable := 0.0
		if v.Lacks == "" {
			durable = 1
		}
		gauge(descDurable, durable, shard)
	}
	for shard, counts := range c.srv.left.InDoubt() {
		for _, n := range counts {
			gauge(descInDoubt, float64(n.Transactions), shard, strconv.Itoa(int(n.OlderThan.Seconds())))
		}
	}
}

// roleLabel is the role of a server. One that is away keeps the role that it had, so that its series goes on.
func roleLabel(v *primary.View, s *primary.Server) string {
	switch {
	case s.Role != primary.Away:
		return s.Role.String()
	case s.Address == v.Primary:
		return primary.Leads.String()
	}
	return primary.Follows.String()
}
