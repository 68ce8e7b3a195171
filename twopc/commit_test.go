package twopc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestCommit plays what happens to a commit and writes down what it asks for. Each
// line of the input is an event:
//
//	begin 2          two participants beside the deciding shard; after them one that has
//	                 only read with "reader"; "announces" if schemas change
//	alone 2          two participants that have nothing to keep, and no decision
//	decided ok       the row of the decision: ok, refused, failed, lost
//	announced ok     the directory has been told
//	voted 0 lost     PREPARE on a participant
//	committed lost   COMMIT on the deciding shard
//	arbitrated open  what the deciding shard knows: committed, aborted, open
//	followed 1 ok    what a participant was ordered at the end
//	finished 1 ok    COMMIT PREPARED through another connection
//	hold             the deciding shard is to prepare instead of committing
//
// Lines of the output: the event, what is to be done now, and the participants.
func TestCommit(t *testing.T) {
	datadriven.RunTest(t, "testdata/commit", func(t *testing.T, d *datadriven.TestData) string {
		var c Commit
		var out strings.Builder
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			do := play(t, &c, strings.Fields(line))
			fmt.Fprintf(&out, "%-16s → %s\n", line, describe(&c, do))
		}
		fmt.Fprintf(&out, "outcome: %s, settled: %v\n", c.Outcome(), c.Settled())
		return out.String()
	})
}

func play(t *testing.T, c *Commit, w []string) Do {
	t.Helper()
	last := w[len(w)-1]
	var i int
	if len(w) > 1 {
		_, _ = fmt.Sscan(w[1], &i)
	}
	switch w[0] {
	case "begin":
		parts := make([]Part, i)
		if slices.Contains(w, "reader") {
			parts = append(parts, Reader)
		}
		return c.Begin(parts, slices.Contains(w, "announces"))
	case "alone":
		return c.BeginAlone(i)
	case "hold":
		c.Hold()
		return CommitNow
	case "decided":
		return c.Decided(answerNamed(t, last))
	case "voted":
		return c.Voted(i, answerNamed(t, last))
	case "announced":
		return c.Announced(answerNamed(t, last))
	case "committed":
		return c.Committed(answerNamed(t, last))
	case "arbitrated":
		return c.Arbitrated(map[string]Outcome{"committed": Committed, "aborted": Aborted, "open": Open}[last])
	case "followed":
		return c.Followed(i, answerNamed(t, last))
	case "finished":
		return c.Finished(i, last == "ok")
	}
	t.Fatalf("unknown event %v", w)
	return Wait
}

func answerNamed(t *testing.T, name string) Answer {
	t.Helper()
	for a, n := range answers {
		if n == name {
			return Answer(a)
		}
	}
	t.Fatalf("unknown answer %q", name)
	return Lost
}

func describe(c *Commit, do Do) string {
	s := do.String()
	for i := range c.parts {
		s += fmt.Sprintf("  %d %s", i, c.Part(i))
		if do == Prepare || do == Follow || do == Undo {
			s += ": " + c.Order(i).String()
		}
	}
	return s
}

// TestCommitNeverHalves plays every sequence of events with up to three
// participants. Whatever happens, nobody is told to commit unless the deciding
// shard has, nobody is told to roll back if it may have, every promise is
// redeemed or left in doubt, and what is settled has nobody left who waits.
func TestCommitNeverHalves(t *testing.T) {
	for n := range 4 {
		for _, decided := range []Answer{OK, Refusal, Failed, Lost} {
			votes(n, func(vote []Answer) {
				for _, committed := range []Answer{OK, Refusal, Failed, Lost} {
					for _, arbitrated := range []Outcome{Open, Committed, Aborted} {
						votes(n, func(ends []Answer) { playWhole(t, n, decided, vote, committed, arbitrated, ends) })
					}
				}
			})
		}
	}
}

// votes calls f with every combination of n answers.
func votes(n int, f func([]Answer)) {
	v := make([]Answer, n)
	for {
		f(v)
		i := 0
		for ; i < n && v[i] == Lost; i++ {
			v[i] = OK
		}
		if i == n {
			return
		}
		v[i]++
	}
}

func playWhole(t *testing.T, n int, decided Answer, vote []Answer, committed Answer, arbitrated Outcome, ends []Answer) {
	t.Helper()
	var c Commit
	do := c.Begin(make([]Part, n), false)
	if do != Decide {
		t.Fatalf("begins with %v", do)
	}
	asked, truth := false, Aborted // truth: what became of the deciding transaction
	do = c.Decided(decided)
	if do == Prepare {
		asked = true
		for i := range n {
			if do != Prepare && do != Wait {
				t.Fatalf("%v before all have voted", do)
			}
			do = c.Voted(i, vote[i])
		}
	}
	if do == CommitNow {
		for i := range n {
			if vote[i] != OK {
				t.Fatalf("commits although %d did not prepare", i)
			}
		}
		do = c.Committed(committed)
		if committed == OK {
			truth = Committed
		}
	}
	if do == Arbitrate {
		do = c.Arbitrated(arbitrated)
		truth = arbitrated
	}
	for i := range n {
		switch o := c.Order(i); {
		case o == CommitPrepared && truth != Committed, (o == RollbackPrepared || o == Rollback) && truth != Aborted:
			t.Fatalf("%v when the deciding shard has %v", o, truth)
		case o == None && asked && vote[i] == OK && truth != Open:
			t.Fatalf("participant %d has prepared and is told nothing", i)
		}
	}
	if do == Follow || do == Undo {
		for i := range n {
			if c.Order(i) != None {
				do = c.Followed(i, ends[i])
			}
		}
		for i := range n {
			if do == Finish && c.Part(i) == Unclear {
				do = c.Finished(i, false)
			}
		}
		if do != Done && do != Undo {
			t.Fatalf("ends with %v", do)
		}
	} else if do != Leave && do != Done {
		t.Fatalf("stands at %v", do)
	}
	if c.Outcome() != truth {
		t.Fatalf("%v is taken for %v", truth, c.Outcome())
	}
	for i := range n {
		if c.Settled() && asked && (vote[i] == Lost || vote[i] == OK && ends[i] != OK) {
			t.Fatalf("settled, and %d may be prepared", i)
		}
	}
}
