package analytics

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
)

var (
	scale  = flag.Int("scale", 0, "time the questions on this many times the rows of the tests (make bench-analytics)")
	timed  = flag.String("layouts", strings.Join(layouts, ","), "time weft in these layouts")
	rounds = flag.Int("rounds", 3, "times each question is put to each side; the median counts")
)

// side is one place that a question is timed at.
type side struct {
	name string
	conn *pgconn.PgConn
	sum  time.Duration // of the questions that both it and the plain server answered
	base time.Duration // the plain server's for the same questions
}

// TestTiming prints what each question takes through weft, in each layout, and
// on one PostgreSQL with the same rows. The sides take turns, so that whatever
// else runs on the machine hits them alike.
func TestTiming(t *testing.T) {
	if *scale == 0 {
		t.Skip("takes minutes; make bench-analytics runs it")
	}
	weft := harness.StartProgram(t, func(*config.Config) {})
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			target := harness.Postgres(t)
			sides := []*side{{name: "postgres", conn: dial(t, target.ConnString("postgres", "dbname="+s.loadFor(t, target, "")))}}
			for layout := range strings.SplitSeq(*timed, ",") {
				conn := dial(t, weft.ConnString("postgres", "dbname="+s.loadFor(t, weft.Target, layout)))
				sides = append(sides, &side{name: layout, conn: conn})
			}
			s.time(t, sides)
		})
	}
}

// loadFor loads at the scale of the run and says so: it takes longest.
func (s suite) loadFor(t *testing.T, target *harness.Target, layout string) string {
	t.Helper()
	fmt.Fprintf(os.Stderr, "# loading %s at scale %d: %s %s\n", s.name, *scale, target.Name, layout)
	database := s.load(t, target, layout, *scale, forward)
	onAll(t, target.Shards(), database, "checkpoint")
	return database
}

// time puts every question to all sides and prints a line for each.
func (s suite) time(t *testing.T, sides []*side) {
	out := os.Stdout
	fmt.Fprintf(out, "\n%s, scale %d, median of %d: ms on PostgreSQL; ms and times that through weft\n\n%-6s%10s", s.name, *scale, *rounds, "", sides[0].name)
	for _, side := range sides[1:] {
		fmt.Fprintf(out, "%12s%8s", side.name, "×")
	}
	fmt.Fprintln(out)
	holes := 0
	for _, q := range s.queries(t) {
		took, notes := q.time(sides, *rounds)
		line := fmt.Sprintf("%-6s%10s", q.name, millis(took[0]))
		for i, side := range sides[1:] {
			d := took[i+1]
			if d == 0 || took[0] == 0 {
				line += fmt.Sprintf("%12s%8s", "failed", "–")
				continue
			}
			side.sum += d
			side.base += took[0]
			line += fmt.Sprintf("%12s%8.2f", millis(d), d.Seconds()/took[0].Seconds())
		}
		fmt.Fprintf(out, "%s   %s\n", line, q.title)
		for _, n := range notes {
			fmt.Fprintf(out, "       %s\n", n)
		}
		holes += len(notes)
	}
	if holes > 0 {
		t.Errorf("%d answers are missing or wrong", holes)
	}
	for _, side := range sides[1:] {
		if side.base > 0 {
			fmt.Fprintf(out, "in all %s: PostgreSQL %s ms, weft %s ms, %.2f times\n", side.name, millis(side.base), millis(side.sum), side.sum.Seconds()/side.base.Seconds())
		}
	}
}

// time is the median per side, 0 where the answer was an error or a wrong one;
// the notes say which. A first time that does not count warms caches up.
func (q query) time(sides []*side, rounds int) (took []time.Duration, notes []string) {
	took = make([]time.Duration, len(sides))
	times := make([][]time.Duration, len(sides))
	failed := make([]bool, len(sides))
	var want answer
	for round := range rounds + 1 {
		for i, side := range sides {
			if failed[i] {
				continue
			}
			began := time.Now()
			got, err := ask(side.conn, simple, q.sql)
			d := time.Since(began)
			wrong := ""
			if err != nil {
				wrong = err.Error()
			} else if i == 0 {
				want = got
			} else if round == 0 && !failed[0] {
				wrong = diff(want, got)
			}
			if wrong != "" {
				failed[i] = true
				notes = append(notes, side.name+": "+strings.ReplaceAll(wrong, "\n", " "))
				continue
			}
			if round > 0 {
				times[i] = append(times[i], d)
			}
		}
	}
	for i, list := range times {
		if !failed[i] {
			slices.Sort(list)
			took[i] = list[len(list)/2]
		}
	}
	return took, notes
}

func millis(d time.Duration) string {
	if d == 0 {
		return "failed"
	}
	return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond))
}
