package proxy

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"weft/heat"
	"weft/heat/throttle"
	"weft/heat/verdict"
)

// heatCollector reports what samples say of the work of shards and databases. There is no metric
// per bucket or key: weft.heat and weft.hot_keys have these.
type heatCollector struct{ srv *Server }

var (
	descHeatBusy    = prometheus.NewDesc("weft_heat_busy_seconds_total", "Time that statements have kept backends of a shard busy, estimated from samples.", []string{"shard", "class"}, nil)
	descHeatCalls   = prometheus.NewDesc("weft_heat_statements_total", "Statements that a shard has worked on, estimated from samples.", []string{"shard", "class"}, nil)
	descHeatBytes   = prometheus.NewDesc("weft_heat_bytes_total", "Bytes that were sent to clients from a shard, estimated from samples.", []string{"shard", "class"}, nil)
	descHeatSamples = prometheus.NewDesc("weft_heat_samples_total", "Statements that were sampled.", nil, nil)
	descHeatDropped = prometheus.NewDesc("weft_heat_dropped_total", "Samples for which there was no room.", nil, nil)
	descHot         = prometheus.NewDesc("weft_hot", "Things that are hot now, the same through every proxy.", []string{"kind"}, nil)
	descThrottled   = prometheus.NewDesc("weft_throttled_total", "Statements that throttles have delayed or refused, or would have.", []string{"origin", "kind", "action"}, nil)
	descCoalesced   = prometheus.NewDesc("weft_coalesced_total", "Reads of hot keys that were executed for others too, that got the answer of another one, that waited for one in vain, or that would have waited.", []string{"action"}, nil)
	descRowQueue    = prometheus.NewDesc("weft_queued_total", "Transactions that have waited for their turn at a hot key or were refused there, or would have.", []string{"kind", "action"}, nil)
	descLimit       = prometheus.NewDesc("weft_shard_limit", "How many backends of a shard should work for clients at a time, the same through every proxy.", []string{"shard"}, nil)
	descSlowdown    = prometheus.NewDesc("weft_shard_slowdown", "How many times as long statements of a shard take as usual, the same through every proxy.", []string{"shard"}, nil)
	descShardWAL    = prometheus.NewDesc("weft_shard_wal_bytes_per_second", "Write-ahead log that a shard writes, the same through every proxy.", []string{"shard"}, nil)
	descShardCPU    = prometheus.NewDesc("weft_shard_cpu_ratio", "Which part of its processors' time the machine of a shard uses, the same through every proxy.", []string{"shard"}, nil)
	descSkew        = prometheus.NewDesc("weft_skew", "How evenly the work that this proxy has in a database is spread over buckets.", []string{"database", "what"}, nil)
)

// Describe implements prometheus.Collector.
func (c *heatCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descHeatBusy, descHeatCalls, descHeatBytes, descHeatSamples, descHeatDropped, descHot, descThrottled, descRowQueue, descCoalesced, descLimit, descSlowdown, descShardWAL, descShardCPU, descSkew,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *heatCollector) Collect(ch chan<- prometheus.Metric) {
	defer c.srv.panics.Recover("metrics")
	w, snap := c.srv.counts.heat, c.srv.cfg.Snapshot()
	totals, taken, missed := w.since()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for i := range snap.Shards {
		name := snap.Shards[i].Name
		for class, l := range map[string]heat.Class{"read": totals[name].Read, "write": totals[name].Write} {
			send(descHeatBusy, prometheus.CounterValue, l.Busy/1e9, name, class)
			send(descHeatCalls, prometheus.CounterValue, l.Calls, name, class)
			send(descHeatBytes, prometheus.CounterValue, l.Bytes, name, class)
		}
	}
	send(descHeatSamples, prometheus.CounterValue, taken)
	send(descHeatDropped, prometheus.CounterValue, missed)
	hot := map[verdict.Kind]float64{}
	state := c.srv.keeper.verdicts.judge.State()
	for _, f := range state.Findings {
		if f.Verdict == verdict.Hot {
			hot[f.Kind]++
		}
	}
	for _, kind := range verdict.Kinds {
		send(descHot, prometheus.GaugeValue, hot[kind], string(kind))
	}
	c.srv.keeper.throttles.Metrics().Each(func(o throttle.Origin, k throttle.Kind, action string, n int64) {
		send(descThrottled, prometheus.CounterValue, float64(n), string(o), string(k), action)
	})
	queued := c.srv.keeper.queues.Metrics()
	for action, n := range map[string]*atomic.Int64{"waited": &queued.Waited, "refused": &queued.Refused, "would_wait": &queued.WouldWait, "would_refuse": &queued.WouldRefuse} {
		send(descRowQueue, prometheus.CounterValue, float64(n.Load()), "row", action)
	}
	for shard, l := range c.srv.knownLimits() {
		send(descLimit, prometheus.GaugeValue, l.Most, shard)
		if l.Slowdown > 0 {
			send(descSlowdown, prometheus.GaugeValue, l.Slowdown, shard)
		}
	}
	for shard, word := range state.Words {
		if word.WAL != nil {
			send(descShardWAL, prometheus.GaugeValue, *word.WAL, shard)
		}
		if word.Machine != nil {
			send(descShardCPU, prometheus.GaugeValue, *word.Machine, shard)
		}
	}
	shared := c.srv.keeper.queues.Shared()
	for action, n := range map[string]*atomic.Int64{"led": &shared.Led, "rode": &shared.Rode, "alone": &shared.Alone, "would_ride": &shared.WouldRide} {
		send(descCoalesced, prometheus.CounterValue, float64(n.Load()), action)
	}
	v := heatView{report: w.report(heat.KeyPart|heat.BucketPart, false), snap: snap, notes: state.Notes}
	for _, s := range v.skews() {
		if s.Class != allClass {
			continue
		}
		send(descSkew, prometheus.GaugeValue, s.Evenness, s.Database, "evenness")
		send(descSkew, prometheus.GaugeValue, s.Effective, s.Database, "effective_buckets")
		send(descSkew, prometheus.GaugeValue, s.TopShare, s.Database, "top_bucket")
		send(descSkew, prometheus.GaugeValue, s.TopKey, s.Database, "top_key")
		if s.Usual > 0 { // the same through every proxy
			send(descSkew, prometheus.GaugeValue, s.Usual, s.Database, "usual")
			warned := 0.0
			if s.Warned {
				warned = 1
			}
			send(descSkew, prometheus.GaugeValue, warned, s.Database, "warned")
		}
	}
}
