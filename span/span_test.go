package span

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// sink is a collector.
type sink struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans map[string]*otlp.Span
	attrs map[string]string
}

func (s *sink) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			s.attrs[a.Key] = a.Value.GetStringValue()
		}
		for _, ss := range rs.ScopeSpans {
			for _, sp := range ss.Spans {
				s.spans[sp.Name] = sp
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func start(t *testing.T) (*sink, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{spans: map[string]*otlp.Span{}, attrs: map[string]string{}}
	srv := grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, s)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Stop)
	return s, "http://" + l.Addr().String()
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A session, its statement and its shards arrive as a tree.
func TestTree(t *testing.T) {
	s, endpoint := start(t)
	tr, err := New(t.Context(), Config{Endpoint: endpoint, Ratio: 1, Version: "v", Proxy: "p"})
	if err != nil {
		t.Fatal(err)
	}
	sess := tr.Session("u", "d", "a")
	if sess == nil {
		t.Fatal("not traced")
	}
	at := time.Now()
	tr.Statement(sess, Statement{
		Text: "SELECT $1", Kind: "gather", Began: at, Ended: at.Add(time.Second), Rows: 3, Failed: true,
		Parts: []Part{{"s0", at, at.Add(time.Second)}, {"s1", at, at.Add(time.Millisecond)}},
	})
	sess.End()
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	root, st, s0, s1 := s.spans["session"], s.spans["statement"], s.spans["shard s0"], s.spans["shard s1"]
	if root == nil || st == nil || s0 == nil || s1 == nil {
		t.Fatalf("%v", s.spans)
	}
	if string(st.ParentSpanId) != string(root.SpanId) || string(s0.ParentSpanId) != string(st.SpanId) || string(s1.ParentSpanId) != string(st.SpanId) || len(root.ParentSpanId) > 0 {
		t.Error("they are no tree")
	}
	if st.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || st.EndTimeUnixNano-st.StartTimeUnixNano != uint64(time.Second) {
		t.Errorf("%v", st)
	}
	if s.attrs["service.name"] != "weft" || s.attrs["service.instance.id"] != "p" {
		t.Errorf("%v", s.attrs)
	}
}

func TestParentOfStatement(t *testing.T) {
	s, endpoint := start(t)
	tr, err := New(t.Context(), Config{Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	if tr.Session("u", "d", "a") != nil {
		t.Error("traced with a ratio of 0")
	}
	tr.Statement(nil, Statement{Text: "SELECT", Began: time.Now(), Ended: time.Now(), Parent: parent})
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.spans["statement"]; st == nil || st.TraceId[0] != 0x0a || st.ParentSpanId[0] != 0xb7 {
		t.Errorf("%v", st)
	}
}

// A collector that is away keeps nobody.
func TestAway(t *testing.T) {
	tr, err := New(t.Context(), Config{Endpoint: "http://127.0.0.1:1", Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 10000 {
		tr.Statement(nil, Statement{Began: began, Ended: began})
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = tr.Close(ctx)
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("Close took %v", d)
	}
}

func TestParent(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1 /*traceparent='" + parent + "'*/":                            parent,
		"SELECT 1 /*action='x',traceparent='" + parent + "',tracestate='y'*/;": parent,
		"/*traceparent='" + parent + "'*/ SELECT 1":                            parent,
		"SELECT 1": "",
		"SELECT 'traceparent=''" + parent + "'''":                                            "",
		"SELECT /* a */ traceparent='" + parent + "'":                                        "",
		"SELECT 1 /*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00'*/": "",
		"SELECT 1 /*traceparent='00-00000000000000000000000000000000-b7ad6b7169203331-01'*/": "",
		"SELECT 1 /*traceparent='xx'*/":                                                      "",
		"SELECT 1 /*traceparent='" + parent:                                                  "",
	} {
		if got := Parent([]byte(text)); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}
