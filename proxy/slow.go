package proxy

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"weft/parser"
	"weft/pool"
)

// maxLogged bounds the text of a statement in the log.
const maxLogged = 2000

// logSlow logs a statement that has taken long: what it was, how it was carried out and
// where, but never its values.
func (a *account) logSlow(r *run, sh *pool.Shard, took int64) {
	text := "not known"
	if r.facts != nil && r.facts.Norm != "" {
		text = parser.Statement(r.facts.Norm)
	}
	if len(text) > maxLogged {
		text = strings.ToValidUTF8(text[:maxLogged], "") + "…"
	}
	attrs := []slog.Attr{
		slog.Duration("duration", time.Duration(took).Round(time.Microsecond)), slog.String("user", a.owner.User), slog.String("database", a.owner.Database),
		slog.String("kind", r.kind.String()), slog.Int64("rows", r.rows),
	}
	switch {
	case len(a.shards) > 0:
		attrs = append(attrs, slog.String("shards", strings.Join(a.shards, ",")))
	case sh != nil:
		attrs = append(attrs, slog.String("shards", sh.Name))
	}
	if r.failed {
		attrs = append(attrs, slog.Bool("failed", true))
	}
	a.s.log.LogAttrs(context.Background(), slog.LevelInfo, "slow statement", append(attrs, slog.String("statement", text))...)
}

// logged is a text made by weft in the form in which it may be logged: without the client's
// values.
func logged(sql string) string {
	var scan parser.Scanner
	if !scan.Scan([]byte(sql), parser.Options{}) {
		return "not readable"
	}
	return parser.Statement(string(scan.Norm))
}
