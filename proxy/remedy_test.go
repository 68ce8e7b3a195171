package proxy

import (
	"strings"
	"testing"
	"time"

	"weft/directory"
	"weft/heat/trend"
	"weft/heat/verdict"
	"weft/proxy/judge"
	"weft/schema"
)

// plainNames calls keys by their values.
var plainNames = verdict.Names{
	Key:       func(f *verdict.Finding) string { return f.Value },
	Value:     func(f *verdict.Finding) (string, bool) { return f.Value, f.Known },
	Tables:    func(string, uint32) []string { return []string{"public.acct"} },
	Isolates:  func(string, uint32) bool { return true },
	Statement: func(string) int64 { return 1 },
}

func saturated(shard string) verdict.Finding {
	return verdict.Finding{Object: verdict.Object{Kind: verdict.Shard, Shard: shard}, Verdict: verdict.Saturated, Reason: verdict.ManyWarm, On: shard, In: -1}
}

func hotKey(reason verdict.Reason, share float64) verdict.Finding {
	return verdict.Finding{
		Object: verdict.Object{Kind: verdict.Key, Database: "app", Group: 1, ID: 7}, Verdict: verdict.Hot, Reason: reason, On: "shard-0", In: 5, Share: share, Value: "it's", Known: true,
	}
}

// remedyRows is the rows of a plan for two shards, of which the first has twelve of sixteen buckets.
func remedyRows(t *testing.T, jobs []schema.MoveRecord, found ...verdict.Finding) string {
	t.Helper()
	snap, r := twoShards(func(b int32) float64 {
		if b == 5 && len(found) > 1 {
			return 20e6
		}
		return 1e6
	})
	shard := r.Shards["shard-0"]
	for b := range int32(12) {
		shard.Load = shard.Load.Plus(r.Databases["app"].Buckets[b])
	}
	r.Shards["shard-0"] = shard
	w := newWorkload(r, snap, "app", nil, time.Now())
	w.rests = restingBuckets(snap, "app", jobs, time.Now(), func(directory.MoveKind) bool { return true })
	l := newLayout(snap, "app", sizesOf(16), w)
	if len(found) > 1 {
		l.costs[5].Key = 0.9
	}
	var out []string
	for _, row := range newRemedy(snap, "app", l, found, plainNames.Isolates).rows(plainNames) {
		out = append(out, strings.Join(row, "|"))
	}
	return strings.Join(out, "\n")
}

func TestRemedy(t *testing.T) {
	moved := []schema.MoveRecord{{ID: "j", Kind: "move", Origin: map[string]string{"shard-1": "0-11"}, Ended: time.Now()}}
	leave := saturated("shard-0")
	leave.Reason = verdict.Home
	for name, x := range map[string]struct{ got, want string }{
		"nothing is hot": {remedyRows(t, nil), ""},
		"buckets leave": {
			remedyRows(t, nil, saturated("shard-0")),
			"1|move|buckets 0-3|shard-0|shard-1|1.50|1.00|0.50|1.00|shard-0 has more work than it can do, mostly of writes, and shard-1 has room; what goes is 33 % of it|SELECT weft.move_buckets('0-3', 'shard-1')",
		},
		"the other shard": {remedyRows(t, nil, saturated("shard-1")), "1|leave|shard shard-1|shard-1||0.50|0.50|||shard-1 stays saturated: " + hindrances["full"] + "|SELECT * FROM weft.load"},
		"moved of late":   {remedyRows(t, moved, saturated("shard-0")), "1|leave|shard shard-0|shard-0||1.50|1.50|||shard-0 stays saturated: " + hindrances["resting"] + "|SELECT * FROM weft.load"},
		"home":            {remedyRows(t, nil, leave), "1|leave|shard shard-0|shard-0||1.50|1.50|||shard-0 stays saturated: " + hindrances["beside"] + "|SELECT * FROM weft.load"},
	} {
		if x.got != x.want {
			t.Errorf("%s:\n got %s\nwant %s", name, x.got, x.want)
		}
	}
	for _, reason := range []verdict.Reason{verdict.SingleKey, verdict.HotRow} {
		rows := strings.Split(remedyRows(t, nil, saturated("shard-0"), hotKey(reason, 0.6)), "\n")
		if len(rows) != 2 || !strings.HasPrefix(rows[0], "1|move|buckets 0-4,6-11|shard-0|shard-1|") || !strings.HasPrefix(rows[1], "2|leave|key it's of public.acct in database app|") ||
			!strings.Contains(rows[1], "Its neighbours leave") || !strings.HasSuffix(rows[1], "database = 'app' AND bucket = 5") {
			t.Errorf("%s: %s", reason, strings.Join(rows, "\n"))
		}
	}
	rows := remedyRows(t, nil, saturated("shard-0"), hotKey(verdict.BigTenant, 0.6))
	if !strings.HasPrefix(rows, "1|isolate|key it's of public.acct in database app|shard-0|shard-1|") || !strings.HasSuffix(rows, "|SELECT weft.isolate('public.acct', 'it''s', 'shard-1')") {
		t.Errorf("%s", rows)
	}
	if many := remedyRows(t, nil, saturated("shard-0"), hotKey(verdict.ManyWarm, 0.1)); strings.Contains(many, "leave") {
		t.Errorf("%s", many)
	}
}

// The warning about a shard, and about a bucket of it, has the step that would relieve it; others have their own SQL.
func TestAdviceInWarnings(t *testing.T) {
	advice := []judge.Advice{{Database: "other", Shard: "shard-1", SQL: "no"}, {Database: "app", Shard: "shard-0", Why: "there is room", SQL: "SELECT weft.move_buckets('1', 'shard-1')"}}
	bucket := verdict.Finding{Object: verdict.Object{Kind: verdict.Bucket, Database: "app", Bucket: 5}, Verdict: verdict.Hot, Reason: verdict.ManyWarm, On: "shard-0", In: -1}
	elsewhere := bucket
	elsewhere.Database = "another"
	for _, x := range []struct {
		f    verdict.Finding
		want bool
	}{{saturated("shard-0"), true}, {bucket, true}, {elsewhere, false}, {hotKey(verdict.SingleKey, 0.5), false}, {saturated("shard-2"), false}} {
		w := x.f.Words(plainNames)
		before := w
		addPlan(&w, &x.f, advice)
		if got := w.SQL == advice[1].SQL && strings.HasPrefix(w.Advice, before.Advice) && strings.Contains(w.Advice, "In database app: there is room."); got != x.want || !x.want && w != before {
			t.Errorf("%+v: %+v", x.f.Object, w)
		}
	}
}

// A shard that is saturated for a moment is no reason for a plan.
func TestLastingFindings(t *testing.T) {
	short, long, hot := saturated("shard-0"), saturated("shard-1"), saturated("shard-1")
	short.Age, long.Age, hot.Age, hot.Verdict = 9, 11, 3, verdict.Hot
	key := hotKey(verdict.SingleKey, 0.5)
	if got := lastingFindings([]verdict.Finding{short, long, hot, key}); len(got) != 3 || len(saturatedShards(got)) != 1 {
		t.Errorf("%+v", got)
	}
}

// A shard that does not answer for a moment, and a database without work, keep their past; those that are gone do not.
func TestRemember(t *testing.T) {
	snap, _ := twoShards(alike)
	snap.PutTable(directory.Table{Database: "app", Schema: "public", Name: "t", Kind: directory.Reference})
	past := trend.Load{Points: []byte{0, 1}}
	before := judge.Notes{
		Skews: map[string]trend.Skew{"app": {Usual: 7, Warned: true}, "gone": {Usual: 8}},
		Loads: map[string]trend.Load{"shard-0": past, "shard-1": past, "gone": past}, Advice: []judge.Advice{{}},
	}
	got := remember(before, snap, map[string]verdict.Word{"shard-1": {Known: true, CPU: 3, Cores: 4}}, 15)
	if len(got.Loads) != 2 || got.Loads["shard-0"].Seconds != 0 || len(got.Loads["shard-0"].Points) != 2 || got.Loads["shard-1"].Seconds != 15 {
		t.Errorf("%+v", got.Loads)
	}
	if len(got.Skews) != 1 || got.Skews["app"].Usual != 7 || got.Skews["app"].Warned || len(got.Advice) != 0 {
		t.Errorf("%+v", got)
	}
}
