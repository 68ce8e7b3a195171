package console

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Heat is what is known of the work that keys, buckets and shards have now, of all proxies together.
// Amounts are per second.
type Heat struct {
	Keys       []HotKey
	Statements []HotStatement
	Buckets    []HotBucket
	Shards     []ShardLoad
	Skews      []Skew
}

// Aspect is a field of Heat.
type Aspect uint8

// The aspects.
const (
	HeatKeys Aspect = iota
	HeatStatements
	HeatBuckets
	HeatShards
	HeatSkews
)

// Work is an amount of work per second.
type Work struct {
	Reads, Writes, Failed, Rows, Bytes float64
	Busy                               float64 // milliseconds of backends
}

// HotKey is one value of a shard key.
type HotKey struct {
	Work
	Database            string
	Tables              []string // that have the key
	Key                 string   // a value, or a name for it; "" if it is not known yet
	Bucket              int64
	Shard               string
	OfShard             float64 // share of the work of its shard
	Share, Error        float64 // share of the work in its database, and by how much that may be off
	Median, NinetyNinth float64 // of the time that statements keep a backend busy, in milliseconds
	Since               time.Time
	Finding
}

// Finding is what was found of a thing, and why; both are "" for nothing.
type Finding struct{ Verdict, Reason string }

// HotStatement is one normalised statement of a user, on one shard.
type HotStatement struct {
	Work
	ID                          int64 // as in weft.statements
	Database, User, Text, Shard string
	OfShard                     float64 // share of the work of the shard
	Median, NinetyNinth         float64 // as in HotKey
	Since                       time.Time
}

// HotBucket is one bucket of a database that has work.
type HotBucket struct {
	Work
	Database string
	Number   int64
	Shard    string
	Share    float64 // of the work on all buckets of the database
	OverMean float64 // how many times the work of the mean bucket
	TopKey   float64 // share of the bucket's heaviest key
	Finding
}

// ShardLoad is the work of one shard.
type ShardLoad struct {
	Work
	Shard                       string
	Share                       float64
	OverMean                    float64 // how many times the work of the mean shard, weights considered
	Median, NinetyNinth         float64 // of the time that statements keep a backend busy, in milliseconds
	WaitMedian, WaitNinetyNinth float64 // of the time that statements wait for a backend
	// Active is what the shard's active backends do, nil if the shard has not said.
	Active *Active
	// Utilisation is the part of the shard's cores that backends use, nil if the number of cores is not known. FullAt is
	// when backends would use all cores, zero if that cannot be told.
	Utilisation *float64
	FullAt      time.Time
	// Slowdown is how many times as long statements take as usual, and Allows how many backends should work for clients at a
	// time. Nil: that is not known.
	Slowdown *float64
	Allows   *int64
	Finding
}

// Active is what a shard says of itself.
type Active struct {
	CPU, Lock, IO float64 // backends that are on a processor, wait for locks, and for files
	// WAL is bytes per second, and Machine the used part of its processors' time. Nil: not known.
	WAL, Machine *float64
}

// Warning is something that is wrong, or unusual.
type Warning struct {
	ID                                     string
	Since                                  time.Time
	Severity, Object, Message, Advice, SQL string
	Database                               string // "" if it is about the cluster
	// Private: Object and Message name a key or a statement.
	Private bool
}

// Skew says how evenly the work of one class is spread over the buckets of a database.
type Skew struct {
	Database, Class     string // read, write or all
	Evenness, Gini      float64
	Effective           float64
	Buckets             int64
	TopBucket           int64 // -1 for none
	TopShare            float64
	TopKey              float64
	ShardsOverMean      float64
	CrossShard, Scatter float64
	TwoPhase            float64
	// Usual is how many effective buckets are usual, 0 if that is not known, and Warned says that there are
	// too few.
	Usual  float64
	Warned bool
}

// heatViews are the views about heat.
var heatViews = []*View{
	{
		"hot_keys", "KEYS", "the values of shard keys that statements use most, now",
		[]Column{
			{"database", Text},
			{"tables", Texts},
			{"key", Text},
			{"bucket", Int},
			{"shard", Text},
			{"reads_s", Float},
			{"writes_s", Float},
			{"failed_s", Float},
			{"rows_s", Float},
			{"bytes_s", Float},
			{"busy_ms_s", Float},
			{"share_of_shard", Float},
			{"share", Float},
			{"error", Float},
			{"p50_ms", Float},
			{"p99_ms", Float},
			{"since", Time},
			{"verdict", Text},
			{"reason", Text},
		},
		hotKeyRows, false,
	},
	{
		"hot_statements", "HOT", "the statements that shards have most work with, now",
		[]Column{
			{"database", Text},
			{"username", Text},
			{"id", Int},
			{"statement", Text},
			{"shard", Text},
			{"reads_s", Float},
			{"writes_s", Float},
			{"failed_s", Float},
			{"rows_s", Float},
			{"bytes_s", Float},
			{"busy_ms_s", Float},
			{"share_of_shard", Float},
			{"p50_ms", Float},
			{"p99_ms", Float},
			{"since", Time},
		},
		hotStatementRows, false,
	},
	{
		"heat", "HEAT", "the work of each bucket that has some, now",
		[]Column{
			{"database", Text},
			{"bucket", Int},
			{"shard", Text},
			{"reads_s", Float},
			{"writes_s", Float},
			{"failed_s", Float},
			{"rows_s", Float},
			{"bytes_s", Float},
			{"busy_ms_s", Float},
			{"share", Float},
			{"over_mean", Float},
			{"top_key_share", Float},
			{"verdict", Text},
			{"reason", Text},
		},
		hotBucketRows, false,
	},
	{
		"load", "LOAD", "the work of each shard, now",
		[]Column{
			{"shard", Text},
			{"reads_s", Float},
			{"writes_s", Float},
			{"failed_s", Float},
			{"rows_s", Float},
			{"bytes_s", Float},
			{"busy_ms_s", Float},
			{"share", Float},
			{"over_mean", Float},
			{"p50_ms", Float},
			{"p99_ms", Float},
			{"wait_p50_ms", Float},
			{"wait_p99_ms", Float},
			{"on_cpu", Float},
			{"on_lock", Float},
			{"on_io", Float},
			{"verdict", Text},
			{"reason", Text},
			{"utilisation", Float},
			{"full_at", Time},
			{"slowdown", Float},
			{"allows", Int},
			{"wal_bytes_s", Float},
			{"cpu_share", Float},
		},
		loadRows, false,
	},
	{
		"skew", "SKEW", "how evenly the work in each database is spread over buckets and shards, now",
		[]Column{
			{"database", Text},
			{"class", Text},
			{"evenness", Float},
			{"effective_buckets", Float},
			{"buckets", Int},
			{"gini", Float},
			{"top_bucket", Int},
			{"top_bucket_share", Float},
			{"top_key_share", Float},
			{"shards_over_mean", Float},
			{"cross_shard", Float},
			{"scatter", Float},
			{"two_phase", Float},
			{"usual", Float},
			{"warned", Bool},
		},
		skewRows, false,
	},
	{
		"warnings", "WARNINGS", "what is hot, slow, saturated or skewed, why, and what to do about it",
		[]Column{{"id", Text}, {"since", Time}, {"severity", Text}, {"object", Text}, {"message", Text}, {"advice", Text}, {"sql", Text}},
		warningRows, false,
	},
}

// inside reports whether a viewer sees what concerns a database.
func (v Viewer) inside(database string) bool { return v.All || v.Database == database }

func (w Work) columns() []any {
	return []any{w.Reads, w.Writes, w.Failed, w.Rows, w.Bytes, w.Busy}
}

// row puts columns together.
func row(first []any, w Work, last ...any) []any {
	return append(append(first, w.columns()...), last...)
}

// hotKeyRows shows values of keys, which are data, only to those who may see all.
func hotKeyRows(ctx context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, k := range src.Heat(ctx, HeatKeys, v.All).Keys {
		if !v.inside(k.Database) {
			continue
		}
		key := any(hidden)
		if v.All {
			key = text(Printable(k.Key))
		}
		rows = append(rows, row([]any{k.Database, k.Tables, key, k.Bucket, text(k.Shard)}, k.Work, k.OfShard, k.Share, k.Error, k.Median, k.NinetyNinth, k.Since, text(k.Verdict), text(k.Reason)))
	}
	return rows
}

// hotStatementRows shows texts as weft.statements does.
func hotStatementRows(ctx context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, s := range src.Heat(ctx, HeatStatements, false).Statements {
		id, statement := any(s.ID), s.Text
		if !v.sees(s.User) {
			id, statement = nil, hidden
		}
		rows = append(rows, row([]any{s.Database, s.User, id, statement, s.Shard}, s.Work, s.OfShard, s.Median, s.NinetyNinth, s.Since))
	}
	return rows
}

func hotBucketRows(ctx context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, b := range src.Heat(ctx, HeatBuckets, false).Buckets {
		if v.inside(b.Database) {
			rows = append(rows, row([]any{b.Database, b.Number, text(b.Shard)}, b.Work, b.Share, b.OverMean, b.TopKey, text(b.Verdict), text(b.Reason)))
		}
	}
	return rows
}

func loadRows(ctx context.Context, src Source, _ Viewer) [][]any {
	var rows [][]any
	for _, s := range src.Heat(ctx, HeatShards, false).Shards {
		active, wal, machine := []any{nil, nil, nil}, any(nil), any(nil)
		if a := s.Active; a != nil {
			active, wal, machine = []any{a.CPU, a.Lock, a.IO}, known(a.WAL), known(a.Machine)
		}
		allows := any(nil)
		if s.Allows != nil {
			allows = *s.Allows
		}
		last := append([]any{s.Share, s.OverMean, s.Median, s.NinetyNinth, s.WaitMedian, s.WaitNinetyNinth}, active...)
		rows = append(rows, row([]any{s.Shard}, s.Work, append(last, text(s.Verdict), text(s.Reason), known(s.Utilisation), s.FullAt, known(s.Slowdown), allows, wal, machine)...))
	}
	return rows
}

// known is a number, or NULL where there is none.
func known(x *float64) any {
	if x == nil {
		return nil
	}
	return *x
}

func skewRows(ctx context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, s := range src.Heat(ctx, HeatSkews, false).Skews {
		if !v.inside(s.Database) {
			continue
		}
		top := any(s.TopBucket)
		if s.TopBucket < 0 {
			top = nil
		}
		usual, warned := any(nil), any(nil)
		if s.Usual > 0 {
			usual, warned = s.Usual, s.Warned
		}
		rows = append(rows, []any{
			s.Database, s.Class, s.Evenness, s.Effective, s.Buckets, s.Gini, top, s.TopShare, s.TopKey, s.ShardsOverMean, s.CrossShard, s.Scatter, s.TwoPhase, usual, warned,
		})
	}
	return rows
}

// warningRows shows what names a key or a statement only to those who may see all. Others see that
// there is something, and get neither its id nor SQL for operators.
func warningRows(ctx context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, w := range src.Warnings(ctx, v.All) {
		switch {
		case v.All:
			rows = append(rows, []any{w.ID, w.Since, w.Severity, w.Object, w.Message, text(w.Advice), text(w.SQL)})
		case w.Database != "" && !v.inside(w.Database):
		case w.Private:
			rows = append(rows, []any{nil, w.Since, w.Severity, hidden, hidden, text(w.Advice), nil})
		default:
			rows = append(rows, []any{nil, w.Since, w.Severity, w.Object, w.Message, text(w.Advice), nil})
		}
	}
	return rows
}

// Printable writes a text so that it does nothing to a terminal: characters that control one, or the
// direction of writing, and bytes that are no UTF-8 become escapes.
func Printable(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if _, size := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else if unprintable(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
