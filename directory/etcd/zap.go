package etcd

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// ZapLogger returns a zap logger that writes to log: etcd's libraries know no
// other. What etcd calls info is debug to us (a start alone is some sixty
// lines), and its warnings, about slow requests and dropped streams, are info.
func ZapLogger(log *slog.Logger) *zap.Logger {
	return zap.New(&zapCore{log: log})
}

// clientLogger is ZapLogger for clients, whose warnings are debug: what fails is returned as an error to the caller, and reported there
// once. While etcd is away each attempt of each request is a warning.
func clientLogger(log *slog.Logger) *zap.Logger {
	return zap.New(&zapCore{log: log, client: true})
}

type zapCore struct {
	log    *slog.Logger
	client bool
}

func (c *zapCore) level(l zapcore.Level) slog.Level {
	if c.client && l == zapcore.WarnLevel {
		return slog.LevelDebug
	}
	return slogLevel(l)
}

func slogLevel(l zapcore.Level) slog.Level {
	switch {
	case l <= zapcore.InfoLevel:
		return slog.LevelDebug
	case l == zapcore.WarnLevel:
		return slog.LevelInfo
	case l == zapcore.ErrorLevel:
		return slog.LevelWarn
	default: // panic and fatal end the process
		return slog.LevelError
	}
}

// Enabled implements zapcore.LevelEnabler.
func (c *zapCore) Enabled(l zapcore.Level) bool {
	return c.log.Enabled(context.Background(), c.level(l))
}

// With implements zapcore.Core.
func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{log: slog.New(c.log.Handler().WithAttrs(attrs(fields))), client: c.client}
}

// Check implements zapcore.Core.
func (c *zapCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c *zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.log.LogAttrs(context.Background(), c.level(e.Level), "etcd: "+e.Message, attrs(fields)...)
	return nil
}

// Sync implements zapcore.Core.
func (c *zapCore) Sync() error { return nil }

func attrs(fields []zapcore.Field) []slog.Attr {
	m := zapcore.NewMapObjectEncoder()
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		f.AddTo(m)
	}
	for k, v := range m.Fields {
		out = append(out, slog.Any(k, v))
	}
	return out
}
