package server

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"weft/directory"
)

// newRegistry holds the metrics of this process alone: a registry of its own,
// because the default one is shared with every library, etcd's server in weft
// dev among them.
func newRegistry(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "weft_build_info",
		Help:        "Always 1; the label tells the version.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	r.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

func registerDirectory(r prometheus.Registerer, cur *directory.Current) {
	r.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_directory_version",
			Help: "Version of the cluster snapshot in use; 0 before the first.",
		}, func() float64 {
			if s := cur.Snapshot(); s != nil {
				return float64(s.Version)
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_directory_foreign",
			Help: "1 while the directory describes another cluster than weft started with: nothing is routed.",
		}, func() float64 {
			if cur.Foreign() != nil {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_directory_up",
			Help: "1 while the snapshot is kept fresh, 0 while weft serves from the last one.",
		}, func() float64 {
			if cur.Err() != nil {
				return 0
			}
			return 1
		}),
	)
}
