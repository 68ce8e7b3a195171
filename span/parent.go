package span

import (
	"bytes"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// key is how sqlcommenter begins the parent in a comment. Its values are quoted and
// have no characters that would need an escape.
var key = []byte("traceparent='")

// length is that of a traceparent of version 00.
const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// Parent returns the traceparent that is in a comment of a text, "" if there is none
// or it says that the caller is not traced.
func Parent(text []byte) string {
	at := bytes.LastIndex(text, key)
	if at < 0 {
		return ""
	}
	value := text[at+len(key):]
	if len(value) <= length || value[length] != '\'' || bytes.LastIndex(text[:at], []byte("/*")) < bytes.LastIndex(text[:at], []byte("*/")) ||
		!bytes.Contains(text[:at], []byte("/*")) {
		return ""
	}
	parent := string(value[:length])
	if sc, ok := parseParent(parent); !ok || !sc.IsSampled() {
		return ""
	}
	return parent
}

func parseParent(s string) (trace.SpanContext, bool) {
	parts := strings.Split(s, "-")
	if len(s) != length || len(parts) != 4 || parts[0] != "00" {
		return trace.SpanContext{}, false
	}
	id, err1 := trace.TraceIDFromHex(parts[1])
	span, err2 := trace.SpanIDFromHex(parts[2])
	if err1 != nil || err2 != nil {
		return trace.SpanContext{}, false
	}
	flags := trace.TraceFlags(0)
	switch parts[3] {
	case "01", "03":
		flags = trace.FlagsSampled
	case "00", "02":
	default:
		return trace.SpanContext{}, false
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: flags, Remote: true}), true
}
