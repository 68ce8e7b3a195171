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
func TestRandomDialogues(t *testing.T) { randomDialogues(t, (*talker).dialogue) }

// TestRandomPortals has dialogues that bind portals and execute them in other orders, or never.
func TestRandomPortals(t *testing.T) { randomDialogues(t, (*talker).portals) }

func randomDialogues(t *testing.T, makeUp func(*talker) dialogue) {
	p := newPair(t)
	p.lenient = true
	p.move()
	refused, differ, n := map[string]int{}, 0, 0
	for begin, seed := time.Now(), *dialogueSeed; time.Since(begin) < *dialogueTime; seed++ {
		n++
		g := &talker{Rand: rand.New(rand.NewPCG(seed, 0))}
		d := makeUp(g)
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
	for why, n := range p.forgiven {
		t.Logf("forgiven %d times: %s", n, why)
	}
}

// pair is PostgreSQL and weft with the same tables.
type pair struct {
	t        *testing.T
	targets  [2]*harness.Target
	fill     [2]*pgx.Conn
	lenient  bool           // see excused
	move     func()         // carries buckets meanwhile, if the flag says so
	changed  [2]bool        // the last dialogue may have changed the schema
	forgiven map[string]int // how often excused has forgiven what
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t, forgiven: map[string]int{}, targets: [2]*harness.Target{harness.Postgres(t), harness.Routed(t)}}
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
// differently, or why weft refused something that PostgreSQL does. Behind a refusal weft must
// answer, and leave the tables, as PostgreSQL does if the same message fails.
func (p *pair) compare(d dialogue, chunk int) (diff, refusal string) {
	got, want := p.have(1, d, chunk), p.have(0, d, chunk)
	said := d
	for i := range got {
		got[i] = withRoutines(want[i], got[i])
		why := refusedIn(got[i])
		switch {
		case got[i] == want[i] && strings.Contains(got[i], "EOF\n"):
			return "", refusal
		case got[i] == want[i]:
			continue
		case why != "" && !strings.Contains(want[i], "C=0A000"):
			if refusal == "" {
				refusal = why
			}
			failing, answers := p.failing(said, i, got[i], chunk)
			if failing != nil {
				said, want = failing, answers
				continue
			}
			if !p.lenient || severalRefused(d[i]) {
				return "", refusal
			}
		case p.lenient && excused(want[i], got[i]):
			p.forgiven[firstDifference(want[i], got[i])]++
			return "", refusal
		}
		about := "the rows afterwards"
		if i < len(d) {
			about = strings.Join(d[i], "\n")
		}
		return "in\n" + about + "\nPostgreSQL:\n" + want[i] + "weft:\n" + got[i], refusal
	}
	return "", refusal
}

// have has a dialogue with one of both. It returns the answers to each batch, and then the rows of the tables.
func (p *pair) have(i int, d dialogue, chunk int) (answers []string) {
	if p.changed[i] {
		p.run(i, schemaBefore)
	}
	p.changed[i] = changesSchema.MatchString(d.String())
	p.run(i, dialogueRows)
	script := wire.NewScript(wireTarget(p.targets[i]))
	defer script.Close()
	ask := func(batch []string, chunk int) {
		out, err := script.Dialogue(batch, chunk)
		if err != nil {
			p.t.Fatal(err)
		}
		answers = append(answers, inFailed.ReplaceAllString(out, "$1"))
	}
	for _, batch := range d {
		ask(batch, chunk)
	}
	script.Close()
	ask(rowsAfterwards, 0)
	return answers
}

var rowsAfterwards = []string{
	"Query select id, g, v from d order by id", "Query select * from u order by id", "Query select * from r order by id", "Query select * from h order by id",
}

// failing returns the dialogue with a message of batch i that fails in PostgreSQL, and PostgreSQL's answers: the message
// for which batch i is answered as weft has answered it, which has refused one. It returns nil if there is no such message.
func (p *pair) failing(d dialogue, i int, got string, chunk int) (dialogue, []string) {
	if i >= len(d) {
		return nil, nil
	}
	for j, line := range d[i] {
		fails := "Describe S refused"
		if strings.HasPrefix(line, "Query ") {
			fails = "Query select refused"
		}
		if strings.HasPrefix(line, "Copy") || line == "Sync" {
			continue
		}
		failing := slices.Clone(d)
		failing[i] = slices.Clone(d[i])
		failing[i][j] = fails
		want := p.have(0, failing, chunk)
		if refusals.ReplaceAllString(want[i], "refused") == refusals.ReplaceAllString(withRoutines(want[i], got), "refused") {
			return failing, want
		}
	}
	return nil, nil
}

// refusals finds what failing has PostgreSQL say, and what weft says in its place.
var refusals = regexp.MustCompile(`ErrorResponse .*(C=0A000|M="[^"]*\\"refused\\").*`)

// severalRefused reports whether a batch has texts of several statements, of which weft may have refused any, or a
// pipeline that a Sync ends, at which weft may have refused to commit.
func severalRefused(batch []string) bool {
	return slices.ContainsFunc(batch, func(line string) bool { return strings.HasPrefix(line, "Query ") && strings.Contains(line, ";") })
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
// it reads, as it has not come to the other. A command that must be alone is refused if another text was parsed after its
// Bind, for which weft has opened a block.
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
				strings.HasPrefix(want, "CommandComplete") && strings.Contains(got, "cannot run inside a transaction block") ||
				strings.Contains(got, "C=34000")
		}
	}
	return false
}

var (
	anyKey      = regexp.MustCompile(`Key \(\w+\)=\(.*?\)`)
	deniedTable = regexp.MustCompile(`permission denied for table \w+`)
)

// firstDifference is where answers differ.
func firstDifference(want, got string) string {
	wantLines, gotLines := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wantLines), len(gotLines)) {
		if wantLines[i] != gotLines[i] {
			return wantLines[i] + " / " + gotLines[i]
		}
	}
	return ""
}

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
