package integration

import (
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// TestGarbage throws random bytes at the server at every stage of a session.
// It may answer what it likes and hang up; it must not die or stay behind.
func TestGarbage(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		rounds := 150
		for range rounds {
			c := dialRaw(t, target.Addr)
			if err := c.SetDeadline(time.Now().Add(pgtest.Patience)); err != nil {
				t.Fatal(err)
			}
			if rnd.IntN(3) > 0 {
				if err := c.login("alice"); err != nil {
					t.Fatalf("login between garbage: %v", err)
				}
			}
			for range 1 + rnd.IntN(4) {
				if _, err := c.Write(garbage(rnd)); err != nil {
					break // hung up on: fine
				}
			}
			if rnd.IntN(2) == 0 {
				// Half of them wait for an answer until the server is done with them.
				_, _ = c.Write(message('X', ""))
				_ = c.SetReadDeadline(time.Now().Add(time.Duration(rnd.IntN(20)) * time.Millisecond))
				_, _ = io.Copy(io.Discard, c)
			}
			_ = c.Close()
		}
		conn := target.Connect(t, "postgres")
		mustExec(t, conn, "select 1")
		target.Await(t, "select count(*) = 0 from pg_stat_activity where usename = 'alice' and state <> 'idle'")
	})
}

// garbage is bytes that are more or less like messages.
func garbage(rnd *rand.Rand) []byte {
	noise := make([]byte, rnd.IntN(60))
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	types := "QPBDECSHFdcfpX\x00z"
	typ := types[rnd.IntN(len(types))]
	texts := []string{"select 1\x00", "begin\x00", "copy (select 1) to stdout\x00", "\x00select $1\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00"}
	switch rnd.IntN(5) {
	case 0:
		return noise
	case 1:
		return message(typ, string(noise))
	case 2:
		return message(typ, texts[rnd.IntN(len(texts))])
	case 3: // a length that lies a little
		m := message(typ, texts[rnd.IntN(len(texts))])
		m[4] += byte(rnd.IntN(7)) - 3
		return m
	default: // cut short
		m := message(typ, texts[rnd.IntN(len(texts))])
		return m[:rnd.IntN(len(m))]
	}
}
