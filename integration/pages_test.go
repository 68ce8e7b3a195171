package integration

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

var rewritePages = flag.Bool("rewrite", false, "write what psql prints into the pages")

// TestPages does what the pages in docs/tasks say, with psql, on weft and on one PostgreSQL. In a page
//
//	```sql             is a block of statements that succeed; what they print is not shown
//	```sql refused     is one whose last statement weft refuses, with the text of the next block; PostgreSQL is not asked
//	```console         has statements after psql's prompt, and what weft answers
//	```console second  is the same in another session
//
// What weft answers is what the page says, and what PostgreSQL answers; in the end both have the same rows. Statements that only weft knows
// are left out on PostgreSQL.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("../docs/tasks/*.md")
	if err != nil || len(pages) < 7 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, file := range pages {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		t.Run(name, func(t *testing.T) {
			p := readPage(t, file)
			database := "page_" + strings.ReplaceAll(name, "-", "_")
			rows := map[string]string{}
			for _, target := range []*harness.Target{harness.Weft(t), harness.Postgres(t)} {
				target.ShowLogs(t)
				dropRoles(t, target, p.roles())
				target.CreatePrepared(t, database)
				p.play(t, target, database)
				rows[target.Name] = tableRows(t, target, database)
			}
			sameText(t, "rows", rows["postgres"], rows["weft"])
			if *rewritePages {
				if err := os.WriteFile(file, []byte(p.text()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// page is a page, cut where its blocks of code begin and end.
type page struct {
	parts []*part
}

// part is a block of code, or the prose between two.
type part struct {
	kind    string // what stands behind the back-quotes; prose has none
	code    bool
	text    string
	asked   []asked // of a console
	refused string  // how the answer to the last statement of a refused block begins
}

// asked is a statement with its prompts, and the answer to it.
type asked struct {
	lines  []string
	answer string
}

// prompt is psql's, in the first line of a statement and in others.
var (
	firstPrompt = regexp.MustCompile(`^app=[*!]?[#>] `)
	morePrompt  = regexp.MustCompile(`^app[-(\$'"][*!]?[#>] `)
)

func readPage(t *testing.T, file string) *page {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := &page{}
	cur := &part{}
	var refusing *part
	for line := range strings.Lines(string(text)) {
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !cur.code:
			p.parts = append(p.parts, cur)
			cur = &part{kind: strings.TrimSpace(kind), code: true}
		case fence:
			if cur.kind == "" && refusing != nil {
				refusing.refused, refusing = cur.text, nil
			}
			if cur.kind == "sql refused" {
				refusing = cur
			}
			cur.cut()
			p.parts = append(p.parts, cur)
			cur = &part{}
		default:
			cur.text += line
		}
	}
	if cur.code || refusing != nil {
		t.Fatalf("%s: a block does not end, or a refusal is not shown", file)
	}
	p.parts = append(p.parts, cur)
	for _, b := range p.parts {
		known := !b.code || slices.Contains([]string{"", "sql", "sql refused", "console", "console second"}, b.kind)
		if !known || b.code && b.kind == "" && strings.Contains(b.text, "app=") {
			t.Errorf("%s: a block of kind %q", file, b.kind)
		}
	}
	return p
}

// cut finds the statements of a console.
func (b *part) cut() {
	if !strings.HasPrefix(b.kind, "console") {
		return
	}
	for line := range strings.Lines(b.text) {
		n := len(b.asked) - 1
		switch {
		case firstPrompt.MatchString(line):
			b.asked = append(b.asked, asked{lines: []string{line}})
		case n >= 0 && b.asked[n].answer == "" && morePrompt.MatchString(line):
			b.asked[n].lines = append(b.asked[n].lines, line)
		case n >= 0:
			b.asked[n].answer += line
		}
	}
}

// text is the page as it was read, with new answers.
func (p *page) text() string {
	var out strings.Builder
	for _, b := range p.parts {
		if !b.code {
			out.WriteString(b.text)
			continue
		}
		out.WriteString(strings.TrimSpace("```"+b.kind) + "\n")
		if len(b.asked) == 0 {
			out.WriteString(b.text)
		}
		for i, a := range b.asked {
			out.WriteString(strings.Join(a.lines, ""))
			answer := strings.TrimRight(a.answer, "\n") + "\n"
			// As psql does, a line without anything separates rows from what follows them.
			if i+1 < len(b.asked) && strings.HasSuffix(answer, " rows)\n") || i+1 < len(b.asked) && strings.HasSuffix(answer, "(1 row)\n") {
				answer += "\n"
			}
			out.WriteString(answer)
		}
		out.WriteString("```\n")
	}
	return out.String()
}

var createRole = regexp.MustCompile(`(?m)^create role (\w+)`)

func (p *page) roles() (out []string) {
	for _, b := range p.parts {
		for _, m := range createRole.FindAllStringSubmatch(b.text, -1) {
			out = append(out, m[1])
		}
	}
	return out
}

// dropRoles drops the roles of a page after its database, which is dropped before.
func dropRoles(t *testing.T, target *harness.Target, roles []string) {
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
		defer stop()
		for _, s := range target.Shards() {
			conn, err := pgx.Connect(ctx, s.ConnString("postgres"))
			if err != nil {
				t.Error(err)
				continue
			}
			for _, role := range roles {
				if _, err := conn.Exec(ctx, "drop role if exists "+role); err != nil {
					t.Error(err)
				}
			}
			_ = conn.Close(ctx)
		}
	})
}

// play sends the statements of the page, and keeps what weft answers.
func (p *page) play(t *testing.T, target *harness.Target, database string) {
	sessions := map[string]*psqlSession{"": startPsql(t, target, database), "second": startPsql(t, target, database)}
	isWeft := target.Name == "weft"
	for _, b := range p.parts {
		switch b.kind {
		case "sql":
			text := b.text
			if !isWeft {
				text = onlyWeft.ReplaceAllString(text, "")
			}
			if said := sessions[""].ask(t, text); strings.Contains(said, "ERROR:") {
				t.Fatalf("%s:\n%s\n%s", target.Name, text, said)
			}
		case "sql refused":
			if isWeft {
				if said := sessions[""].ask(t, b.text); strings.Count(said, "ERROR:") != 1 || !strings.Contains(said, strings.TrimSpace(b.refused)) {
					t.Errorf("%s\n%s\nThe page has:\n%s", b.text, said, b.refused)
				}
			}
		case "console", "console second":
			_, which, _ := strings.Cut(b.kind, " ")
			for i := range b.asked {
				b.asked[i].play(t, sessions[which], isWeft)
			}
		}
	}
}

// onlyWeft are statements that PostgreSQL does not know.
var onlyWeft = regexp.MustCompile(`(?m)^select weft\..*;\n`)

func (a *asked) play(t *testing.T, s *psqlSession, isWeft bool) {
	var b strings.Builder
	for _, line := range a.lines {
		b.WriteString(line[strings.IndexAny(line, "#>")+2:])
	}
	text := b.String()
	explain := strings.HasPrefix(text, "explain")
	if !isWeft && (explain || strings.Contains(text, "from weft.") || strings.HasPrefix(text, "select weft.")) {
		return
	}
	said := s.ask(t, text)
	if isWeft && *rewritePages {
		a.answer = said
	}
	want, got := a.answer, said
	if !isWeft {
		want, got = notices.ReplaceAllString(want, ""), notices.ReplaceAllString(got, "")
	}
	if explain {
		want, got = shape(want), shape(got)
	}
	if want, got = same(want), same(got); want != got {
		t.Errorf("%s on %s says\n%s\nThe page has:\n%s", text, s.target, got, want)
	}
}

// notices are lines that weft adds.
var notices = regexp.MustCompile(`(?m)^NOTICE:.*\n(?:(?:DETAIL|HINT):.*\n)*`)

// varying are identifiers of jobs, and shards, which depend on the number of buckets.
var varying = regexp.MustCompile(`\b[0-9a-f]{16}\b|\bshard-\d+\b`)

func same(said string) string {
	var out []string
	for line := range strings.Lines(varying.ReplaceAllString(said, "X")) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// shape is what weft says in EXPLAIN: PostgreSQL's own plans depend on its version and on statistics.
func shape(said string) string {
	var out []string
	for line := range strings.Lines(said) {
		for _, word := range []string{"Weft ", "Shards: ", "Why: ", "NOTICE: ", "Output: "} {
			if strings.Contains(line, word) && !strings.Contains(line, "->") {
				out = append(out, line)
			}
		}
	}
	return strings.Join(out, "")
}

// psqlSession is a psql that waits for statements.
type psqlSession struct {
	target   string
	in       io.WriteCloser
	out, err *bufio.Reader
}

func startPsql(t *testing.T, target *harness.Target, database string) *psqlSession {
	program := target.Home.Config().Install.Program("psql")
	if _, err := os.Stat(program); err != nil {
		program = "psql" // a server without it: any does
	}
	// A session lasts as long as its page.
	ctx, stop := context.WithTimeout(context.Background(), 3*pgtest.Patience)
	cmd := exec.CommandContext(ctx, program, "-X", "-d", database)
	cmd.Env = target.Env()
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	serr, err3 := cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // psql ends
		_ = cmd.Wait()
		stop()
	})
	return &psqlSession{target: target.Name, in: in, out: bufio.NewReader(out), err: bufio.NewReader(serr)}
}

// ask sends a text and returns what is printed: first messages, then rows, as psql shows them.
func (s *psqlSession) ask(t *testing.T, text string) string {
	t.Helper()
	const mark = "-- that was all"
	if _, err := fmt.Fprintf(s.in, "%s\n\\echo %s\n\\warn %s\n", text, mark, mark); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for _, r := range []*bufio.Reader{s.err, s.out} {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: psql: %v\n%s", s.target, err, said.String())
			}
			if strings.TrimSpace(line) == mark {
				break
			}
			said.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
	}
	return said.String()
}

// tableRows are the rows of all tables, without points in time.
func tableRows(t *testing.T, target *harness.Target, database string) string {
	ctx, stop := context.WithTimeout(t.Context(), pgtest.Patience)
	defer stop()
	conn := target.Connect(t, "postgres", "dbname="+database)
	tables, err := conn.Query(ctx, `select table_name::text, string_agg(quote_ident(column_name), ', ' order by ordinal_position)
		from information_schema.columns join information_schema.tables using (table_schema, table_name)
		where table_schema = 'public' and table_type = 'BASE TABLE' and data_type not in ('timestamp with time zone', 'uuid')
		group by 1 order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	type table struct{ Name, Columns string }
	list, err := pgx.CollectRows(tables, pgx.RowToStructByPos[table])
	if err != nil || len(list) == 0 {
		t.Fatalf("%d tables, %v", len(list), err)
	}
	var out strings.Builder
	for _, tab := range list {
		var rows strings.Builder
		if _, err := conn.PgConn().CopyTo(ctx, &rows, fmt.Sprintf("copy (select %s from %s) to stdout", tab.Columns, tab.Name)); err != nil {
			t.Fatal(err)
		}
		lines := slices.Sorted(strings.Lines(rows.String()))
		if len(lines) == 0 && tab.Name == "log" {
			continue // of a refused block
		}
		fmt.Fprintf(&out, "%s (%s)\n%s", tab.Name, tab.Columns, strings.Join(lines, ""))
	}
	return out.String()
}
