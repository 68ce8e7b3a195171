package proxy_test

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/proxy"
)

// step is one thing a client does, and what comes of it.
type step struct {
	sql    string
	want   string
	effect string // the options in effect afterwards; empty: as before
}

// prober finds out which options are in effect in a session, on the session's own
// goroutine: when it asks for the cluster before a query.
type prober struct {
	weft  *weft
	asked atomic.Int32 // about whom
	found chan string
}

// watch makes a proxy's sessions ask the prober.
func (p *prober) watch(c *proxy.Config) {
	p.found = make(chan string, 1)
	snapshot := c.Snapshot
	c.Snapshot = func() *directory.Snapshot {
		pc, _, _, _ := runtime.Caller(1)
		if strings.HasSuffix(runtime.FuncForPC(pc).Name(), "(*routing).refresh") {
			if pid := p.asked.Swap(0); pid != 0 {
				p.found <- p.weft.OptionsOf(pid)
			}
		}
		return snapshot()
	}
}

func (p *prober) options(c *client) string {
	p.asked.Store(c.pid)
	c.query("")
	return <-p.found
}

const defaults = "1073741824 true 0"

// TestOptions: weft's parameters are set, shown and taken back as PostgreSQL's
// are, by both protocols, whichever backend the session comes to.
func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"defaults", []step{
			{"SHOW weft.scatter", "on", defaults},
			{"SHOW WEFT.Max_Gather_Bytes", "1GB", ""},
			{"SELECT current_setting('weft.max_parallel_shards')", "0", ""},
			{"SELECT current_setting('weft.scatter', true)", "on", ""},
			{"SHOW weft.nonsense", `error 42704 unrecognized configuration parameter "weft.nonsense"`, ""},
		}},
		{"set", []step{
			{"SET weft.scatter = off", "", "1073741824 false 0"},
			{"SHOW weft.scatter", "off", ""},
			{"SET weft.max_gather_bytes = '64MB'", "", "67108864 false 0"},
			{"SET weft.max_parallel_shards TO 3", "", "67108864 false 3"},
			{"SELECT current_setting('weft.max_gather_bytes'), current_setting('weft.max_parallel_shards')", "64MB|3", ""},
			{"RESET weft.scatter", "", "67108864 true 3"},
			{"SHOW weft.scatter", "on", ""},
			{"SET weft.max_gather_bytes TO DEFAULT", "", "1073741824 true 3"},
			{"SHOW weft.max_gather_bytes", "1GB", ""},
			{"RESET ALL", "", defaults},
			{"SHOW weft.max_parallel_shards", "0", ""},
		}},
		{"discard", []step{
			{"SET weft.scatter = no", "", "1073741824 false 0"},
			{"DISCARD ALL", "", defaults},
			{"SHOW weft.scatter", "on", ""},
		}},
		{"invalid", []step{
			{"SET weft.scatter = maybe", `error 22023 invalid value for parameter "weft.scatter": "maybe"`, defaults},
			{"SET weft.max_gather_bytes = '12XB'", `error 22023 invalid value for parameter "weft.max_gather_bytes": "12XB"`, ""},
			{"SET weft.max_gather_bytes = -1", `error 22023 -1 is outside the valid range for parameter "weft.max_gather_bytes" (1 .. 9223372036854775807)`, ""},
			{"SET weft.max_parallel_shards = -1", `error 22023 -1 is outside the valid range for parameter "weft.max_parallel_shards" (0 .. 2147483647)`, ""},
			{"SET weft.max_parallel_shards = 'x'", `error 22023 invalid value for parameter "weft.max_parallel_shards": "x"`, ""},
			{"SET weft.sactter = off", `error 42602 invalid configuration parameter name "weft.sactter"`, ""},
			{"SELECT set_config('weft.scatter', 'maybe', false)", `error 22023 invalid value for parameter "weft.scatter": "maybe"`, ""},
			{"ALTER ROLE postgres SET weft.scatter = 'maybe'", `error 22023 invalid value for parameter "weft.scatter": "maybe"`, ""},
			{"SHOW weft.scatter", "on", ""},
			{"BEGIN", "", ""},
			{"SET weft.scatter = maybe", `error 22023 invalid value for parameter "weft.scatter": "maybe"`, ""},
			{"SHOW weft.scatter", "error 25P02 current transaction is aborted, commands ignored until end of transaction block", ""},
			{"ROLLBACK", "", defaults},
			// Nobody sees this one before it is done.
			{"SELECT set_config('weft.scatter', 'may' || 'be', false)", "maybe", `ERROR: invalid value for parameter "weft.scatter": "maybe" (SQLSTATE 22023)`},
			{"RESET weft.scatter", "", defaults},
		}},
		{"transactions", []step{
			{"BEGIN", "", defaults},
			{"SET weft.scatter = off", "", "1073741824 false 0"},
			{"SHOW weft.scatter", "off", ""},
			{"ROLLBACK", "", defaults},
			{"SHOW weft.scatter", "on", ""},
			{"BEGIN", "", ""},
			{"SET weft.scatter = off", "", "1073741824 false 0"},
			{"COMMIT", "", ""},
			{"SHOW weft.scatter", "off", ""},
			{"BEGIN", "", ""},
			{"SET LOCAL weft.scatter = on", "", defaults},
			{"SHOW weft.scatter", "on", ""},
			{"SAVEPOINT a", "", ""},
			{"SET LOCAL weft.max_parallel_shards = 2", "", "1073741824 true 2"},
			{"ROLLBACK TO a", "", defaults},
			{"SHOW weft.max_parallel_shards", "0", ""},
			{"COMMIT", "", "1073741824 false 0"},
			{"SHOW weft.scatter", "off", ""},
			{"RESET weft.scatter", "", defaults},
		}},
		{"local alone", []step{
			{"BEGIN", "", ""},
			{"SET LOCAL weft.scatter = off", "", "1073741824 false 0"},
			{"COMMIT", "", defaults},
			{"SHOW weft.scatter", "on", ""},
		}},
		{"functions", []step{
			{"SELECT set_config('weft.max_gather_bytes', '2kB', false)", "2kB", "2048 true 0"},
			{"DO $$ BEGIN PERFORM set_config('weft.scatter', 'off', false); END $$", "", "2048 false 0"},
			{"BEGIN", "", ""},
			{"DO $$ BEGIN PERFORM set_config('weft.scatter', 'on', true); END $$", "", "2048 true 0"},
			{"COMMIT", "", "2048 false 0"},
			{"RESET ALL", "", defaults},
		}},
	} {
		for _, extended := range []bool{false, true} {
			t.Run(tc.name+map[bool]string{true: " extended"}[extended], func(t *testing.T) {
				db := database(t, "")
				p := &prober{}
				w := startWeft(t, pool.Config{}, p.watch)
				p.weft = w
				c := dial(t, w.addr, db)
				other := dial(t, w.addr, db)
				effect := defaults
				for _, s := range tc.steps {
					got := ""
					if extended {
						got = c.run(s.sql)
					} else {
						got = c.query(s.sql)
					}
					if got != s.want {
						t.Errorf("%s: %s, want %s", s.sql, got, s.want)
					}
					if s.effect != "" {
						effect = s.effect
					}
					if s.want != "" && strings.HasPrefix(s.want, "error 25P02") || c.status == 'E' {
						continue // nobody reads anything now
					}
					if got := p.options(c); got != effect {
						t.Errorf("%s: in effect is %s, want %s", s.sql, got, effect)
					}
					// Somebody else uses the backend and knows nothing of it.
					if got := other.query("SHOW weft.scatter"); got != "on" {
						t.Errorf("%s: another session has %s", s.sql, got)
					}
				}
			})
		}
	}
}

// TestOptionsAtLogin: options that roles, databases and clients bring along.
func TestOptionsAtLogin(t *testing.T) {
	db := database(t, "")
	p := &prober{}
	w := startWeft(t, pool.Config{}, p.watch, func(c *proxy.Config) {
		c.Gather = proxy.Gather{MaxBytes: 5 << 20, Off: true, MaxParallelShards: 7}
	})
	p.weft = w
	admin := dial(t, w.addr, db)
	admin.exec("CREATE ROLE " + db + "_joe LOGIN")
	t.Cleanup(func() { direct(t, db, "DROP ROLE "+db+"_joe") })
	look := func(want string, options ...string) {
		t.Helper()
		c := dial(t, w.addr, db, append([]string{"user", db + "_joe"}, options...)...)
		if got := p.options(c); got != want {
			t.Errorf("%q: %s, want %s", options, got, want)
		}
		// However they came, a RESET goes back to them.
		c.exec("SET weft.max_gather_bytes = 1")
		c.exec("RESET weft.max_gather_bytes")
		if got := p.options(c); got != want {
			t.Errorf("%q: after a RESET %s, want %s", options, got, want)
		}
		shown := c.exec("SELECT current_setting('weft.max_gather_bytes'), current_setting('weft.scatter'), current_setting('weft.max_parallel_shards')")
		f := strings.Split(shown, "|")
		n, err := proxy.ParseBytes(f[0])
		if err != nil || strconv.FormatInt(n, 10)+" "+map[string]string{"on": "true", "off": "false"}[f[1]]+" "+f[2] != want {
			t.Errorf("%q: it is shown %s, want %s (%v)", options, shown, want, err)
		}
	}
	look("5242880 false 7")
	look("5242880 true 7", "options", "-c weft.scatter=on")
	look("5242880 true 2", "options", `--weft.scatter=on -cweft.max_parallel_shards=2`)
	look("65536 false 7", "weft.max_gather_bytes", "64kB")
	admin.exec("ALTER ROLE " + db + "_joe SET weft.max_parallel_shards = 4")
	admin.exec("ALTER DATABASE " + db + " SET weft.scatter = on")
	look("5242880 true 4")
	look("5242880 false 4", "options", "-c weft.scatter=off")
	admin.exec("ALTER ROLE " + db + "_joe RESET ALL")
	admin.exec("ALTER DATABASE " + db + " RESET ALL")
	look("5242880 false 7")

	for _, options := range [][]string{{"options", "-c weft.scatter=maybe"}, {"weft.scatter", "maybe"}, {"options", `-c application_name=a\ b --weft.scatter=maybe`}} {
		_, err := tryDial(w.addr, db, options...)
		if err == nil || !strings.Contains(err.Error(), "22023") {
			t.Errorf("%q: %v", options, err)
		}
	}
}

// TestOptionsShareBackends: who sets them needs no backend of its own.
func TestOptionsShareBackends(t *testing.T) {
	db := database(t, "")
	w := startWeft(t, pool.Config{MaxPerShard: 1, QueueTimeout: 5 * time.Second})
	a, b := dial(t, w.addr, db), dial(t, w.addr, db)
	for range 3 {
		a.exec("SET weft.scatter = off")
		backend := a.exec("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = '" + db + "'")
		if got := b.exec("SHOW weft.scatter"); got != "on" {
			t.Errorf("another session has %s", got)
		}
		if got := b.query("SHOW weft.scatter"); got != "on" {
			t.Errorf("another session has %s on %s", got, backend)
		}
		if got := a.exec("SHOW weft.scatter"); got != "off" {
			t.Errorf("it has become %s", got)
		}
	}
	// A backend that was just closed is listed until its process ends.
	direct(t, db, `DO $$ BEGIN
		FOR i IN 1..100 LOOP
			PERFORM pg_stat_clear_snapshot();
			IF (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = current_database() AND pid <> pg_backend_pid()) <= 1 THEN RETURN; END IF;
			PERFORM pg_sleep(0.05);
		END LOOP;
		RAISE 'two backends';
	END $$`)
}

func TestParseBytes(t *testing.T) {
	for _, tc := range []struct {
		text string
		want int64
		show string
	}{
		{"0", 0, "0B"},
		{"1", 1, "1B"},
		{" 64MB ", 64 << 20, "64MB"},
		{"64 MB", 64 << 20, "64MB"},
		{"1.5kB", 1536, "1536B"},
		{"2TB", 2 << 40, "2TB"},
		{"0x10kB", 16 << 10, "16kB"},
		{"1e3", 1000, "1000B"},
		{"9223372036854775807", 1<<63 - 1, "9223372036854775807B"},
		{"64mb", -1, ""},
		{"MB", -1, ""},
		{"", -1, ""},
		{"1 2", -1, ""},
		{"99999999TB", -1, ""},
		{"-1", -1, ""},
	} {
		got, err := proxy.ParseBytes(tc.text)
		switch {
		case tc.text == "-1":
			if err != nil || got != -1 {
				t.Errorf("%q: %d, %v", tc.text, got, err)
			}
		case (err != nil) != (tc.want < 0) || err == nil && (got != tc.want || proxy.ShowBytes(got) != tc.show):
			t.Errorf("%q: %d %s, %v", tc.text, got, proxy.ShowBytes(got), err)
		}
	}
	if got := proxy.StartupWords(`-c  a=b\ c\\ --x=y `); !slices.Equal(got, []string{"-c", `a=b c\`, "--x=y"}) {
		t.Errorf("%q", got)
	}
}
