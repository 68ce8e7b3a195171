package verdict

import (
	"slices"

	"weft/heat"
)

// The thresholds. A thing must have some work to be warm, whatever its share is.
const (
	leastCalls = 100.0 // statements per second
	leastBusy  = 100e6 // or nanoseconds of backends per second

	warmKey       = 0.1 // of the work of its shard
	warmBucket    = 0.05
	bucketMedians = 10.0 // and so many times the work of the median bucket
	warmShard     = 1.5  // times its fair part
	warmStatement = 0.3
	warmUser      = 0.5
	aloneUser     = 0.95 // from here on the user is alone on the shard, and in the way of no other

	longWait  = 20e6 // nanoseconds: nine in ten statements wait less for a connection
	longQueue = 50e6 // the same, of those who wait at a moment, by how many are served
	perCore   = 2.0  // backends that want a core

	slowTimes    = 10.0 // times the median
	slowSamples  = 20.0
	slowKeys     = 3
	slowMass     = 5.0  // so many executions at least were slow
	slowAbsolute = 10e6 // nanoseconds
)

// scene is one second that is judged.
type scene struct {
	t     *Tracker
	facts *Facts
	// shards are the servers by name, and all, before and weights are their sums. cooler is the shard
	// with most room, "" for none.
	shards               map[string]*server
	all, before, weights float64
	cooler               string
	// keys and statements are the figures of the last ten seconds by name.
	keys       map[heat.Name]*heat.Entry[heat.Name]
	statements map[heat.Statement]*heat.Entry[heat.Statement]
	// top is the heaviest key of each shard, in the last moment.
	top map[string]*Finding
	// wide and asks are the share of a shard's work that is of statements over several shards, and
	// the heaviest statement of those.
	wide map[string]float64
	asks map[string]*heat.Entry[heat.Statement]
	// typical is what statements return, for the median of keys and statements.
	typical perCall
}

// server is a shard in this second.
type server struct {
	Server
	cost      float64 // in the last moment
	loose     float64 // the part of cost that is of tables without a shard key
	before    float64 // in the last ten seconds
	fair      float64 // cost that would be its part
	load      heat.Load
	saturated grade
	wait      float64 // nanoseconds
}

func newScene(t *Tracker, f *Facts) *scene {
	s := &scene{
		t: t, facts: f, shards: map[string]*server{}, top: map[string]*Finding{},
		keys: map[heat.Name]*heat.Entry[heat.Name]{}, statements: map[heat.Statement]*heat.Entry[heat.Statement]{},
		wide: map[string]float64{}, asks: map[string]*heat.Entry[heat.Statement]{},
	}
	for _, x := range f.Servers {
		recent := f.Recent.Shards[x.Name]
		sh := &server{Server: x, cost: recent.Load.Cost(), loose: recent.Loose.Cost(), before: f.Now.Shards[x.Name].Load.Cost(), load: recent.Load, wait: recent.Waits.Quantile(0.9)}
		if n := float64(f.Waiting[x.Name]); n > 0 {
			if queue := n / max(recent.Load.Calls(), 1) * 1e9; queue > longQueue {
				sh.wait = max(sh.wait, queue)
			}
		}
		sh.saturated = gradeOf(sh.wait, longWait)
		if x.Word.Known && x.Word.Cores > 0 {
			sh.saturated = max(sh.saturated, gradeOf(x.Word.CPU, perCore*x.Word.Cores))
		}
		s.shards[x.Name] = sh
		s.all, s.before, s.weights = s.all+sh.cost, s.before+sh.before, s.weights+x.Weight
	}
	best := 0.0
	for _, sh := range s.shards {
		if s.weights > 0 {
			sh.fair = s.all * sh.Weight / s.weights
		}
		room := sh.fair - sh.cost
		if sh.saturated == below && room > 0.2*sh.fair && (room > best || room == best && sh.Name < s.cooler) {
			best, s.cooler = room, sh.Name
		}
	}
	for i := range f.Now.Keys.Entries {
		s.keys[f.Now.Keys.Entries[i].Name] = &f.Now.Keys.Entries[i]
	}
	for i := range f.Now.Statements.Entries {
		s.statements[f.Now.Statements.Entries[i].Name] = &f.Now.Statements.Entries[i]
	}
	s.typical = typicalOf(f)
	return s
}

// enough is at least 1 if there is work enough to speak of.
func enough(l heat.Load) float64 { return max(l.Calls()/leastCalls, l.Busy()/leastBusy) }

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return max(0, min(1, part/whole))
}

func (s *scene) judge() {
	s.judgeStatements()
	s.judgeUsers()
	s.judgeKeys()
	s.judgeSlow()
	s.judgeBuckets()
	s.judgeShards()
	s.judgeSkews()
}

// finding is about a thing on a shard.
func (s *scene) finding(o Object, on *server, l heat.Load, of float64) Finding {
	f := Finding{Object: o, Verdict: Warm, Class: classOf(l), On: on.Name, In: -1, Share: of, Calls: l.Calls(), Busy: l.Busy() / 1e6, Wait: on.wait / 1e6}
	if on.Word.Known {
		f.CPU, f.Cores = on.Word.CPU, on.Word.Cores
	}
	if s.cooler != on.Name {
		f.Cooler = s.cooler
	}
	return f
}

// notes notes a thing that is warm by a grade, and hot if its shard is saturated too.
func (s *scene) notes(g grade, f Finding, on *server) {
	s.t.note(g, f)
	f.Verdict = Hot
	s.t.note(min(g, on.saturated), f)
}

func (s *scene) judgeKeys() {
	for i := range s.facts.Recent.Keys.Entries {
		e := &s.facts.Recent.Keys.Entries[i]
		on := s.shards[s.facts.Place(e.Name.Database, e.Bucket)]
		if on == nil {
			continue
		}
		of := share(e.Count-e.Error, on.cost)
		f := s.finding(Object{Kind: Key, Database: e.Name.Database, Group: e.Name.Group, ID: e.Name.ID}, on, e.Load, of)
		f.In, f.Value, f.Known = e.Bucket, e.Value, e.Known
		if before := s.keys[e.Name]; !f.Known && before != nil {
			f.Value, f.Known = before.Value, before.Known
		}
		f.Reason = s.keyReason(&f, e, on)
		if top := s.top[on.Name]; top == nil || top.Share < of {
			s.top[on.Name] = &f
		}
		s.notes(gradeOf(min(of/warmKey, enough(e.Load)), 1), f, on)
	}
}

// judgeSlow finds keys whose statements take much longer than those of the median key.
func (s *scene) judgeSlow() {
	type one struct {
		e    *heat.Entry[heat.Name]
		p99  float64
		runs float64
	}
	var list []one
	for i := range s.facts.Now.Keys.Entries {
		e := &s.facts.Now.Keys.Entries[i]
		if n := e.Times.Above(0); n >= slowSamples {
			list = append(list, one{e, e.Times.Quantile(0.99), n})
		}
	}
	if len(list) < slowKeys {
		return
	}
	slices.SortFunc(list, func(a, b one) int {
		switch {
		case a.p99 < b.p99:
			return -1
		case a.p99 > b.p99:
			return 1
		}
		return 0
	})
	usual := list[(len(list)-1)/2].p99
	for _, x := range list {
		on := s.shards[s.facts.Place(x.e.Name.Database, x.e.Bucket)]
		if on == nil || usual <= 0 {
			continue
		}
		g := gradeOf(min(x.p99/(slowTimes*usual), x.p99/slowAbsolute, x.e.Times.Above(int64(slowTimes*usual))/slowMass), 1)
		f := s.finding(Object{Kind: Key, Database: x.e.Name.Database, Group: x.e.Name.Group, ID: x.e.Name.ID}, on, x.e.Load, share(x.e.Count-x.e.Error, on.before))
		f.Verdict, f.In, f.Value, f.Known = Slow, x.e.Bucket, x.e.Value, x.e.Known
		f.Slow, f.Usual = x.p99/1e6, usual/1e6
		if f.Reason = s.slowReason(&f, x.e, on); f.Reason == "" {
			f.Cooler = ""
		}
		s.t.note(g, f)
	}
}

func (s *scene) judgeBuckets() {
	for database, d := range s.facts.Now.Databases {
		for bucket, l := range d.Buckets {
			on := s.shards[s.facts.Place(database, bucket)]
			if on == nil {
				continue
			}
			of := share(l.Cost(), on.before)
			figure := min(of/warmBucket, enough(l))
			if m := s.facts.Medians[database]; m > 0 {
				figure = min(figure, l.Cost()/(bucketMedians*m))
			}
			f := s.finding(Object{Kind: Bucket, Database: database, Bucket: bucket}, on, l, of)
			f.Reason = s.bucketReason(database, bucket, l)
			s.notes(gradeOf(figure, 1), f, on)
		}
	}
}

func (s *scene) judgeStatements() {
	for i := range s.facts.Recent.Statements.Entries {
		e := &s.facts.Recent.Statements.Entries[i]
		on := s.shards[e.Name.Shard]
		if on == nil {
			continue
		}
		of := share(e.Count-e.Error, on.cost)
		s.wide[on.Name] += share(e.Wide, on.cost)
		if first := s.asks[on.Name]; e.Wide > 0 && (first == nil || first.Wide < e.Wide) {
			s.asks[on.Name] = e
		}
		f := s.finding(statementObject(e.Name), on, e.Load, of)
		f.Reason, f.Cooler = s.statementReason(e), ""
		usual := 0.0
		if before := s.statements[e.Name]; before != nil {
			usual = share(before.Count-before.Error, on.before)
		}
		s.notes(gradeOf(min(of/warmStatement, usual/warmStatement, enough(e.Load)), 1), f, on)
	}
}

// judgeUsers finds users who have most of the work of a shard that others use too, as far as the heaviest statements tell.
func (s *scene) judgeUsers() {
	type account struct {
		load   heat.Load
		cost   float64 // in the last moment
		before float64 // in the last ten seconds
	}
	accounts := map[Object]*account{}
	of := func(n heat.Statement) *account {
		o := Object{Kind: User, Shard: n.Shard, User: n.User}
		if accounts[o] == nil {
			accounts[o] = &account{}
		}
		return accounts[o]
	}
	for i := range s.facts.Recent.Statements.Entries {
		e := &s.facts.Recent.Statements.Entries[i]
		a := of(e.Name)
		a.load, a.cost = a.load.Plus(e.Load), a.cost+e.Count-e.Error
	}
	for i := range s.facts.Now.Statements.Entries {
		e := &s.facts.Now.Statements.Entries[i]
		of(e.Name).before += e.Count - e.Error
	}
	for o, a := range accounts {
		on := s.shards[o.Shard]
		if on == nil || share(a.before, on.before) > aloneUser {
			continue
		}
		f := s.finding(o, on, a.load, share(a.cost, on.cost))
		f.Cooler = ""
		s.notes(gradeOf(min(f.Share/warmUser, share(a.before, on.before)/warmUser, enough(a.load)), 1), f, on)
	}
}

func (s *scene) judgeShards() {
	for _, sh := range s.shards {
		f := s.finding(Object{Kind: Shard, Shard: sh.Name}, sh, sh.load, share(sh.cost, s.all))
		f.Reason, f.Cause = s.shardReason(sh)
		if len(s.shards) > 1 && sh.fair > 0 && s.before > 0 {
			times := min(sh.cost/sh.fair, sh.before/(s.before*sh.Weight/s.weights))
			s.notes(gradeOf(min(times/warmShard, enough(sh.load)), 1), f, sh)
		}
		f.Verdict = Saturated
		s.t.note(sh.saturated, f)
	}
}

// judgeSkews notes the databases that are less even than usual. How long that has been so, and how much it
// takes, is known already.
func (s *scene) judgeSkews() {
	for _, k := range s.facts.Skews {
		s.t.note(over, Finding{
			Object: Object{Kind: Database, Database: k.Database}, Verdict: Skewed, On: s.facts.Place(k.Database, k.First), In: k.First, Share: k.Top, Buckets: k.Now, Usual: k.Usual,
		})
	}
}
