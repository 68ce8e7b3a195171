package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"

	"weft/pgserver"
)

// target is what a suite connects to.
type target struct {
	name    string // plain or weft
	host    string
	port    string
	ca      string           // file
	servers []*pgserver.Temp // those behind it
}

func (w *world) plainTarget() target {
	return newTarget("plain", w.plain.Addr(), w.dir, w.plain)
}

func (w *world) weftTarget() target {
	return newTarget("weft", w.weft.Addr().String(), w.dir, w.shards...)
}

func newTarget(name, addr, dir string, servers ...*pgserver.Temp) target {
	host, port, _ := net.SplitHostPort(addr)
	return target{name: name, host: host, port: port, ca: filepath.Join(dir, "ca.pem"), servers: servers}
}

// connString is libpq's.
func (t target) connString(database string) string {
	return fmt.Sprintf("host=%s port=%s user=%s password=%s dbname=%s sslmode=verify-ca sslrootcert=%s connect_timeout=10",
		t.host, t.port, user, password, database, t.ca)
}

// url is for drivers that want one. Not all of them can be told of an authority there.
func (t target) url(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password), Host: net.JoinHostPort(t.host, t.port),
		Path: database, RawQuery: "sslmode=require",
	}
	return u.String()
}

// create makes an empty database on every server behind the target.
func (t target) create(ctx context.Context, database string) error {
	for _, s := range t.servers {
		if err := onServer(ctx, s, "drop database if exists "+database+" with (force)", s.CreateDatabase(database, "owner "+user)); err != nil {
			return err
		}
	}
	return nil
}

func (t target) drop(ctx context.Context, database string) error {
	for _, s := range t.servers {
		if err := onServer(ctx, s, "drop database "+database+" with (force)"); err != nil {
			return err
		}
	}
	return nil
}
