package verdict

import (
	"cmp"
	"fmt"
	"strings"

	"weft/quote"
)

// Names is how things are called in sentences. All fields must be set.
type Names struct {
	// Key is how a key is called, "" if its value is not known.
	Key func(f *Finding) string
	// Value returns the value of a key as SQL may use it, false if it is not known whole.
	Value func(f *Finding) (string, bool)
	// Tables are those that have the keys of a group.
	Tables func(database string, group uint32) []string
	// Isolates reports whether values of the tables can get a bucket of their own.
	Isolates func(database string, group uint32) bool
	// Statement is the number of a statement in weft.statements.
	Statement func(text string) int64
}

// Severities. A warning says that statements wait because of it; a notice, that something is unusual.
const (
	Warning = "warning"
	Notice  = "notice"
)

// Text is what people read of a finding.
type Text struct {
	Severity, Object, Message, Advice, SQL string
}

// Words words a finding.
func (f *Finding) Words(n Names) Text {
	t := Text{Severity: Warning, Object: f.object(n)}
	if f.Verdict == Slow || f.Verdict == Skewed {
		t.Severity = Notice
	}
	t.Message = f.message(t.Object)
	t.Advice, t.SQL = f.advice(n)
	return t
}

// object names the thing.
func (f *Finding) object(n Names) string {
	switch f.Kind {
	case Key:
		name, in := n.Key(f), strings.Join(n.Tables(f.Database, f.Group), ", ")
		if name == "" {
			name = "(value not known)"
		}
		if in == "" {
			return fmt.Sprintf("key %s in database %s", name, f.Database)
		}
		return fmt.Sprintf("key %s of %s in database %s", name, in, f.Database)
	case Bucket:
		return fmt.Sprintf("bucket %d of database %s", f.Bucket, f.Database)
	case Database:
		return "database " + f.Database
	case User:
		return "user " + f.User
	case Statement:
		return fmt.Sprintf("statement %d of %s in database %s", n.Statement(f.Object.Text), f.User, f.Database)
	}
	return "shard " + f.Shard
}

func percent(x float64) string {
	if x < 0.1 {
		return fmt.Sprintf("%.1f %%", 100*x)
	}
	return fmt.Sprintf("%.0f %%", 100*x)
}

// message says what was found.
func (f *Finding) message(object string) string {
	kind := "work"
	if f.Class != Mixed {
		kind = string(f.Class) + " work"
	}
	switch {
	case f.Verdict == Slow:
		return fmt.Sprintf("%s is slow: one in a hundred of its statements takes longer than %.3g ms, where it is %.3g ms for the median key", object, f.Slow, f.Usual)
	case f.Verdict == Skewed:
		return fmt.Sprintf("the work in %s gathers on few buckets: it is spread as over %.0f equally busy ones, where %.0f are usual; bucket %d has %s of it", object, f.Buckets, f.Usual, f.In, percent(f.Share))
	case f.Kind == Shard && f.Verdict == Hot:
		return fmt.Sprintf("%s is hot: it has %s of the work of all shards, mostly %s, and is saturated: %s", object, percent(f.Share), f.mostly(), f.saturation())
	case f.Kind == Shard:
		return fmt.Sprintf("%s is saturated: %s", object, f.saturation())
	}
	return fmt.Sprintf("%s is %s: it has %s of the %s on %s, %.0f statements and %.0f ms of backends per second. %s is saturated: %s",
		object, f.Verdict, percent(f.Share), kind, f.On, f.Calls, f.Busy, f.On, f.saturation())
}

func (f *Finding) mostly() string {
	if f.Class == Mixed {
		return "reads and writes"
	}
	return string(f.Class) + "s"
}

// saturation says how a shard's saturation shows.
func (f *Finding) saturation() string {
	var parts []string
	if f.Wait >= 1 {
		parts = append(parts, fmt.Sprintf("one in ten statements waits %.0f ms or longer for a connection", f.Wait))
	}
	if f.Cores > 0 && f.CPU > f.Cores {
		parts = append(parts, fmt.Sprintf("%.0f backends want its %.0f cores", f.CPU, f.Cores))
	}
	if len(parts) == 0 {
		return "it was a moment ago"
	}
	return strings.Join(parts, ", and ")
}

// advice says what to do, and gives a statement of SQL that does it or shows more.
func (f *Finding) advice(n Names) (advice, sql string) {
	look := "SELECT * FROM weft.hot_statements WHERE shard = " + quote.Literal(f.On) + " ORDER BY busy_ms_s DESC LIMIT 5"
	if f.Verdict == Skewed {
		return "Nothing waits because of it yet. Look which buckets and keys have the work, and whether an import, a report or a new feature explains it. If it stays, a shard will be hot: see which key it is, and spread it in time.",
			"SELECT * FROM weft.heat WHERE database = " + quote.Literal(f.Database) + " ORDER BY share DESC LIMIT 10"
	}
	switch f.Reason {
	case SingleKey:
		advice = "One key is on one shard: moving its bucket would only move the work, and help the others. "
		switch f.Class {
		case Read:
			advice += "Let the application keep what it reads for a moment, or make a small table that is seldom written a reference table."
		case Write:
			advice += "Write to it less often, collect several changes in one, or spread a counter over several rows with keys of their own."
		default:
			advice += "Read it less often, collect several changes in one, or divide it into several keys."
		}
		return advice, look
	case HotRow:
		return "Transactions wait for each other's locks on the same row. Make them shorter, let UPDATE count (SET n = n + 1) instead of reading first, change the row last before COMMIT, or spread a counter over several rows.", look
	case BigTenant:
		advice = "The key has had much of the shard's work for more than an hour. Give it a shard with room."
		if f.Kind == Key {
			return advice, f.isolate(n)
		}
		return advice, "SELECT * FROM weft.hot_keys WHERE shard = " + quote.Literal(f.On) + " ORDER BY share DESC LIMIT 5"
	case Scan:
		return "Its statements return far more than others do. Look for an index, a LIMIT, or fewer columns.", f.statement(n, look)
	case Scatter:
		return "The statement asks every shard, because no condition gives the shard key. Add the key to its WHERE, or create a lookup for the column that it has.", f.statement(n, look)
	case Home:
		return "Tables that are not sharded are all on the home shard. Shard those with the work, or make those that are small and seldom written reference tables.", look
	case Moving:
		return "The keys that are written count up, so the newest of them have the work, and all of those are in one place. Moving the place helps until the keys have gone on. Shard by a key that spreads: a hash of it, or another column together with it.",
			"SELECT * FROM weft.heat WHERE shard = " + quote.Literal(f.On) + " ORDER BY share DESC LIMIT 5"
	case InStep:
		return "Clients ask in the same second of each minute, and the shard has little to do in between. Let each of them wait for a random part of the minute, or LISTEN for what they poll for.", f.statement(n, look)
	case ManyWarm:
		if f.Kind == Bucket && f.Cooler != "" {
			return "Many keys of the bucket have a part of the work: another shard can take the bucket.", fmt.Sprintf("SELECT weft.move_buckets('%d', %s)", f.Bucket, quote.Literal(f.Cooler))
		}
		if f.Cooler != "" {
			return "Many keys have a part of the work: other shards can take buckets.", "SELECT * FROM weft.rebalance('load', dry_run => true)"
		}
		return "Many keys have a part of the work, and no shard has room: add a shard with weft.add_shard, or a larger server.", "SELECT * FROM weft.load"
	}
	if f.Kind == User {
		return "Others wait for the same shard. Let the user ask for less, or limit what it may have of the shard.", fmt.Sprintf("SELECT weft.throttle(username => %s, share => '0.5', duration => '10min')", quote.Literal(f.User))
	}
	if f.Kind == Statement {
		return "Call it less often, or make it faster: EXPLAIN says what it does.", f.statement(n, look)
	}
	return "Look at what its statements do with EXPLAIN: rows of this key may be many, or wait for locks.", look
}

// isolate is the SQL that takes a key to a shard with room, "" if there is none.
func (f *Finding) isolate(n Names) string {
	value, whole := n.Value(f)
	tables := n.Tables(f.Database, f.Group)
	if !whole || f.Cooler == "" || len(tables) == 0 || !n.Isolates(f.Database, f.Group) {
		return ""
	}
	return fmt.Sprintf("SELECT weft.isolate(%s, %s, %s)", quote.Literal(tables[0]), quote.Literal(value), quote.Literal(f.Cooler))
}

// statement is the SQL that shows the statement that a finding is about.
func (f *Finding) statement(n Names, otherwise string) string {
	text := cmp.Or(f.Object.Text, f.Cause)
	if text == "" {
		return otherwise
	}
	return fmt.Sprintf("SELECT * FROM weft.statements WHERE id = %d", n.Statement(text))
}
