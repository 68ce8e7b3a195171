package etcd

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// ZapLogger returns a zap logger that writes to log: etcd's libraries know no
// other. What etcd calls info is debug to us (a start alone is some sixty
// lines), and its warnings, about slow requests and dropped streams, are info:
// what fails is returned as an error to the caller, and reported there.
func ZapLogger(log *slog.Logger) *zap.Logger {
	return zap.New(&zapCore{log: log})
}

type zapCore struct{ log *slog.Logger }

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
	return c.log.Enabled(context.Background(), slogLevel(l))
}

// With implements zapcore.Core.
func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{log: slog.New(c.log.Handler().WithAttrs(attrs(fields)))}
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
	c.log.LogAttrs(context.Background(), slogLevel(e.Level), "etcd: "+e.Message, attrs(fields)...)
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
