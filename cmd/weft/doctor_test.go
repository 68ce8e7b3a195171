package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/checkup"
	"weft/directory"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// shortLived writes a certificate that ends after a while, and its key.
func shortLived(t *testing.T, left time.Duration) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(left), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

// A real cluster of two shards with faults that were put in on purpose: all of them are found.
func TestDoctor(t *testing.T) {
	ctx := t.Context()
	e := testEtcd(t, "127.0.0.1:0")
	run := func(conn, sql string) {
		t.Helper()
		c, err := pgconn.Connect(ctx, conn)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		if _, err := query(ctx, c, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	home := pgtest.Start(t, pgserver.Config{Settings: map[string]string{"max_prepared_transactions": "80", "max_connections": "60"}})
	other := pgtest.Start(t, pgserver.Config{Settings: map[string]string{"max_prepared_transactions": "0", "max_connections": "20"}})
	run(home.ConnString("postgres"), "CREATE DATABASE app")
	run(home.ConnString("postgres"), "CREATE ROLE app LOGIN PASSWORD 'one'")
	run(home.ConnString("postgres"), "CREATE ROLE report LOGIN")
	run(other.ConnString("postgres"), "CREATE DATABASE app TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
	run(other.ConnString("postgres"), "CREATE ROLE app LOGIN PASSWORD 'two'")
	run(home.ConnString("app"), planSchema)
	run(other.ConnString("app"), planSchema+"ALTER TABLE orders ADD COLUMN extra int;")
	cert, key := shortLived(t, 3*24*time.Hour)
	s := serve(t, e.Endpoint(), fmt.Sprintf("cluster: shop\npool: {max_per_shard: 40}\ntls: {cert: %q, key: %q}\n", cert, key))
	file := write(t, "cluster.yaml", fmt.Sprintf("bucket_count: 64\ndurability: sync\nshards:\n- {name: a, hosts: [%q]}\n- {name: b, hosts: [%q, '127.0.0.1:1']}\n", home.Addr(), other.Addr()))
	if code, out, errs := weft(t, "apply", "-f", file, "-c", s.config); code != 0 {
		t.Fatalf("weft apply: exit code %d, stderr %q, stdout %q", code, errs, out)
	}
	s.await(t, "ready", func() bool { return ready(s.http) })
	src := source{config: s.config}
	store, err := src.open()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		for _, table := range planTables() {
			for i := range table.Columns {
				table.Columns[i].Type, table.Columns[i].TypeName, table.Columns[i].Mod = 20, "bigint", -1
			}
			next.PutTable(table)
		}
		return next, nil
	}); err != nil {
		t.Fatal(err)
	}
	code, out, errs := weft(t, "doctor", "-c", s.config)
	t.Log("\n" + out)
	if code != 1 || errs != "" {
		t.Fatalf("weft doctor: exit code %d, stderr %q, stdout\n%s", code, errs, out)
	}
	for _, want := range []string{
		"warning  reachable     b at 127.0.0.1:1: does not answer: ",
		"ok       versions      2 servers run PostgreSQL ",
		"problem  locales       b at " + other.Addr() + ": database app has encoding SQL_ASCII, and UTF8 on the home shard\n",
		"warning  connections   b at " + other.Addr() + ": takes 17 connections, and 1 proxy may open 40\n",
		"problem  two-phase     b at " + other.Addr() + ": max_prepared_transactions is 0: transactions over several shards are refused\n",
		"ok       clocks        the clocks of servers are less than ",
		"warning  certificates  proxy " + s.listen + ": the certificate expires on ",
		"warning  certificates  tls.cert " + cert + ": the certificate expires on ",
		"disks ",
		"problem  roles         b at " + other.Addr() + ": role report is missing\n",
		"warning  roles         b at " + other.Addr() + ": the stored password of role app is not that of the home shard",
		"problem  drift         b: ",
		"problem  durability    a at " + home.Addr() + ": is not as durable as declared: ",
		"warning  backups       a at " + home.Addr() + ": archive_mode is off",
		"warning  backups       there is no backup point",
		"ok       proxies       1 proxy is running\n",
		"ok       etcd          1 member, ",
		"→ Set max_prepared_transactions = 80 in postgresql.conf",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	var findings []checkup.Finding
	code, out, _ = weft(t, "doctor", "-c", s.config, "--json")
	if err := json.Unmarshal([]byte(out), &findings); code != 1 || err != nil || checkup.Fine(findings) {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
	for line, want := range map[string]string{
		"doctor":                    "where is the directory?",
		"doctor x":                  "one word too many",
		"doctor --zzz":              "unknown flag",
		"doctor --etcd 127.0.0.1:1": "the directory is unavailable",
	} {
		if code, out, errs := weft(t, strings.Fields(line)...); code != 2 && want != "unknown flag" || !strings.Contains(errs, want) || out != "" {
			t.Errorf("weft %s: exit code %d\nstderr %s\nstdout %s\nwant %s", line, code, errs, out, want)
		}
	}
}
