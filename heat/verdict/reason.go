package verdict

import (
	"slices"

	"weft/heat"
)

const (
	mostOfBucket = 0.5 // one key has a bucket's work
	mostOfShard  = 0.2 // one key has a shard's work
	lockShare    = 0.3 // of the active backends wait for locks
	leastActive  = 2.0 // of so many at least
	wideShare    = 0.3 // of a shard's work is of statements over several shards
	homeShare    = 0.5 // of the home shard's work is of tables that are not sharded
	tenantAge    = 3600.0
	scanTimes    = 1000.0 // times the rows or bytes of the median
	scanRows     = 1000.0 // and so many for each statement
	scanBytes    = 1e6
)

// perCall is what one statement returns.
type perCall struct{ rows, bytes float64 }

func perCallOf(l heat.Load) perCall {
	n := max(l.Calls(), 1e-9)
	return perCall{(l.Read.Rows + l.Write.Rows) / n, (l.Read.Bytes + l.Write.Bytes) / n}
}

// typicalOf is what the median of the keys and statements returns.
func typicalOf(f *Facts) perCall {
	var rows, bytes []float64
	add := func(l heat.Load) {
		if l.Calls() > 0 {
			p := perCallOf(l)
			rows, bytes = append(rows, p.rows), append(bytes, p.bytes)
		}
	}
	for i := range f.Now.Keys.Entries {
		add(f.Now.Keys.Entries[i].Load)
	}
	for i := range f.Now.Statements.Entries {
		add(f.Now.Statements.Entries[i].Load)
	}
	return perCall{middle(rows), middle(bytes)}
}

func middle(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[(len(list)-1)/2]
}

// scans reports whether work returns much more than other work does.
func (s *scene) scans(l heat.Load) bool {
	p := perCallOf(l)
	return p.rows >= scanRows && p.rows >= scanTimes*s.typical.rows || p.bytes >= scanBytes && p.bytes >= scanTimes*s.typical.bytes
}

// locks reports whether many backends of a shard wait for locks.
func locks(on *server) bool {
	w := on.Word
	return w.Known && w.Active() >= leastActive && w.Lock >= lockShare*w.Active()
}

// keyReason says why a key is warm.
func (s *scene) keyReason(f *Finding, e *heat.Entry[heat.Name], on *server) Reason {
	switch {
	case f.Class == Write && locks(on):
		return HotRow
	case s.scans(e.Load):
		return Scan
	case s.t.drifts.heads(e.Name.Database, e.Bucket):
		return Moving
	case f.Share >= mostOfShard && s.t.age(f.Object, Warm) >= tenantAge:
		return BigTenant
	}
	if before := s.keys[e.Name]; before != nil {
		if l, known := s.facts.Now.Databases[e.Name.Database].Buckets[e.Bucket]; known && before.Count-before.Error < mostOfBucket*l.Cost() && e.Count-e.Error < mostOfBucket*l.Cost() {
			return ManyWarm
		}
	}
	return SingleKey
}

// slowReason says why the statements of a key take long, "" if that cannot be known.
func (s *scene) slowReason(f *Finding, e *heat.Entry[heat.Name], on *server) Reason {
	switch {
	case f.Class == Write && locks(on):
		return HotRow
	case s.scans(e.Load):
		return Scan
	}
	return ""
}

// bucketReason says why a bucket is warm.
func (s *scene) bucketReason(database string, bucket int32, l heat.Load) Reason {
	for i := range s.facts.Now.Keys.Entries {
		if e := &s.facts.Now.Keys.Entries[i]; e.Name.Database == database && e.Bucket == bucket && e.Count-e.Error >= mostOfBucket*l.Cost() {
			return SingleKey
		}
	}
	if s.t.drifts.heads(database, bucket) {
		return Moving
	}
	return ManyWarm
}

// statementReason says why a statement is warm, "" if it is only called often.
func (s *scene) statementReason(e *heat.Entry[heat.Statement]) Reason {
	switch {
	case e.Wide >= 0.5*e.Count:
		return Scatter
	case s.scans(e.Load):
		return Scan
	case s.t.rhythms[statementObject(e.Name)].regular():
		return InStep
	}
	return ""
}

// shardReason says why a shard has much work, and which statement has most of it if that is what
// matters.
func (s *scene) shardReason(sh *server) (Reason, string) {
	if s.t.rhythms[Object{Kind: Shard, Shard: sh.Name}].regular() {
		return InStep, ""
	}
	if sh.Name == s.facts.Home && share(sh.loose, sh.cost) >= homeShare {
		return Home, ""
	}
	if first := s.asks[sh.Name]; first != nil && s.wide[sh.Name] >= wideShare {
		return Scatter, first.Name.Text
	}
	if top := s.top[sh.Name]; top != nil && top.Share >= mostOfShard {
		return top.Reason, ""
	}
	for at, d := range s.t.drifts.by {
		if s.t.drifts.heads(at.database, d.head) && s.facts.Place(at.database, d.head) == sh.Name {
			return Moving, ""
		}
	}
	return ManyWarm, ""
}
