package server

import (
	"context"
	"crypto/tls"

	"weft/auth"
	"weft/console"
	"weft/directory"
	"weft/span"
	"weft/takeover"
)

// parts is what a proxy is made of beside the directory.
type parts struct {
	opt  Options
	auth *auth.Authenticator
	tls  *tls.Config // nil without TLS

	// The directory: what changes it, what follows it, and who we are in it.
	store   directory.Store
	current *directory.Current
	id      string
	secret  directory.Secret
	beside  *takeover.Beside // nil without a run_dir
	tracer  *span.Tracer

	// What the console asks.
	settings func() []console.Setting
	reload   func(ctx context.Context) ([]string, error)
}

func loadParts(opt Options) (parts, error) {
	p := parts{opt: opt}
	cfg := opt.Config.Auth
	cfg.Logger = opt.Log
	if cfg.MockSecret == "" {
		cfg.MockSecret = opt.mock
	}
	var err error
	if p.auth, err = auth.New(cfg); err != nil {
		return p, err
	}
	p.tls, err = opt.Config.TLS.Load()
	return p, err
}
