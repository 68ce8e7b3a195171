package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"weft/pgserver/pgtest"
)

// rawClient speaks the dialogue byte by byte, so that it can speak it wrongly.
type rawClient struct {
	t    *testing.T
	conn net.Conn
	log  []string // what the server said, without what differs from run to run
}

func dialRaw(t *testing.T, addr string, secure bool, user, database string) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(pgtest.Patience))
	if secure {
		b, _ := (&pgproto3.SSLRequest{}).Encode(nil)
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
		var answer [1]byte
		if _, err := io.ReadFull(conn, answer[:]); err != nil || answer[0] != 'S' {
			t.Fatalf("SSLRequest: %q, %v", answer, err)
		}
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	b, _ := (&pgproto3.StartupMessage{
		ProtocolVersion: pgproto3.ProtocolVersion30,
		Parameters:      map[string]string{"user": user, "database": database},
	}).Encode(nil)
	c := &rawClient{t: t, conn: conn}
	c.write(b)
	return c
}

func (c *rawClient) write(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// say sends a message of type 'p'.
func (c *rawClient) say(body string) {
	c.t.Helper()
	c.write(append(binary.BigEndian.AppendUint32([]byte{'p'}, uint32(4+len(body))), body...))
}

// hear reads one message and returns its body. The transcript gets errors field
// by field, and authentication requests with their random parts masked.
func (c *rawClient) hear() string {
	c.t.Helper()
	var head [5]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		c.log = append(c.log, "end")
		return ""
	}
	body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		c.t.Fatal(err)
	}
	if head[0] == 'E' {
		var e pgproto3.ErrorResponse
		if err := e.Decode(body); err != nil {
			c.t.Fatal(err)
		}
		c.log = append(c.log, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Severity, e.Code, e.Message)+"\n"+e.Detail))
		return ""
	}
	if head[0] != 'R' {
		c.t.Fatalf("message type %q", head[0])
	}
	code, data := binary.BigEndian.Uint32(body), string(body[4:])
	shown := data
	switch code {
	case codeMD5:
		shown = fmt.Sprintf("%d bytes", len(data))
	case codeSASLContinue:
		if data != "" {
			shown = maskServerFirst(data)
		}
	case codeSASLFinal:
		shown = fmt.Sprintf("v= and %d bytes", len(strings.TrimPrefix(data, "v=")))
	}
	c.log = append(c.log, fmt.Sprintf("R %d %q", code, shown))
	return data
}

// maskServerFirst shows the shape: r=<client nonce>+24,s=+24,i=4096.
func maskServerFirst(s string) string {
	nonce, rest, _ := strings.Cut(s, ",")
	salt, iterations, _ := strings.Cut(rest, ",")
	if len(nonce) < 24 || len(salt) < 2 {
		return s
	}
	return fmt.Sprintf("%s+24,s=+%d,%s", nonce[:len(nonce)-24], len(salt)-2, iterations)
}

// initial is the body of a SASLInitialResponse.
func initial(mechanism, message string) string {
	return mechanism + "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(len(message)))) + message
}

// proof answers a server-first-message for a password.
func proof(password, clientFirst, serverFirst, withoutProof string) string {
	rest := serverFirst[strings.Index(serverFirst, ",s=")+3:]
	salt, _ := base64.StdEncoding.DecodeString(rest[:strings.Index(rest, ",")])
	key := sign(saltedPassword(password, salt), []byte("Client Key"))
	stored := sha256.Sum256(key)
	signature := sign(stored[:], []byte(clientFirst+","+serverFirst+","+withoutProof))
	for i := range key {
		key[i] ^= signature[i]
	}
	return base64.StdEncoding.EncodeToString(key)
}

// TestDialogue speaks with weft and with a real PostgreSQL, and both must say
// the same words: each error's severity, SQLSTATE, message and detail included.
func TestDialogue(t *testing.T) {
	pg := startPostgres(t)
	_, addr := listen(t, Config{
		// As pg_hba.conf and the roles of startPostgres.
		Users: []User{
			{Name: "alice", Password: mustVerifier(t, "secret")},
			{Name: "mallory", Password: md5Password("secret", "mallory")},
			{Name: "nopass"},
			{Name: "bob", Password: mustVerifier(t, "b")}, // most have verifiers, as by password_encryption there
		},
		Rules: []Rule{
			{Type: "host", Databases: []string{"scram"}, Method: MethodScramSHA256},
			{Type: "host", Databases: []string{"md5"}, Method: MethodMD5},
			{Type: "host", Databases: []string{"reject"}, Method: MethodReject},
		},
	})
	certSum := sha256.Sum256(testCertificate().pair.Certificate[0])
	bound := base64.StdEncoding.EncodeToString(append([]byte(gs2Plus), certSum[:]...))

	// opening says the list of mechanisms and one client-first-message.
	opening := func(mechanism, message string) func(c *rawClient) {
		return func(c *rawClient) {
			c.hear()
			c.say(initial(mechanism, message))
			c.hear()
		}
	}
	// exchange goes on to the client-final-message; NONCE, PROOF and WRONG in
	// the pattern are replaced by what belongs there.
	exchange := func(mechanism, first, final string) func(c *rawClient) {
		return func(c *rawClient) {
			c.hear()
			c.say(initial(mechanism, first))
			serverFirst := c.hear()
			nonce := strings.TrimPrefix(serverFirst[:strings.Index(serverFirst, ",")], "r=")
			final := strings.ReplaceAll(final, "NONCE", nonce)
			if i := strings.Index(final, ",p=PROOF"); i >= 0 {
				bare := first[strings.Index(first, "n=,"):]
				final = strings.Replace(final, "PROOF", proof("secret", bare, serverFirst, final[:i]), 1)
			}
			final = strings.ReplaceAll(final, "WRONG", base64.StdEncoding.EncodeToString(make([]byte, 32)))
			c.say(final)
			c.hear()
		}
	}
	md5Answer := func(password, user string) func(c *rawClient) {
		return func(c *rawClient) {
			salt := c.hear()
			c.say(md5Password(md5Password(password, user)[3:], salt) + "\x00")
			c.hear()
		}
	}
	const sha, plus = scramSHA256, scramSHA256Plus
	const malformed = "FATAL 08P01 malformed SCRAM message\n"
	for _, c := range []struct {
		name     string
		user     string // alice if empty
		database string // scram if empty
		tls      bool
		talk     func(c *rawClient)
		want     string // the last word
	}{
		{name: "right", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE,p=PROOF"), want: `R 12 "v= and 44 bytes"`},
		{name: "right with y", talk: exchange(sha, "y,,n=,r=abc", "c=eSws,r=NONCE,p=PROOF"), want: `R 12 "v= and 44 bytes"`},
		{name: "right with extensions", talk: exchange(sha, "n,,n=,r=abc,x=1,Y=", "c=biws,r=NONCE,z=2,p=PROOF"), want: `R 12 "v= and 44 bytes"`},
		{name: "right with TLS", tls: true, talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE,p=PROOF"), want: `R 12 "v= and 44 bytes"`},
		{name: "right with PLUS", tls: true, talk: exchange(plus, gs2Plus+"n=,r=abc", "c="+bound+",r=NONCE,p=PROOF"), want: `R 12 "v= and 44 bytes"`},
		{name: "empty nonce", talk: exchange(sha, "n,,n=,r=", "c=biws,r=NONCE,p=PROOF"), want: `R 12 "v= and 44 bytes"`},
		{name: "wrong proof", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE,p=WRONG"), want: `FATAL 28P01 password authentication failed for user "alice"`},
		{name: "unknown user", user: "nobody", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE,p=PROOF"), want: `FATAL 28P01 password authentication failed for user "nobody"`},
		{name: "no password", user: "nopass", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE,p=PROOF"), want: `FATAL 28P01 password authentication failed for user "nopass"`},
		{name: "md5 hash for scram", user: "mallory", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE,p=PROOF"), want: `FATAL 28P01 password authentication failed for user "mallory"`},
		{name: "first message later", talk: func(c *rawClient) {
			c.hear()
			c.say(sha + "\x00\xff\xff\xff\xff")
			c.hear()
			c.say("n,,n=,r=abc")
			c.hear()
		}, want: `R 11 "r=abc+24,s=+24,i=4096"`},

		{name: "verifier for md5", database: "md5", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE,p=PROOF"), want: `R 12 "v= and 44 bytes"`},
		{name: "unknown user for md5", user: "nobody", database: "md5", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE,p=PROOF"), want: `FATAL 28P01 password authentication failed for user "nobody"`},
		{name: "md5 wrong", user: "mallory", database: "md5", talk: md5Answer("wrong", "mallory"), want: `FATAL 28P01 password authentication failed for user "mallory"`},
		{name: "md5 right", user: "mallory", database: "md5", talk: func(c *rawClient) {
			md5Answer("secret", "mallory")(c)
		}, want: `R 0 ""`},
		{name: "md5 in capitals", user: "mallory", database: "md5", talk: func(c *rawClient) {
			c.say("md5" + strings.ToUpper(hex.EncodeToString([]byte(c.hear()))) + "\x00")
			c.hear()
		}, want: `FATAL 28P01 password authentication failed for user "mallory"`},
		{name: "md5 without end", user: "mallory", database: "md5", talk: func(c *rawClient) { c.hear(); c.say("md5"); c.hear() }, want: `FATAL 08P01 invalid password packet size`},
		{name: "md5 with more", user: "mallory", database: "md5", talk: func(c *rawClient) { c.hear(); c.say("md5\x00x"); c.hear() }, want: `FATAL 08P01 invalid password packet size`},
		{name: "md5 empty", user: "mallory", database: "md5", talk: func(c *rawClient) { c.hear(); c.say("\x00"); c.hear() }, want: `FATAL 28P01 empty password returned by client`},
		{name: "md5 too long", user: "mallory", database: "md5", talk: func(c *rawClient) { c.hear(); c.say(strings.Repeat("x", maxPassword) + "\x00"); c.hear() }, want: "end"},
		{name: "md5 longest", user: "mallory", database: "md5", talk: func(c *rawClient) { c.hear(); c.say(strings.Repeat("x", maxPassword-1) + "\x00"); c.hear() }, want: `FATAL 28P01 password authentication failed for user "mallory"`},
		{name: "md5 other message", user: "mallory", database: "md5", talk: func(c *rawClient) { c.hear(); c.write([]byte("Q\x00\x00\x00\x05\x00")); c.hear() }, want: `FATAL 08P01 expected password response, got message type 81`},

		{name: "other message", talk: func(c *rawClient) { c.hear(); c.write([]byte("Q\x00\x00\x00\x05\x00")); c.hear() }, want: `FATAL 08P01 expected SASL response, got message type 81`},
		{name: "no end of mechanism", talk: func(c *rawClient) { c.hear(); c.say("SCRAM"); c.hear() }, want: `FATAL 08P01 invalid string in message`},
		{name: "no length", talk: func(c *rawClient) { c.hear(); c.say(sha + "\x00\x00"); c.hear() }, want: `FATAL 08P01 insufficient data left in message`},
		{name: "length too great", talk: func(c *rawClient) { c.hear(); c.say(sha + "\x00\x00\x00\x00\x09n"); c.hear() }, want: `FATAL 08P01 insufficient data left in message`},
		{name: "negative length", talk: func(c *rawClient) { c.hear(); c.say(sha + "\x00\xff\xff\xff\xfen"); c.hear() }, want: `FATAL 08P01 insufficient data left in message`},
		{name: "length too small", talk: func(c *rawClient) { c.hear(); c.say(sha + "\x00\x00\x00\x00\x01n,"); c.hear() }, want: `FATAL 08P01 invalid message format`},
		{name: "unknown mechanism", talk: opening("PLAIN", "n,,n=,r=abc"), want: `FATAL 08P01 client selected an invalid SASL authentication mechanism`},
		{name: "PLUS without TLS", talk: opening(plus, gs2Plus+"n=,r=abc"), want: `FATAL 08P01 client selected an invalid SASL authentication mechanism`},
		{name: "empty", talk: opening(sha, ""), want: malformed + "The message is empty."},
		{name: "zero byte", talk: opening(sha, "n,,n=\x00,r=abc"), want: malformed + "Message length does not match input length."},
		{name: "flag", talk: opening(sha, "x,,n=,r=abc"), want: malformed + `Unexpected channel-binding flag "'x'".`},
		{name: "flag not ASCII", talk: opening(sha, "\xe9,,n=,r=abc"), want: malformed + `Unexpected channel-binding flag "0xe9".`},
		{name: "comma after n", talk: opening(sha, "nn,n=,r=abc"), want: malformed + `Comma expected, but found character "'n'".`},
		{name: "comma after y", talk: opening(sha, "y"), want: malformed + `Comma expected, but found character "0x00".`},
		{name: "p without PLUS", talk: opening(sha, gs2Plus+"n=,r=abc"), want: malformed + "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data."},
		{name: "n with PLUS", tls: true, talk: opening(plus, "n,,n=,r=abc"), want: malformed + "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data."},
		{name: "y with PLUS", tls: true, talk: opening(plus, "y,,n=,r=abc"), want: malformed + "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data."},
		{name: "y with TLS", tls: true, talk: opening(sha, "y,,n=,r=abc"), want: "FATAL 28000 SCRAM channel binding negotiation error\nThe client supports SCRAM channel binding but thinks the server does not.  However, this server does support channel binding."},
		{name: "binding type", tls: true, talk: opening(plus, "p=tls-unique\x01and-forty-more-bytes-of-a-name-here,,n=,r=abc"), want: `FATAL 08P01 unsupported SCRAM channel-binding type "tls-unique?and-forty-more-byte"`},
		{name: "binding without type", tls: true, talk: opening(plus, "p,,n=,r=abc"), want: malformed + `Expected character "=" for attribute "p".`},
		{name: "authzid", talk: opening(sha, "n,a=root,n=,r=abc"), want: `FATAL 0A000 client uses authorization identity, but it is not supported`},
		{name: "not authzid", talk: opening(sha, "n,b=root,n=,r=abc"), want: malformed + `Unexpected attribute "'b'" in client-first-message.`},
		{name: "mandatory extension", talk: opening(sha, "n,,m=x,n=,r=abc"), want: `FATAL 0A000 client requires an unsupported SCRAM extension`},
		{name: "no user", talk: opening(sha, "n,,r=abc"), want: malformed + `Expected attribute "n" but found "'r'".`},
		{name: "no nonce", talk: opening(sha, "n,,n="), want: malformed + `Expected attribute "r" but found "0x00".`},
		{name: "no value", talk: opening(sha, "n,,n=,r"), want: malformed + `Expected character "=" for attribute "r".`},
		{name: "nonce with space", talk: opening(sha, "n,,n=,r=a b"), want: `FATAL 08P01 non-printable characters in SCRAM nonce`},
		{name: "nonce not ASCII", talk: opening(sha, "n,,n=,r=\xc3\xa4"), want: `FATAL 08P01 non-printable characters in SCRAM nonce`},
		{name: "bad extension", talk: opening(sha, "n,,n=,r=abc,1=2"), want: malformed + `Attribute expected, but found invalid character "'1'".`},
		{name: "bad extension value", talk: opening(sha, "n,,n=,r=abc,x"), want: malformed + `Expected character "=" for attribute "x".`},
		{name: "trailing comma", talk: opening(sha, "n,,n=,r=abc,"), want: `R 11 "r=abc+24,s=+24,i=4096"`},

		{name: "final empty", talk: exchange(sha, "n,,n=,r=abc", ""), want: malformed + "The message is empty."},
		{name: "final without c", talk: exchange(sha, "n,,n=,r=abc", "r=NONCE,p=PROOF"), want: malformed + `Expected attribute "c" but found "'r'".`},
		{name: "final with other flag", talk: exchange(sha, "n,,n=,r=abc", "c=eSws,r=NONCE,p=PROOF"), want: `FATAL 08P01 unexpected SCRAM channel-binding attribute in client-final-message`},
		{name: "final with other binding", tls: true, talk: exchange(plus, gs2Plus+"n=,r=abc", "c=biws,r=NONCE,p=PROOF"), want: `FATAL 28000 SCRAM channel binding check failed`},
		{name: "final without nonce", talk: exchange(sha, "n,,n=,r=abc", "c=biws,p=PROOF"), want: malformed + `Expected attribute "r" but found "'p'".`},
		{name: "final with other nonce", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=abc,p=PROOF"), want: "FATAL 08P01 invalid SCRAM response\nNonce does not match."},
		{name: "final without proof", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE"), want: malformed + "Attribute expected, but found end of string."},
		{name: "final with short proof", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE,p=AAAA"), want: malformed + "Malformed proof in client-final-message."},
		{name: "final with line break in proof", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE,p=PROOF\n"), want: malformed + "Malformed proof in client-final-message."},
		{name: "final with more", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=NONCE,p=PROOF,x=1"), want: malformed + "Garbage found at the end of client-final-message."},
		{name: "final of nobody, other nonce", user: "nobody", talk: exchange(sha, "n,,n=,r=abc", "c=biws,r=abc,p=PROOF"), want: "FATAL 08P01 invalid SCRAM response\nNonce does not match."},
		{name: "message too long", talk: func(c *rawClient) {
			c.hear()
			c.say(initial(sha, "n,,n=,r="+strings.Repeat("x", 1024)))
			c.hear()
		}, want: `FATAL 28P01 password authentication failed for user "alice"`},
		{name: "longest message", talk: func(c *rawClient) {
			c.hear()
			c.say(initial(sha, "n,,n=,r="+strings.Repeat("x", maxSASLMessage-len(initial(sha, "n,,n=,r=")))))
			c.hear()
		}, want: fmt.Sprintf(`R 11 "r=%s+24,s=+24,i=4096"`, strings.Repeat("x", maxSASLMessage-len(initial(sha, "n,,n=,r="))))},
		{name: "message too long by one", talk: func(c *rawClient) {
			c.hear()
			c.say(initial(sha, "n,,n=,r="+strings.Repeat("x", 1+maxSASLMessage-len(initial(sha, "n,,n=,r=")))))
			c.hear()
		}, want: `FATAL 28P01 password authentication failed for user "alice"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.user == "" {
				c.user = "alice"
			}
			if c.database == "" {
				c.database = "scram"
			}
			var transcripts []string
			for _, server := range []string{pg.addr, addr} {
				client := dialRaw(t, server, c.tls, c.user, c.database)
				c.talk(client)
				transcripts = append(transcripts, strings.Join(client.log, "\n"))
				if last := client.log[len(client.log)-1]; last != c.want {
					t.Errorf("%s: got %s\nwant %s", map[string]string{pg.addr: "PostgreSQL", addr: "weft"}[server], last, c.want)
				}
			}
			if transcripts[0] != transcripts[1] {
				t.Errorf("PostgreSQL:\n%s\nweft:\n%s", transcripts[0], transcripts[1])
			}
		})
	}

	// The file is weft.yaml here; all other words are PostgreSQL's.
	for _, secure := range []bool{false, true} {
		for _, database := range []string{"nowhere", "reject"} {
			theirs, ours := dialRaw(t, pg.addr, secure, "alice", database), dialRaw(t, addr, secure, "alice", database)
			theirs.hear()
			ours.hear()
			want := strings.NewReplacer("no pg_hba.conf entry for", "no rule in weft.yaml for", "pg_hba.conf rejects", "weft.yaml rejects").Replace(theirs.log[0])
			if ours.log[0] != want || !strings.HasPrefix(want, "FATAL 28000 ") {
				t.Errorf("PostgreSQL: %s\nweft: %s", theirs.log[0], ours.log[0])
			}
		}
	}
}

// TestUnknownUserLooksReal: the challenge of a stranger is of the shape of a
// user's, and the same each time it is asked for.
func TestUnknownUserLooksReal(t *testing.T) {
	challenge := func(a *Authenticator, user string) string {
		s := &script{say: [][]byte{[]byte(initial(scramSHA256, "n,,n=,r=abc"))}, err: io.EOF}
		if _, err := a.Authenticate(t.Context(), s, Request{User: user}); err == nil {
			t.Fatal("let in")
		}
		return string(s.sent[1][4:])
	}
	salt := func(s string) string { return strings.Split(s, ",")[1] }
	cfg := Config{Users: []User{{Name: "alice", Password: "secret"}}, MockSecret: "of the cluster"}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stranger, alice := challenge(a, "nobody"), challenge(a, "alice")
	if maskServerFirst(stranger) != maskServerFirst(alice) {
		t.Errorf("stranger %s, user %s", maskServerFirst(stranger), maskServerFirst(alice))
	}
	if salt(stranger) != salt(challenge(a, "nobody")) || salt(alice) != salt(challenge(a, "alice")) {
		t.Error("a salt changed between two logins")
	}
	if salt(stranger) == salt(challenge(a, "nobody2")) || salt(stranger) == salt(alice) {
		t.Error("two names have one salt")
	}
	second, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if salt(challenge(second, "nobody")) != salt(stranger) || salt(challenge(second, "alice")) != salt(alice) {
		t.Error("a second proxy with the same mock_secret shows another salt")
	}
	cfg.Users, cfg.MockSecret = nil, ""
	third, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if salt(challenge(third, "nobody")) == salt(stranger) {
		t.Error("the salt of a stranger does not depend on the secret")
	}
}

// TestMD5Stranger: where most users answer to MD5, a stranger is asked for MD5.
func TestMD5Stranger(t *testing.T) {
	a, err := New(Config{Method: MethodMD5, Users: []User{{Name: "alice", Password: "secret"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &script{err: io.EOF}
	if _, err := a.Authenticate(t.Context(), s, Request{User: "nobody"}); err == nil {
		t.Fatal("let in")
	}
	if len(s.sent) != 1 || len(s.sent[0]) != 8 || !bytes.Equal(s.sent[0][:4], []byte{0, 0, 0, codeMD5}) {
		t.Fatalf("sent %x", s.sent)
	}
}
