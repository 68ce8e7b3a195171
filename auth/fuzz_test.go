package auth

import (
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"

	"weft/pgerr"
)

// FuzzAuthenticate says anything at all to the dialogue. Nobody gets in without
// the password, nothing panics, and the client hears only errors PostgreSQL has.
func FuzzAuthenticate(f *testing.F) {
	const first, final = "n,,n=,r=abc", "c=biws,r=abc,p=AAAA"
	for _, m := range []string{first, "y,,n=,r=abc", gs2Plus + "n=,r=abc", "n,a=x,n=,r=abc", "n,,m=,n=,r=", "n,,n=,r=abc,x=1", "p", ""} {
		f.Add(false, "alice", []byte(initial(scramSHA256, m)), []byte(final))
		f.Add(true, "nobody", []byte(initial(scramSHA256Plus, m)), []byte(final))
	}
	f.Add(false, "alice", []byte(scramSHA256+"\x00\xff\xff\xff\xff"), []byte(first))
	f.Add(false, "mallory", []byte("md50123456789abcdef0123456789abcdef\x00"), []byte(nil))
	users := []User{{Name: "alice", Password: "secret"}, {Name: "mallory", Password: md5Password("secret", "mallory")}}
	var all []*Authenticator
	for _, m := range []Method{MethodScramSHA256, MethodMD5} {
		a, err := New(Config{Method: m, Users: users})
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, a)
	}
	codes := map[string]bool{"28P01": true, "28000": true, "08P01": true, "0A000": true}
	f.Fuzz(func(t *testing.T, secure bool, user string, one, two []byte) {
		r := Request{User: user, Database: "app"}
		if secure {
			r.TLS, r.ServerCertificate = &tls.ConnectionState{}, testCertificate().pair.Certificate[0]
		}
		for _, a := range all {
			s := &script{say: [][]byte{one, two}, err: io.EOF}
			_, err := a.Authenticate(t.Context(), s, r)
			if err == nil {
				t.Fatal("let in")
			}
			if len(s.sent) > 3 {
				t.Fatalf("%d messages to the client", len(s.sent))
			}
			var e *pgerr.Error
			if !errors.As(err, &e) {
				if !errors.Is(err, io.EOF) && !errors.Is(err, ErrMessageTooLong) {
					t.Fatal(err)
				}
				continue
			}
			if !e.IsFatal() || !codes[e.Code] || strings.ContainsFunc(e.Detail, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("%#v", e)
			}
		}
	})
}

// FuzzFinal gives the second message the nonce it needs to get past the checks
// in front of the proof.
func FuzzFinal(f *testing.F) {
	v, err := deriveVerifier("secret", make([]byte, saltLength), 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("abc", ",p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", false)
	f.Add("", ",x=1,p=AAAA,", true)
	f.Add("~", "", false)
	f.Fuzz(func(t *testing.T, nonce, tail string, doomed bool) {
		c := conversation{verifier: v}
		if doomed {
			c.doomed = errUnknownUser
		}
		serverFirst, err := c.first("n,,n=,r=" + nonce)
		if err != nil {
			return
		}
		if !strings.HasSuffix(serverFirst, ",s=AAAAAAAAAAAAAAAAAAAAAA==,i=1") {
			t.Fatalf("challenge %q", serverFirst)
		}
		answer, reason, err := c.final("c=biws,r=" + c.nonce + tail)
		if answer != "" || (reason == nil) == (err == nil) {
			t.Fatalf("answer %q, reason %v, error %v", answer, reason, err)
		}
		if doomed && reason != nil && !errors.Is(reason, errUnknownUser) {
			t.Fatal(reason)
		}
	})
}

// FuzzParseVerifier: what is read is what was written.
func FuzzParseVerifier(f *testing.F) {
	f.Add("SCRAM-SHA-256$4096:c2FsdA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	f.Add("SCRAM-SHA-256$:$:")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := parseVerifier(s)
		if err != nil {
			return
		}
		again, err := parseVerifier(v.String())
		if err != nil || again.String() != v.String() {
			t.Fatalf("%q, then %q: %v", s, v, err)
		}
	})
}
