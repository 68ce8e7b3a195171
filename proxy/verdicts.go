package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"weft/directory"
	"weft/heat"
	"weft/heat/limit"
	"weft/heat/verdict"
	"weft/proxy/judge"
	"weft/proxy/peer"
	"weft/vindex"
)

// verdicts is what the proxy finds to be hot, or hears of from the proxy that does: see package judge.
type verdicts struct {
	s     *Server
	judge *judge.Judge
	cores *coreCounts
}

// coreCounts is how many cores shards have, as far as they say.
type coreCounts struct {
	mu    sync.Mutex
	known map[string]coreCount
}

type coreCount struct {
	cores float64
	asked time.Time
}

// askCores is how often a shard is asked for its cores.
const askCores = 10 * time.Minute

func newVerdicts(s *Server) verdicts {
	v := verdicts{s: s, cores: &coreCounts{known: map[string]coreCount{}}}
	v.judge = judge.New(judge.Config{
		Self: s.cfg.Proxy, Log: s.log,
		On:      func() bool { return s.conf().Heat.Samples > 0 },
		Proxies: v.proxies, Ask: v.ask, Facts: v.facts, Word: v.word,
		Guarded: func(f func()) func() { return s.guarded("verdicts", f) },
		Limits: func(before limit.Limits, f *verdict.Facts, seconds float64) limit.Limits {
			return s.keeper.limits.Judged(before, f, seconds)
		},
		Judged: s.adjustThrottles,
	})
	return v
}

// proxies lists the live proxies. One without a directory is alone.
func (v verdicts) proxies(ctx context.Context) ([]directory.Proxy, error) {
	if v.s.cfg.Directory == nil || v.s.cfg.Proxy == "" {
		return []directory.Proxy{{ID: v.s.cfg.Proxy}}, nil
	}
	return v.s.cfg.Directory.Proxies(ctx)
}

// ask asks another proxy what it has found, or heard of.
func (v verdicts) ask(ctx context.Context, other directory.Proxy) (state judge.State, err error) {
	answer, err := peer.Ask(ctx, other, peer.Question{Verdicts: true, All: !v.s.conf().Heat.Hashed})
	if err != nil {
		return state, err
	}
	return state, json.Unmarshal(answer, &state)
}

// state is the answer to another proxy. Values of keys are told if the other may know them, and this
// one does.
func (v verdicts) state(values bool) judge.State {
	state := v.judge.State()
	if !values || v.s.conf().Heat.Hashed {
		state = state.Without()
	}
	return state
}

// brief is what this proxy knows.
func (v verdicts) brief(values bool) heat.Brief {
	b := v.s.counts.heat.brief(values && !v.s.conf().Heat.Hashed, v.s.bucketCount())
	b.Waiting, b.Rooms, b.Proxies = map[string]int{}, v.s.pool.Rooms(), 1
	for _, l := range v.s.pool.Lanes() {
		if l.Waiting > 0 {
			b.Waiting[l.Shard] += l.Waiting
		}
	}
	return b
}

// facts is what all proxies know together.
func (v verdicts) facts(ctx context.Context) *verdict.Facts {
	values := !v.s.conf().Heat.Hashed
	f := &verdict.Facts{Brief: v.brief(values), Hidden: !values}
	answers, silent := v.s.circle.Ask(ctx, peer.Question{Heat: true, Brief: true, All: values})
	for _, b := range answers {
		var other heat.Brief
		if json.Unmarshal(b, &other) == nil { // else it is of another version
			f.Brief = heat.MergeBriefs(f.Brief, other)
		}
	}
	for _, err := range silent {
		v.s.log.Debug("another proxy did not say what is hot", "err", err)
	}
	for database, k := range v.s.keeper.verdicts.judge.State().Notes.Skews {
		if k.Warned {
			f.Skews = append(f.Skews, verdict.Skew{Database: database, Now: k.Now, Usual: k.Usual, Top: k.Top, First: int32(k.First)})
		}
	}
	snap := v.s.cfg.Snapshot()
	f.Home, f.Place = snap.Home, func(database string, bucket int32) string { return shardOf(snap, database, bucket) }
	f.At, f.Counts = time.Now().Unix(), countingKeys(snap)
	for i := range snap.Shards {
		f.Servers = append(f.Servers, verdict.Server{Name: snap.Shards[i].Name, Weight: float64(snap.Shards[i].Weight)})
	}
	return f
}

// countingKeys says of which tables neighbouring keys are in one place.
func countingKeys(snap *directory.Snapshot) func(database string, group uint32) bool {
	type tables struct {
		database string
		group    uint32
	}
	list := sync.OnceValue(func() map[tables]bool {
		out := map[tables]bool{}
		for i := range snap.Tables {
			t := &snap.Tables[i]
			if t.Kind != directory.Sharded || t.Vindex.Kind == "hash" {
				continue
			}
			if v, err := t.NewVindex(snap.BucketCount); err == nil && vindex.Counts(v) {
				out[tables{t.Database, t.Colocation()}] = true
			}
		}
		return out
	})
	return func(database string, group uint32) bool { return list()[tables{database, group}] }
}

const (
	// wordSQL counts the active backends of clients by what they wait for. It reads the list of backends
	// without looking up their databases and roles.
	wordSQL = `SELECT pg_catalog.count(*) FILTER (WHERE a.wait_event_type IS NULL), pg_catalog.count(*) FILTER (WHERE a.wait_event_type = 'Lock'),
 pg_catalog.count(*) FILTER (WHERE a.wait_event_type = 'IO'), pg_catalog.count(*),
 CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0') ELSE 0 END
 FROM pg_catalog.pg_stat_get_activity(NULL) a WHERE a.state = 'active' AND a.backend_type = 'client backend' AND a.pid <> pg_catalog.pg_backend_pid()`
	// timesSQL is what the machine of a server has counted of its processors' time, if it has Linux.
	timesSQL = `SELECT f.t FROM pg_catalog.pg_read_file('/proc/stat', 0, 256, true) f (t)`
	// readsSQL says whether the role may read files of the server, and coresSQL counts the cores of its
	// machine if it has Linux.
	readsSQL = `SELECT pg_catalog.has_function_privilege('pg_catalog.pg_read_file(text, bigint, bigint, boolean)', 'EXECUTE')
 AND (r.rolsuper OR pg_catalog.pg_has_role('pg_read_server_files', 'USAGE')) FROM pg_catalog.pg_roles r WHERE r.rolname = current_user`
	coresSQL = `SELECT (pg_catalog.length(f.t) - pg_catalog.length(pg_catalog.replace(f.t, E'\ncpu', ''))) / 4
 FROM pg_catalog.pg_read_file('/proc/stat', 0, 65536, true) f (t)`
)

// word asks a shard what its backends do.
func (v verdicts) word(ctx context.Context, shard string) (w verdict.Word, err error) {
	rows, err := v.s.execAnywhere(ctx, shard, wordSQL)
	if err != nil {
		return w, err
	}
	var n [5]float64
	if len(rows) != 1 || len(rows[0]) != len(n) {
		return w, fmt.Errorf("shard %s gave %d rows", shard, len(rows))
	}
	for i, text := range rows[0] {
		if n[i], err = strconv.ParseFloat(text, 64); err != nil {
			return w, err
		}
	}
	w = verdict.Word{Known: true, CPU: n[0], Lock: n[1], IO: n[2], Other: n[3] - n[0] - n[1] - n[2], Cores: v.coresOf(ctx, shard)}
	w.Counters.WAL = n[4]
	if w.Cores > 0 { // the role may read files, and there is one
		if rows, err := v.s.execAnywhere(ctx, shard, timesSQL); err == nil && len(rows) == 1 {
			w.Counters.Used, w.Counters.Time = processorTimes(rows[0][0])
		}
	}
	return w, nil
}

// processorTimes reads the first line of /proc/stat: what all processors together have spent, by kind. The fourth and fifth kind are idleness; from
// the ninth on, kinds are parts of others.
func processorTimes(text string) (used, all float64) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 6 || f[0] != "cpu" {
		return 0, 0
	}
	for i, field := range f[1:min(len(f), 9)] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0
		}
		all += n
		if i != 3 && i != 4 {
			used += n
		}
	}
	return used, all
}

// coresOf is how many cores a shard has, 0 if it does not say.
func (v verdicts) coresOf(ctx context.Context, shard string) float64 {
	v.cores.mu.Lock()
	known := v.cores.known[shard]
	v.cores.mu.Unlock()
	if !known.asked.IsZero() && time.Since(known.asked) < askCores {
		return known.cores
	}
	known.asked = time.Now()
	if rows, err := v.s.execAnywhere(ctx, shard, readsSQL); err == nil && len(rows) == 1 && rows[0][0] == "t" {
		if rows, err = v.s.execAnywhere(ctx, shard, coresSQL); err == nil && len(rows) == 1 {
			if n, err := strconv.ParseFloat(rows[0][0], 64); err == nil {
				known.cores = n
			}
		}
	}
	v.cores.mu.Lock()
	defer v.cores.mu.Unlock()
	v.cores.known[shard] = known
	return known.cores
}

// seconds is a number of seconds.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
