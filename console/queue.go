package console

import "context"

// Queue is the queue of a hot key in one proxy.
type Queue struct {
	Proxy, Shard, Database, Key, Kind, Mode string
	Slots, Used, Waiting                    int
	WaitP99                                 float64 // milliseconds
	Served, Waited, Refused                 int64
}

var queueView = &View{
	"queues", "QUEUES", "hot keys whose transactions wait in proxies, or would",
	[]Column{
		{"proxy", Text},
		{"shard", Text},
		{"database", Text},
		{"key", Text},
		{"kind", Text},
		{"mode", Text},
		{"slots", Int},
		{"used", Int},
		{"waiting", Int},
		{"wait_p99_ms", Float},
		{"served", Int},
		{"waited", Int},
		{"refused", Int},
	},
	queueRows, true,
}

// queueRows shows all queues to those who may see all. Others see those of their database, without the values of keys.
func queueRows(_ context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, q := range src.Queues(v.All) {
		if !v.All && q.Database != v.Database {
			continue
		}
		rows = append(rows, []any{
			q.Proxy, q.Shard, q.Database, q.Key, q.Kind, q.Mode, int64(q.Slots), int64(q.Used), int64(q.Waiting), q.WaitP99, q.Served, q.Waited, q.Refused,
		})
	}
	return rows
}
