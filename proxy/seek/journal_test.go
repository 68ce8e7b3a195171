package seek

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weft/primary"
)

// page is a journal, its clock and what it has logged.
type page struct {
	*journal
	judge primary.Judge
	was   *primary.View
	at    time.Time
	holds bool // clients do not go on, because a settlement is under way
	log   bytes.Buffer
}

func newPage(hosts ...string) *page {
	p := &page{at: time.Unix(1000, 0)}
	p.journal = newJournal(slog.New(slog.NewTextHandler(&p.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), "s")
	p.judge.SetHosts(hosts, p.at)
	p.was = p.judge.View(p.at)
	return p
}

// see lets a time pass and a probe see a server: "primary 2", "standby 1", or why it does not answer.
func (p *page) see(after time.Duration, address, says string) {
	p.at = p.at.Add(after)
	s := primary.Sighting{Kind: map[string]primary.Kind{"primary": primary.Primary, "standby": primary.Standby, "refuses": primary.Refused, "silent": primary.Silent}[strings.Fields(says)[0]], At: p.at}
	if f := strings.Fields(says); len(f) > 1 {
		var timeline, lsn int
		fmt.Sscan(f[1], &timeline)
		if lsn = 0x100; len(f) > 2 {
			fmt.Sscan(f[2], &lsn)
		}
		s.Generation, s.LSN, s.Started = primary.Generation{System: "7", Timeline: uint32(timeline)}, primary.LSN(lsn), time.Unix(int64(address[0]), 0)
		if timeline > 1 {
			s.Generation.Fork = primary.LSN(address[0])
		}
	}
	p.judge.See(address, s, p.at)
	now := p.judge.View(p.at)
	p.note(p.was, now, p.at)
	if now.Open() && !p.holds {
		p.opened(p.at)
	}
	p.look(now, 10*time.Second, p.at)
	p.was = now
}

// says checks what was logged since the last time.
func (p *page) says(t *testing.T, want ...string) {
	t.Helper()
	got := strings.Split(strings.TrimSuffix(p.log.String(), "\n"), "\n")
	p.log.Reset()
	if len(want) == 0 && got[0] == "" {
		return
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, not %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("\n%s, not\n%s", got[i], want[i])
		}
	}
}

// TestJournal: the log has one line when a shard loses its primary, and one with everything in it when it has one again.
func TestJournal(t *testing.T) {
	p := newPage("a:1", "b:1")
	p.see(0, "a:1", "primary 1")
	p.see(0, "b:1", "standby 1")
	p.says(t)
	p.see(time.Second, "a:1", "silent")
	p.says(t, `level=WARN msg="a shard has no primary: clients wait for one" shard=s reason="a:1 does not answer" state=seeking servers="a:1 does not answer; b:1 is a standby"`)
	p.see(time.Second, "a:1", "refuses")
	p.see(time.Second, "a:1", "silent")
	p.says(t)
	p.see(time.Second, "a:1", "primary 1")
	p.says(t, `level=INFO msg="a shard has its primary again" shard=s primary=a:1 timeline=1 pause=3s`)

	p.see(time.Second, "a:1", "refuses")
	p.says(t, `level=WARN msg="a shard has no primary: clients wait for one" shard=s reason="a:1 refuses connections" state=seeking servers="a:1 refuses connections; b:1 is a standby"`)
	p.see(1500*time.Millisecond, "b:1", "primary 2")
	p.says(t, `level=WARN msg="a shard has another primary" shard=s from=a:1 to=b:1 timeline=2 fork=0/62 generation=7/2@0/62 pause=1.5s`)
	p.see(time.Second, "a:1", "primary 1")
	p.says(t, `level=ERROR msg="a server is a primary and not the shard's: nothing is sent there" shard=s address=a:1 is=stale generation=7/1 "shard is at"=7/2@0/62`)
	p.see(time.Second, "a:1", "refuses")
	p.see(time.Second, "a:1", "primary 1")
	p.says(t)

	a := p.account(p.was, p.at)
	if promoted, returned := a.Promoted.Read(), a.Returned.Read(); a.Sought != 4500*time.Millisecond || promoted.Count != 1 || promoted.Sum != int64(1500*time.Millisecond) || returned.Count != 1 || returned.Sum != int64(3*time.Second) {
		t.Errorf("%+v, %+v, %+v", a, promoted, returned)
	}
	p.see(time.Second, "b:1", "refuses")
	if a := p.account(p.was, p.at.Add(time.Second)); a.Sought != 5500*time.Millisecond {
		t.Errorf("a search that goes on: %v", a.Sought)
	}
}

// TestPause: a pause ends when clients go on, not when a primary is known.
func TestPause(t *testing.T) {
	p := newPage("a:1", "b:1", "c:1")
	p.see(0, "a:1", "primary 1")
	p.see(0, "b:1", "standby 1")
	p.see(0, "c:1", "standby 1")
	p.see(time.Second, "a:1", "refuses")
	p.log.Reset()
	p.holds = true
	p.see(time.Second, "b:1", "primary 2")
	if _, over := p.paused(); over {
		t.Error("the pause is over before the settlement")
	}
	p.see(time.Second, "b:1", "refuses") // before the settlement ends
	p.see(time.Second, "c:1", "primary 3")
	p.says(t)
	p.at = p.at.Add(time.Second)
	p.opened(p.at)
	p.says(t, `level=WARN msg="a shard has another primary" shard=s from=a:1 to=c:1 timeline=3 fork=0/63 generation=7/3@0/63 pause=4s`)
	if pause, over := p.paused(); pause != 4*time.Second || !over {
		t.Error(pause, over)
	}
	a := p.account(p.was, p.at)
	if promoted := a.Promoted.Read(); a.Sought != 2*time.Second || promoted.Count != 1 || promoted.Sum != int64(4*time.Second) {
		t.Errorf("%+v, %+v", a, promoted)
	}
	p.opened(p.at)
	p.says(t)
}

// TestHeard: a failover of which the directory knew first is a failover.
func TestHeard(t *testing.T) {
	p := newPage("a:1", "b:1")
	p.see(0, "a:1", "primary 1")
	p.see(0, "b:1", "standby 1")
	p.judge.Know(primary.Generation{System: "7", Timeline: 2, Fork: 'b'}, p.at)
	p.see(time.Second, "b:1", "primary 2")
	p.says(t, `level=ERROR msg="a server is a primary and not the shard's: nothing is sent there" shard=s address=a:1 is=stale generation=7/1 "shard is at"=7/2@0/62`,
		`level=WARN msg="a shard has another primary" shard=s from=a:1 to=b:1 timeline=2 fork=0/62 generation=7/2@0/62 pause=0s`)
}

// TestSplit: two primaries of one timeline are an error of their own.
func TestSplit(t *testing.T) {
	p := newPage("a:1", "b:1", "c:1")
	p.see(0, "a:1", "primary 1")
	p.see(0, "b:1", "standby 1")
	p.see(0, "c:1", "standby 1")
	p.see(time.Second, "a:1", "refuses")
	p.log.Reset()
	p.see(time.Second, "b:1", "primary 2")
	p.log.Reset()
	p.see(time.Second, "c:1", "primary 2")
	lines := strings.Split(p.log.String(), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "level=ERROR") || !strings.Contains(lines[1], "weft shard accept") || !strings.Contains(lines[1], "b:1") || !strings.Contains(lines[1], "c:1") {
		t.Errorf("%q", lines)
	}
}

// TestLag: the log tells once of a standby that is behind, and once that it has caught up; and the same if it is away.
func TestLag(t *testing.T) {
	p := newPage("a:1", "b:1")
	p.see(0, "a:1", "primary 1 100")
	p.see(0, "b:1", "standby 1 100")
	for lsn := 200; lsn < 400; lsn += 10 {
		p.see(time.Second, "a:1", fmt.Sprint("primary 1 ", lsn))
		p.see(0, "b:1", "standby 1 100")
	}
	p.says(t, `level=WARN msg="a standby is far behind" shard=s address=b:1 lag=11s bytes=210 limit=10s`)
	p.see(time.Second, "b:1", "standby 1 310") // 9 seconds behind: more than half of the limit
	p.says(t)
	p.see(time.Second, "b:1", "standby 1 390")
	p.says(t, `level=INFO msg="a standby has caught up" shard=s address=b:1 after=10s`)
	p.see(time.Second, "b:1", "refuses")
	p.see(time.Second, "b:1", "silent")
	p.says(t)
	p.see(awayAfter, "b:1", "refuses")
	p.see(awayAfter, "b:1", "refuses")
	p.says(t, `level=WARN msg="a standby of a shard is away" shard=s address=b:1 reason="refuses connections"`)
	p.see(time.Second, "b:1", "standby 1 390")
	p.says(t, `level=INFO msg="a server of a shard is back" shard=s address=b:1 is=standby`)
}

// TestFlood: a server that comes and goes does not fill the log.
func TestFlood(t *testing.T) {
	p := newPage("a:1")
	p.see(0, "a:1", "primary 1")
	for range 100 {
		p.see(100*time.Millisecond, "a:1", "silent")
		p.see(100*time.Millisecond, "a:1", "primary 1")
	}
	if n := strings.Count(p.log.String(), "\n"); n != 2*lineLimit {
		t.Errorf("%d lines:\n%s", n, &p.log)
	}
	p.log.Reset()
	p.see(lineWindow, "a:1", "silent")
	if text := p.log.String(); !strings.Contains(text, fmt.Sprint("unsaid=", 100-lineLimit)) {
		t.Error(text)
	}
}
