package span

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config is what a Tracer needs.
type Config struct {
	// Endpoint is http://host:port or https://host:port of a collector.
	Endpoint string
	// Ratio is the share of sessions that are traced.
	Ratio float64
	// Version and Proxy are what this process is.
	Version, Proxy string
	// Log receives what goes wrong. Default: discarded.
	Log *slog.Logger
}

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	ratio    atomic.Uint64 // bits of a float64
}

// New returns a Tracer that sends to a collector. It does not wait for it.
func New(ctx context.Context, cfg Config) (*Tracer, error) {
	u, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	opts := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(u.Host), otlptracegrpc.WithTimeout(5 * time.Second)}
	if u.Scheme == "http" {
		opts = append(opts, otlptracegrpc.WithInsecure())
	}
	exporter, err := otlptracegrpc.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	if log := cfg.Log; log != nil {
		// The SDK has one handler for the whole process.
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces could not be sent", "err", err) }))
	}
	return newTracer(cfg, sdk.NewBatchSpanProcessor(exporter)), nil
}

func newTracer(cfg Config, processor sdk.SpanProcessor) *Tracer {
	t := &Tracer{provider: sdk.NewTracerProvider(
		sdk.WithSpanProcessor(processor),
		sdk.WithSampler(sdk.AlwaysSample()), // who is traced is decided before
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "weft"), attribute.String("service.version", cfg.Version), attribute.String("service.instance.id", cfg.Proxy),
		)),
	)}
	t.tracer = t.provider.Tracer("weft")
	t.SetRatio(cfg.Ratio)
	return t
}

// SetRatio changes the share of sessions that are traced.
func (t *Tracer) SetRatio(r float64) { t.ratio.Store(math.Float64bits(r)) }

// Close sends what is left and ends.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Session is one that is traced.
type Session struct {
	span trace.Span
	ctx  context.Context
}

// Session begins the trace of a session, or returns nil if it is not to be traced.
func (t *Tracer) Session(user, database, application string) *Session {
	if rand.Float64() >= math.Float64frombits(t.ratio.Load()) {
		return nil
	}
	ctx, span := t.tracer.Start(context.Background(), "session", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("db.system.name", "postgresql"), attribute.String("db.namespace", database),
		attribute.String("weft.user", user), attribute.String("weft.application", application)))
	return &Session{span, ctx}
}

// End ends the trace of a session.
func (s *Session) End() { s.span.End() }

// Part is what one shard did for a statement.
type Part struct {
	Shard        string
	Began, Ended time.Time
}

// Statement is a statement that is over.
type Statement struct {
	// Text is normalised: without values.
	Text, Kind, User, Database string
	Began, Ended               time.Time
	Rows                       int64
	Failed                     bool
	Parts                      []Part
	// Parent is the traceparent that came with it, if one did.
	Parent string
}

// Statement makes the spans of a statement: of a session that is traced, or with a
// parent that is.
func (t *Tracer) Statement(sess *Session, st Statement) {
	ctx := context.Background()
	if sess != nil {
		ctx = sess.ctx
	}
	opts := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(st.Began), trace.WithAttributes(
			attribute.String("db.system.name", "postgresql"), attribute.String("db.namespace", st.Database), attribute.String("db.query.text", st.Text),
			attribute.String("weft.user", st.User), attribute.String("weft.kind", st.Kind), attribute.Int64("db.response.returned_rows", st.Rows),
			attribute.Int("weft.shards", len(st.Parts))),
	}
	if parent, ok := parseParent(st.Parent); ok {
		if sess != nil {
			opts = append(opts, trace.WithLinks(trace.LinkFromContext(sess.ctx)))
		}
		ctx = trace.ContextWithRemoteSpanContext(context.Background(), parent)
	}
	ctx, span := t.tracer.Start(ctx, "statement", opts...)
	for _, p := range st.Parts {
		_, part := t.tracer.Start(ctx, "shard "+p.Shard, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(p.Began),
			trace.WithAttributes(attribute.String("weft.shard", p.Shard)))
		part.End(trace.WithTimestamp(p.Ended))
	}
	if st.Failed {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(st.Ended))
}
