package dashboard

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
)

// withStandbys starts another cluster, in which each shard has a standby. The browser is the one of all tests.
func withStandbys(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-servers-")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{program: theWorld.program, browser: theWorld.browser}
	t.Cleanup(func() {
		if w.stopDev != nil {
			w.stopDev()
		}
		_ = os.RemoveAll(dir)
	})
	if err := w.startDev(dir, "--replicas", "1", "--demo=false"); err != nil {
		t.Fatal(err)
	}
	return w
}

// addresses returns the servers of the cluster.
func (w *world) addresses(t *testing.T) []string {
	t.Helper()
	rows, err := w.conn(t).Query(t.Context(), "select address from weft.replicas order by address")
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// field is a script that returns a text of a table: that of a column, in the row in which another column has some text.
func field(view, column, where, is string) string {
	return fmt.Sprintf("%s[%s.indexOf(%q)]", texts(view, column), texts(view, where), is)
}

// The page of servers lists all of them, with and without scripts. A page that is open shows a failover.
func TestServers(t *testing.T) {
	w := withStandbys(t)
	b := w.tab(t)
	b.visit("servers")
	b.await("events", live)
	b.await("two primaries and two standbys", fmt.Sprintf("%s.sort().join() === 'primary,primary,standby,standby'", texts("replicas", "state")))
	listed := eval[[]string](b, texts("replicas", "address"))
	slices.Sort(listed)
	if want := w.addresses(t); len(want) != 4 || !slices.Equal(listed, want) {
		t.Errorf("%v are listed, of %v", listed, want)
	}
	b.await("all states coloured as good", "document.querySelectorAll('[data-table=replicas] td.tone-good').length === 4")
	plain := w.tab(t, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	plain.visit("servers")
	html, err := chromedp.Run(plain.ctx, chromedp.OuterHTML("html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(listed, "steady", "Failovers") {
		if !strings.Contains(html, text) {
			t.Errorf("without scripts %q is missing", text)
		}
	}

	b.await("the primary of shard-1", field("shards", "primary_state", "name", "shard-1")+" === 'steady'")
	eval[bool](b, "window.opened = true")
	old := eval[string](b, field("shards", "primary_address", "name", "shard-1"))
	b.await("a synchronous standby of shard-1, without which weft dev promotes none", fmt.Sprintf("%s === 'sync'", field("replicas", "sync", "address", old)))
	if out, err := exec.CommandContext(t.Context(), w.program, "dev", "kill", "shard-1", "--dir", w.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	took := b.await("another primary of shard-1", fmt.Sprintf("(() => { const a = %s; return a !== undefined && a !== %q && a.includes(':'); })()", field("shards", "primary_address", "name", "shard-1"), old))
	t.Logf("the new primary is shown after %v", took)
	b.await("the failover", fmt.Sprintf("%s === %q", field("failovers", "from_address", "shard", "shard-1"), old))
	b.await("the old primary as a standby of the new timeline", fmt.Sprintf("%s === 'standby' && %s === '2'", field("replicas", "state", "address", old), field("replicas", "timeline", "address", old)))
	if !eval[bool](b, "window.opened === true") {
		t.Error("the page was loaded again")
	}
}
