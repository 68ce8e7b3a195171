//go:build regress

package regress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"testing"
	"time"

	"weft/integration/harness"
)

// database is where the scripts run: some of them know its name.
const database = "regression"

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// TestScripts runs every script on both targets.
func TestScripts(t *testing.T) {
	direct, weft := harness.Postgres(t), harness.Weft(t)
	if *churnFlag {
		weft = startNarrow(t)
	}
	st := newStage(t, direct.Home.Config().Install)
	scripts, err := readSchedule(filepath.Join(st.scripts, "parallel_schedule"))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []*harness.Target{direct, weft} {
		target.CreateDatabase(t, database)
		if err := target.Admin(t.Context(), databaseSettings); err != nil {
			t.Fatalf("%s: %v", target.Name, err)
		}
	}
	out := *outFlag
	if out == "" {
		out = t.TempDir()
	}
	if *churnFlag {
		startChurn(t, weft)
	}
	for _, script := range scripts {
		t.Run(script, func(t *testing.T) {
			said, file := map[*harness.Target][]byte{}, map[*harness.Target]string{}
			for _, target := range []*harness.Target{direct, weft} {
				said[target] = run(t, st, target, script)
			}
			said[weft] = accept(script, said[weft])
			for target, text := range said {
				file[target] = filepath.Join(out, script+"."+target.Name)
				if err := os.WriteFile(file[target], text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(said[direct], said[weft]) {
				t.Errorf("weft's answers differ:\n%s", diff(t, file[direct], file[weft]))
			}
		})
	}
}

// databaseSettings are those that the scripts' own runner makes.
const databaseSettings = `
alter database ` + database + ` set lc_messages to 'C';
alter database ` + database + ` set lc_monetary to 'C';
alter database ` + database + ` set lc_numeric to 'C';
alter database ` + database + ` set lc_time to 'C';
alter database ` + database + ` set bytea_output to 'hex';
alter database ` + database + ` set timezone_abbreviations to 'Default';
`

// run returns everything psql prints for a script.
func run(t *testing.T, st *stage, target *harness.Target, script string) []byte {
	t.Helper()
	limit := *limitFlag
	if limit == 0 {
		limit = time.Minute
	}
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	if err := st.clear(); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(filepath.Join(st.scripts, "sql", script+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := exec.CommandContext(ctx, target.Home.Config().Install.Program("psql"),
		"-X", "-a", "-q", "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on")
	cmd.Env = append(target.Env(), st.env(script)...)
	cmd.Stdin = in
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	started := time.Now()
	cmd.Cancel = func() error {
		// Now, for without psql nobody would be waiting.
		t.Errorf("%s: did not end within %s\n%s\n%s", target.Name, limit, activity(target), goroutines())
		return cmd.Process.Kill()
	}
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		fmt.Fprintf(&out, "psql's exit code: %d\n", exit.ExitCode())
	case err != nil:
		t.Fatal(err)
	}
	t.Logf("%s: %s", target.Name, time.Since(started).Round(time.Millisecond))
	return out.Bytes()
}

// activity says what the target's PostgreSQL server is doing.
func activity(target *harness.Target) []byte {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	cmd := exec.CommandContext(ctx, target.Home.Config().Install.Program("psql"), "-X", "-d", target.Home.ConnString("postgres"), "-c",
		"select pid, state, wait_event, now() - state_change as since, left(query, 200) as query from pg_stat_activity where datname is not null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Appendf(out, "activity: %v", err)
	}
	return out
}

// goroutines says what the proxy, which runs in this process, is waiting for.
func goroutines() []byte {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1) // a Buffer takes everything
	return b.Bytes()
}

// diff shows how two files differ.
func diff(t *testing.T, a, b string) []byte {
	t.Helper()
	const most = 8 << 10
	out, err := exec.Command("diff", "-U2", a, b).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		t.Fatalf("diff: %v\n%s", err, out)
	}
	return out[:min(len(out), most)]
}
