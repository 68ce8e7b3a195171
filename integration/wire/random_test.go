package wire_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	verify "weft/integration/pair"
	"weft/integration/wire"
)

var (
	dialogueTime = flag.Duration("dialogues", 4*time.Second, "how long random dialogues go on")
	dialogueSeed = flag.Uint64("seed", 1, "seed of the first random dialogue")
)

// TestDialogues has the dialogues of a file with both: a line with a name begins one, an
// empty line ends a batch. What weft refuses is called so.
func TestDialogues(t *testing.T) {
	text, err := os.ReadFile("dialogues.txt")
	if err != nil {
		t.Fatal(err)
	}
	p := newPair(t)
	for part := range strings.SplitSeq(string(text), "\n-- ") {
		name, rest, _ := strings.Cut(part, "\n")
		if strings.HasPrefix(name, "#") {
			continue
		}
		var d dialogue
		for batch := range strings.SplitSeq(strings.TrimSpace(rest), "\n\n") {
			d = append(d, strings.Split(batch, "\n"))
		}
		t.Run(name, func(t *testing.T) {
			diff, refusal := p.compare(d, 0)
			if strings.HasPrefix(name, "refused: ") != (refusal != "") || diff != "" {
				t.Errorf("weft answers differently:\n%s%s", diff, refusal)
			}
		})
	}
}

// TestRandomDialogues has random dialogues with PostgreSQL and with weft, whose database
// has sharded tables: every message of the answers must be the same.
func TestRandomDialogues(t *testing.T) {
	p := newPair(t)
	p.lenient = true
	p.move()
	refused, differ, n := map[string]int{}, 0, 0
	for begin, seed := time.Now(), *dialogueSeed; time.Since(begin) < *dialogueTime; seed++ {
		n++
		g := &talker{Rand: rand.New(rand.NewPCG(seed, 0))}
		d := g.dialogue()
		chunk := max(g.IntN(400)-350, 0)
		diff, refusal := p.compare(d, chunk)
		if refusal != "" {
			if refused[refusal]++; refused[refusal] == 1 {
				t.Logf("seed %d is refused: %s%s", seed, d, refusal)
			}
		}
		if diff == "" {
			continue
		}
		differ++
		small := p.shrink(d, chunk)
		if again, _ := p.compare(small, chunk); again != "" {
			diff = again
		}
		t.Errorf("seed %d (chunk %d): weft answers differently:\n%s%s", seed, chunk, small, diff)
	}
	// The cluster declares another reference table, which this database does not have.
	verify.Verified(t, p.fill[1].PgConn(), "r")
	t.Logf("%d dialogues, %d differ", n, differ)
	for why, n := range refused {
		t.Logf("refused %d times: %s", n, why)
	}
}

// pair is PostgreSQL and weft with the same tables.
type pair struct {
	t       *testing.T
	targets [2]*harness.Target
	fill    [2]*pgx.Conn
	lenient bool   // see excused
	move    func() // carries buckets meanwhile, if the flag says so
	changed bool   // the last dialogue may have changed the schema
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t, targets: [2]*harness.Target{harness.Postgres(t), harness.Routed(t)}}
	for i, target := range p.targets {
		target.Reset(t)
		p.fill[i] = target.Connect(t, "postgres")
		texts := dialogueTables
		if i == 1 {
			texts = append(slices.Clone(texts), "select weft.shard_table('d', 'id')", "select weft.shard_table('u', 'id')", "select weft.reference_table('r')")
		}
		p.run(i, append(texts, dialogueFunctions...))
	}
	p.move = func() { harness.KeepMoving(t, p.targets[1], p.fill[1].Config().Database) }
	t.Cleanup(func() {
		for i := range p.targets {
			p.run(i, []string{"drop table d, u, r, h", "drop function above, puts, few"})
		}
	})
	return p
}

func (p *pair) run(i int, texts []string) {
	p.t.Helper()
	for _, text := range texts {
		if _, err := p.fill[i].Exec(context.Background(), text, pgx.QueryExecModeSimpleProtocol); err != nil {
			p.t.Fatalf("%s: %s: %v", p.targets[i].Name, text, err)
		}
	}
}

// compare has a dialogue with both. It returns the first batch that is answered
// differently, or why weft refused something that PostgreSQL does.
func (p *pair) compare(d dialogue, chunk int) (diff, refusal string) {
	var scripts [2]*wire.Script
	if p.changed {
		for i := range p.targets {
			p.run(i, schemaBefore)
		}
	}
	p.changed = changesSchema.MatchString(d.String())
	for i, target := range p.targets {
		p.run(i, dialogueRows)
		scripts[i] = wire.NewScript(wireTarget(target))
		defer scripts[i].Close()
	}
	for _, batch := range d {
		var out [2]string
		for i, script := range scripts {
			var err error
			if out[i], err = script.Dialogue(batch, chunk); err != nil {
				p.t.Fatal(err)
			}
			out[i] = inFailed.ReplaceAllString(out[i], "$1")
		}
		got := withRoutines(out[0], out[1])
		switch why := refusedIn(got); {
		case got == out[0] && strings.Contains(got, "EOF\n"):
			return "", ""
		case got == out[0]:
			continue
		case why != "" && !strings.Contains(out[0], "C=0A000"):
			return "", why
		case p.lenient && excused(out[0], got):
			return "", ""
		}
		return "in\n" + strings.Join(batch, "\n") + "\nPostgreSQL:\n" + out[0] + "weft:\n" + got, ""
	}
	return "", ""
}

// changesSchema finds dialogues that may change the schema for those after them, and schemaBefore takes that back.
var (
	changesSchema = regexp.MustCompile(`alter table|create (table|view|index)`)
	schemaBefore  = []string{
		"drop table if exists nn", "drop view if exists vv", "drop index if exists dgx", "drop index if exists dgc",
		"alter table d drop column if exists z", "alter table h drop column if exists z", "comment on table d is null",
	}
)

// inFailed is what tells which message a failed transaction has not taken: that there is
// none it takes is told by weft, or by another message than the client's.
var inFailed = regexp.MustCompile(`( C=25P02 .*) R=\w+`)

// excused forgives that a statement without a result is not described in a failed
// transaction that no shard takes part in, as nobody knows the types of its parameters;
// that a portal may be gone when its client goes on without a Sync to another shard; and
// that what must be alone before a Sync, or the first, is, where weft has ended what came
// before; and that weft forgets portals of a failed transaction, which cannot be executed
// any more. Commands that need a block are not warned about in one of weft's own. Which of
// several keys is found to be taken first depends on where the rows that are inserted lie in
// their table; and of two tables that a role may not use, INSERT … SELECT names the one that
// it reads, as it has not come to the other.
func excused(want, got string) bool {
	wantLines, gotLines := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wantLines), len(gotLines)) {
		if wantLines[i] != gotLines[i] {
			want, got := wantLines[i], gotLines[i]
			failed := slices.Contains(wantLines[i:], "ReadyForQuery E")
			return strings.HasPrefix(want, "ParameterDescription") && strings.Contains(got, "C=25P02") ||
				anyKey.ReplaceAllString(want, "Key") == anyKey.ReplaceAllString(got, "Key") ||
				deniedTable.ReplaceAllString(want, "") == deniedTable.ReplaceAllString(got, "") ||
				strings.Contains(want, "C=42P03") && got == "BindComplete" ||
				strings.Contains(want, "cannot be executed within a pipeline") ||
				strings.Contains(want, "must be called before any query") ||
				failed && (strings.Contains(want+got, "C=34000") || strings.Contains(want, "C=08P01") && strings.Contains(got, "C=25P02")) ||
				strings.HasPrefix(want, "NoticeResponse") && strings.Contains(want, "can only be used in transaction blocks") ||
				strings.Contains(got, "C=34000")
		}
	}
	return false
}

var (
	anyKey      = regexp.MustCompile(`Key \(\w+\)=\(.*?\)`)
	deniedTable = regexp.MustCompile(`permission denied for table \w+`)
)

// refusedIn returns the message of the first refusal among answers.
func refusedIn(out string) string {
	for line := range strings.Lines(out) {
		if _, rest, ok := strings.Cut(line, "C=0A000 M="); ok {
			return rest
		}
	}
	return ""
}

// shrink leaves out of a dialogue what is not needed for a difference.
func (p *pair) shrink(d dialogue, chunk int) dialogue {
	differs := func(d dialogue) bool {
		diff, _ := p.compare(d, chunk)
		return diff != ""
	}
	for i := len(d) - 1; i >= 0; i-- {
		if less := slices.Delete(slices.Clone(d), i, i+1); len(less) > 0 && differs(less) {
			d = less
		}
	}
	for i := range d {
		for j := len(d[i]) - 2; j >= 0; j-- {
			less := slices.Clone(d)
			less[i] = slices.Delete(slices.Clone(d[i]), j, j+1)
			if !closesInRow(less[i]) && differs(less) {
				d = less
			}
		}
	}
	return d
}

func closesInRow(lines []string) bool {
	for i := 1; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "Close ") && strings.HasPrefix(lines[i-1], "Close ") {
			return true
		}
	}
	return false
}
