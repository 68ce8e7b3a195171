package dashboard

import (
	"math"
	"strconv"
	"strings"
	"time"

	"weft/console"
)

// cell is a value as people read it.
type cell struct {
	Text string `json:"t,omitempty"`
	// Tone is how the value is coloured: hot, warm, good or quiet; "" for as usual.
	Tone string `json:"c,omitempty"`
	// Bar is a share from 0 to 1 that is drawn beside a share.
	Bar float64 `json:"b,omitempty"`
}

// Width is the length of the bar in percent.
func (c cell) Width() string { return strconv.FormatFloat(100*min(max(c.Bar, 0), 1), 'f', 1, 64) }

// heading is a column as people read it.
type heading struct {
	Name string // that of the view
	Text string
	Unit string
	// Class is num for what is aligned by its digits, and text or long for words.
	Class string
}

// Share reports whether a bar is drawn beside the values.
func (h heading) Share() bool { return isShare(h.Name) }

// units are the endings of names that stand for units.
var units = []struct{ ending, unit string }{
	{"busy_ms_s", "ms/s"}, {"bytes_s", "/s"}, {"_ms", "ms"}, {"age_seconds", ""}, {"_seconds", "s"}, {"_s", "/s"},
}

// long are the columns with texts of any length.
var long = map[string]bool{"statement": true, "message": true, "advice": true, "sql": true, "value": true, "blocked_by": true, "hosts": true, "last_error": true, "durable_lacks": true}

// newHeading returns the heading of a column.
func newHeading(c console.Column) heading {
	h := heading{Name: c.Name, Text: c.Name, Class: "text"}
	switch c.Type {
	case console.Int, console.Float:
		h.Class = "num"
	case console.Time:
		h.Class, h.Unit = "time", "UTC"
	}
	if isShare(c.Name) {
		h.Class = "num share"
	}
	for _, u := range units {
		if rest, ok := strings.CutSuffix(h.Text, u.ending); ok && c.Type == console.Float {
			h.Text, h.Unit = rest, u.unit
			if rest == "" {
				h.Text, _, _ = strings.Cut(u.ending, "_")
			}
			break
		}
	}
	if long[c.Name] {
		h.Class = "long"
	}
	if c.Name == "id" || c.Name == "job" || c.Name == "gid" || c.Name == "backend_pid" {
		h.Class = "id"
	}
	h.Text = strings.ReplaceAll(h.Text, "_", " ")
	if text, ok := short[c.Name]; ok {
		h.Text = text
	}
	return h
}

// short are headings that say the same in less room.
var short = map[string]string{
	"share_of_shard": "of shard", "top_bucket_share": "its share", "top_key_share": "top key", "shards_over_mean": "shards / mean", "effective_buckets": "effective",
	"connection_limit": "limit", "backend_pid": "backend", "username": "user", "buckets_done": "done", "from_shards": "from", "to_shards": "to",
	"lag_bytes": "lag", "primary_address": "primary", "durable_lacks": "lacks", "lost_bytes": "lost", "from_address": "from", "to_address": "to", "paused_sessions": "paused",
}

// shares are the columns with shares of a whole.
var shares = map[string]bool{
	"share": true, "share_of_shard": true, "error": true, "top_key_share": true, "top_bucket_share": true, "cross_shard": true, "scatter": true, "two_phase": true, "evenness": true,
}

func isShare(name string) bool { return shares[name] }

// tones are words that are coloured.
var tones = map[string]string{
	"hot": "hot", "saturated": "hot", "failed": "hot", "critical": "hot", "warning": "warm", "warm": "warm", "slow": "warm", "paused": "warm", "waiting": "warm", "idle in transaction": "warm",
	"running": "good", "active": "good", "done": "quiet", "idle": "quiet", "cancelled": "quiet", "info": "quiet",
	"primary": "good", "standby": "good", "steady": "good", "silent": "hot", "split": "hot", "seeking": "hot", "foreign": "hot", "stale": "warm", "unknown": "warm",
}

// alarms are the columns of yes and no that are coloured, with the value that is bad.
var alarms = map[string]bool{"lossy": true, "durable": false}

// newCell returns a value of a column as people read it.
func newCell(c console.Column, v any, now time.Time) cell {
	switch v := v.(type) {
	case nil:
		return cell{Text: "–", Tone: "quiet"}
	case string:
		switch c.Name {
		case "verdict", "severity", "state", "primary_state":
			return cell{Text: printable(v), Tone: tones[v]}
		}
		return cell{Text: printable(v)}
	case bool:
		return answer(c.Name, v)
	case int64:
		return integer(c.Name, v)
	case float64:
		return float(c.Name, v)
	case time.Time:
		return moment(v, now)
	case []string:
		return cell{Text: printable(strings.Join(v, ", "))}
	}
	text, _ := console.Format(v)
	return cell{Text: text}
}

// answer writes yes or no.
func answer(name string, v bool) cell {
	c := cell{Text: "yes"}
	if !v {
		c = cell{Text: "no", Tone: "quiet"}
	}
	if bad, ok := alarms[name]; ok && v == bad {
		c.Tone = "hot"
	}
	return c
}

// printable writes a text on one line, without what would control more than its own characters.
func printable(s string) string {
	if !strings.ContainsAny(s, "\n\t\r") && !strings.Contains(s, "  ") {
		return console.Printable(s)
	}
	return console.Printable(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' || r == '\r' }), " "))
}

// plain are the columns whose integers are names rather than amounts.
var plain = map[string]bool{"id": true, "bucket": true, "top_bucket": true, "first_bucket": true, "last_bucket": true, "backend_pid": true, "session": true, "round": true, "timeline": true, "from_timeline": true, "to_timeline": true}

func integer(name string, v int64) cell {
	switch {
	case plain[name]:
		return cell{Text: strconv.FormatInt(v, 10)}
	case name == "bytes":
		return cell{Text: size(float64(v))}
	case name == "lag_bytes":
		return cell{Text: size(float64(v)), Tone: quietAt(float64(v), 1)}
	case name == "lost_bytes" && v > 0:
		return cell{Text: size(float64(v)), Tone: "hot"}
	case v == 0:
		return cell{Text: "0", Tone: "quiet"}
	case name == "waiting", name == "at_gate":
		return cell{Text: grouped(strconv.FormatInt(v, 10)), Tone: "warm"}
	}
	return cell{Text: grouped(strconv.FormatInt(v, 10))}
}

func float(name string, v float64) cell {
	switch {
	case isShare(name):
		c := cell{Text: strconv.FormatFloat(100*v, 'f', 1, 64) + " %", Bar: v}
		if v < 0.0005 {
			c.Tone, c.Bar = "quiet", 0
		}
		return c
	case name == "bytes_s", name == "wal_bytes_s":
		return cell{Text: size(v), Tone: quietAt(v, 0.5)}
	case name == "rate":
		return cell{Text: size(v) + "/s", Tone: quietAt(v, 0.5)}
	case name == "age_seconds":
		return cell{Text: lasting(time.Duration(v * float64(time.Second)))}
	}
	return cell{Text: amount(v), Tone: quietAt(v, 0.005)}
}

// quietAt is the tone of a number that is as good as nothing.
func quietAt(v, least float64) string {
	if math.Abs(v) < least {
		return "quiet"
	}
	return ""
}

// amount writes a number with three digits, or all before the point.
func amount(v float64) string {
	switch a := math.Abs(v); {
	case a < 0.005:
		return "0"
	case a < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return grouped(strconv.FormatFloat(v, 'f', 0, 64))
}

// grouped puts a thin space between thousands.
func grouped(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if len(digits) <= 4 {
		return sign + digits
	}
	first := len(digits) % 3
	parts := []string{}
	if first > 0 {
		parts = append(parts, digits[:first])
	}
	for ; first < len(digits); first += 3 {
		parts = append(parts, digits[first:first+3])
	}
	return sign + strings.Join(parts, "\u202f")
}

// size writes bytes.
func size(v float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB", "TiB"} {
		if math.Abs(v) < 1000 || unit == "TiB" {
			if unit == "B" {
				return strconv.FormatFloat(v, 'f', 0, 64) + " B"
			}
			return amount(v) + " " + unit
		}
		v /= 1024
	}
	return ""
}

// moment writes a time: of the last day without its date.
func moment(v, now time.Time) cell {
	if v.IsZero() {
		return cell{Text: "–", Tone: "quiet"}
	}
	if now.Sub(v).Abs() < 24*time.Hour {
		return cell{Text: v.UTC().Format("15:04:05")}
	}
	return cell{Text: v.UTC().Format("2006-01-02 15:04")}
}

// lasting writes how long something lasts.
func lasting(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " d"
}
