package auth

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func saltedPassword(password string, salt []byte) []byte {
	salted, err := pbkdf2.Key(sha256.New, saslprep(password), salt, defaultIterations, sha256.Size)
	if err != nil {
		panic(err)
	}
	return salted
}

func mustVerifier(t *testing.T, password string) string {
	t.Helper()
	v, err := Verifier(password)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVerifierIsPostgres: PostgreSQL's verifier of a password, and ours with
// the same salt, are the same text; and PostgreSQL lets a user in by ours.
func TestVerifierIsPostgres(t *testing.T) {
	pg := startPostgres(t)
	ctx := context.Background()
	conn, err := pgconn.Connect(ctx, pg.admin)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "DROP ROLE IF EXISTS v; CREATE ROLE v LOGIN").ReadAll(); err != nil {
		t.Fatal(err)
	}
	for _, password := range preparedPasswords() {
		stored := storedBy(t, conn, password)
		theirs, err := parseVerifier(stored)
		if err != nil {
			t.Fatalf("%+q: %v", password, err)
		}
		if theirs.String() != stored {
			t.Errorf("%+q: read and written again, %s is %s", password, stored, theirs)
		}
		ours, err := deriveVerifier(password, theirs.salt, theirs.iterations)
		if err != nil {
			t.Fatal(err)
		}
		if ours.String() != stored {
			t.Errorf("%+q: PostgreSQL %s, weft %s", password, stored, ours)
		}
	}

	made := mustVerifier(t, "of weft")
	if kept := storedBy(t, conn, made); kept != made {
		t.Fatalf("PostgreSQL took %s for a password", made)
	}
	client, err := pgconn.Connect(ctx, fmt.Sprintf("postgres://v:of%%20weft@%s/scram?sslmode=disable", pg.addr))
	if err != nil {
		t.Fatalf("log in to PostgreSQL by weft's verifier: %v", err)
	}
	client.Close(ctx)
}

// storedBy gives role v the password and returns what PostgreSQL keeps of it.
func storedBy(t *testing.T, conn *pgconn.PgConn, password string) string {
	t.Helper()
	sql := "ALTER ROLE v PASSWORD '" + strings.ReplaceAll(password, "'", "''") + "'; SELECT rolpassword FROM pg_authid WHERE rolname = 'v'"
	results, err := conn.Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%+q: %v", password, err)
	}
	return string(results[len(results)-1].Rows[0][0])
}

// preparedPasswords is one password for each step of SASLprep, and where
// PostgreSQL's order of steps shows.
func preparedPasswords() []string {
	return []string{
		"secret", "with 'quote' and space ", "\x01control\x7f",
		"no\u00a0break", "\u2003em", "\u3000wide", "zero\u200bwidth", // spaces
		"soft\u00adhyphen", "\u00ad", "\u00ad\u200d", "joined\u200d", "var\ufe0fiation", "to\u1806do", // mapped to nothing
		"\u2168", "\ufb01n", "\uff21\uff22", "nai\u0308ve", "na\u00efve", "\u1100\u1161\u11a8", "\u212b", // normalized
		"tone\u0340", "tone\u0341", "\u200ertl", // prohibited, two of which would be normalized away
		"line\u2028", "\u0080c1", "priv\ue000", "\ufffd", "\ufdd0", "tag\U000e0041", "\u2ff0", "\u06dd", // prohibited
		"new\u0221", "emoji\U0001f600", "\u1e9e", "\u0560", // unassigned in Unicode 3.2
		"\u0627\u0644\u0641", "\u0627a\u0628", "\u06271", "1\u0627", "\u06271\u0628", "\u05d0 \u05d1", "\ufb1d", // right to left
		"\u06270\u0660\u0628", "\ufdfa", "\U0001d15e", "\U0002f868", "\u0958", "\u0344", "a\u0315\u0300\u05ae\u0062",
		"stra\u00dfe", "\u03c2", "\u0130", "\u017f",
	}
}

func TestParseVerifierRefuses(t *testing.T) {
	good := mustVerifier(t, "secret")
	if _, err := parseVerifier(good); err != nil {
		t.Fatal(err)
	}
	key := strings.Repeat("A", 43) + "="
	for s, want := range map[string]string{
		"":                               "form",
		"secret":                         "form",
		"SCRAM-SHA-256$4096":             "form",
		"SCRAM-SHA-256$4096:c2E":         "form",
		"SCRAM-SHA-256$4096:c2E=$" + key: "form",
		"SCRAM-SHA-1$4096:c2E=$" + key + ":" + key:               "form",
		"SCRAM-SHA-256$0:c2E=$" + key + ":" + key:                "iterations",
		"SCRAM-SHA-256$-1:c2E=$" + key + ":" + key:               "iterations",
		"SCRAM-SHA-256$4096x:c2E=$" + key + ":" + key:            "iterations",
		"SCRAM-SHA-256$99999999999:c2E=$" + key + ":" + key:      "iterations",
		"SCRAM-SHA-256$4096:c2E$" + key + ":" + key:              "salt",
		"SCRAM-SHA-256$4096:c2E=\n$" + key + ":" + key:           "salt",
		"SCRAM-SHA-256$4096:c2E=$" + key[:40] + ":" + key:        "StoredKey",
		"SCRAM-SHA-256$4096:c2E=$" + key + ":" + key + "A":       "ServerKey",
		"SCRAM-SHA-256$4096:c2E=$" + key + ":" + key + ":" + key: "ServerKey",
	} {
		if _, err := parseVerifier(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want something about %s", s, err, want)
		}
	}
	for _, password := range []string{"", "a\x00b"} {
		if v, err := Verifier(password); err == nil {
			t.Errorf("Verifier(%q) = %s", password, v)
		}
	}
	if mustVerifier(t, "secret") == good {
		t.Error("two verifiers of one password are the same: the salt is not random")
	}
}
