package dashboard

import (
	"bufio"
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
)

var (
	shots = flag.String("shots", "", "write the pictures of the documentation to this directory")
	open  = flag.Duration("open", 4*time.Second, "for how long a page is kept open")
)

// patience is how long a test waits for what must happen.
const patience = 3 * time.Minute

// world is a cluster of weft dev, and a browser.
type world struct {
	program     string // weft, as it was built
	dir         string // of weft dev
	proxy, http string // addresses
	password    string
	process     *exec.Cmd
	stopDev     func()
	browser     context.Context
	closeAll    func()
}

// theWorld is shared by all tests.
var theWorld *world

func TestMain(m *testing.M) {
	flag.Parse()
	w, err := newWorld()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	theWorld = w
	code := m.Run()
	w.closeAll()
	os.Exit(code)
}

// newWorld builds weft, starts a cluster and a browser.
func newWorld() (*world, error) {
	dir, err := os.MkdirTemp("", "weft-dashboard-")
	if err != nil {
		return nil, err
	}
	w := &world{}
	w.closeAll = func() {
		if w.stopDev != nil {
			w.stopDev()
		}
		_ = os.RemoveAll(dir)
	}
	if err := w.build(dir); err != nil {
		w.closeAll()
		return nil, err
	}
	if err := w.startDev(dir); err != nil {
		w.closeAll()
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.WindowSize(1440, 900), chromedp.Flag("no-sandbox", os.Geteuid() == 0), chromedp.Flag("force-color-profile", "srgb"))
	if program := os.Getenv("CHROMIUM"); program != "" {
		options = append(options, chromedp.ExecPath(program))
	} else if path, err := exec.LookPath("chromium-headless-shell"); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), options...)
	browser, stopBrowser := chromedp.NewContext(alloc)
	stopRest := w.closeAll
	w.browser, w.closeAll = browser, func() { stopBrowser(); stopAlloc(); stopRest() }
	if err := chromedp.Do(browser); err != nil {
		w.closeAll()
		return nil, fmt.Errorf("start Chromium: %w", err)
	}
	return w, nil
}

// printed finds the dashboard's address and password in what weft dev prints.
var printed = regexp.MustCompile(`dashboard: +http://(\S+)/dashboard/ +\(user dev, password (\w+)\)`)

// build builds weft in a directory, unless WEFT names one that is built.
func (w *world) build(dir string) error {
	if w.program = os.Getenv("WEFT"); w.program != "" {
		return nil
	}
	w.program = filepath.Join(dir, "weft")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", w.program, "./cmd/weft")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build weft: %w\n%s", err, out)
	}
	return nil
}

// startDev runs weft dev in a directory, with further flags, and waits until it says that it is ready.
func (w *world) startDev(dir string, flags ...string) error {
	var err error
	ports := make([]string, 2)
	for i := range ports {
		if ports[i], err = freePorts(1); err != nil {
			return err
		}
	}
	w.proxy, w.http = "127.0.0.1:"+ports[0], "127.0.0.1:"+ports[1]
	base, err := freePorts(4)
	if err != nil {
		return err
	}
	w.dir = filepath.Join(dir, "dev")
	w.process = exec.Command(w.program, append([]string{"dev", "--shards", "2", "--bucket-count", "128", "--dir", w.dir, "--listen", w.proxy, "--http", w.http, "--port-base", base}, flags...)...)
	w.process.Stderr = os.Stderr
	// The cluster ends with the tests, also if they are killed.
	w.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := w.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := w.process.Start(); err != nil {
		return err
	}
	w.stopDev = func() {
		_ = w.process.Process.Signal(syscall.SIGTERM)
		_ = w.process.Wait()
	}
	lines := bufio.NewScanner(out)
	var all strings.Builder
	for lines.Scan() {
		fmt.Fprintln(&all, lines.Text())
		if m := printed.FindStringSubmatch(lines.Text()); m != nil {
			w.password = m[2]
		}
		if strings.HasPrefix(lines.Text(), "Data is kept in") {
			go func() {
				for lines.Scan() { // to the end, or weft would block
				}
			}()
			if w.password == "" {
				return fmt.Errorf("weft dev does not print the dashboard's address:\n%s", all.String())
			}
			return nil
		}
	}
	return fmt.Errorf("weft dev has ended:\n%s", all.String())
}

// freePorts returns the first of n ports in a row on which nothing listens.
func freePorts(n int) (string, error) {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		first := l.Addr().(*net.TCPAddr).Port
		taken := l.Close()
		for i := 1; i < n && taken == nil; i++ {
			if l, taken = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first+i))); taken == nil {
				taken = l.Close()
			}
		}
		if taken == nil {
			return strconv.Itoa(first), nil
		}
	}
	return "", fmt.Errorf("there are no %d free ports in a row", n)
}

// conn returns a connection to the cluster, which ends with the test.
func (w *world) conn(t *testing.T) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), "postgres://postgres@"+w.proxy+"/app?application_name=test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func must(t *testing.T, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// tables makes the tables of the tests, once.
func (w *world) tables(t *testing.T) {
	t.Helper()
	c := w.conn(t)
	var known bool
	if err := c.QueryRow(t.Context(), "select to_regclass('acct') is not null").Scan(&known); err != nil {
		t.Fatal(err)
	}
	if known {
		return
	}
	must(t, c, "create table acct (id bigint primary key, n bigint not null, note text)")
	must(t, c, "insert into acct select i, 0, repeat('x', 60) from generate_series(1, 2000) i")
	must(t, c, "select weft.shard_table('acct', 'id')")
	must(t, c, "create table page (path text primary key, n bigint not null)")
	must(t, c, "select weft.shard_table('page', 'path')")
}

// load runs statements until the test is over, about so many per second over some connections.
func (w *world) load(t *testing.T, conns int, pause time.Duration, one func(ctx context.Context, c *pgx.Conn, n int) error) *atomic.Int64 {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	done := new(atomic.Int64)
	for i := range conns {
		c := w.conn(t)
		wg.Go(func() {
			for n := i; ctx.Err() == nil; n += conns {
				if err := one(ctx, c, n); err != nil && ctx.Err() == nil {
					t.Errorf("load: %v", err)
					return
				}
				done.Add(1)
				time.Sleep(pause)
			}
		})
	}
	t.Cleanup(func() { stop(); wg.Wait() })
	return done
}

// tab is one page of the browser, and what went wrong in it.
type tab struct {
	ctx context.Context
	t   *testing.T
	w   *world

	mu       sync.Mutex
	requests []string
	trouble  []string
}

// step is something that is done in a page.
type step = chromedp.Action[chromedp.Void]

// command is a step that is one command of the protocol.
func command[P, R any](cmd cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, cmd, params)
		return err
	})
}

// tab opens a page of the browser, which is closed with the test. A test fails if a script of the page does, or if the
// page asks for what is not of its origin or not allowed.
func (w *world) tab(t *testing.T, steps ...step) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(w.browser)
	b := &tab{ctx: ctx, t: t, w: w}
	var wg sync.WaitGroup
	watch(b, &wg, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) { b.requests = append(b.requests, e.Request.URL) })
	watch(b, &wg, log.EntryAdded, func(e log.EventEntryAdded) {
		if e.Entry.Level == log.EntryLevelError || e.Entry.Source == log.EntrySourceSecurity {
			b.trouble = append(b.trouble, fmt.Sprintf("the browser says: %s (%s)", e.Entry.Text, e.Entry.URL))
		}
	})
	watch(b, &wg, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		b.trouble = append(b.trouble, fmt.Sprintf("a script has failed: %+v", e.ExceptionDetails))
	})
	watch(b, &wg, page.JavascriptDialogOpening, func(e page.EventJavascriptDialogOpening) {
		b.trouble = append(b.trouble, "a dialog has opened: "+e.Message)
	})
	auth := "Basic " + base64.StdEncoding.EncodeToString([]byte("dev:"+w.password))
	b.do(append([]step{
		command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}), command(page.Enable, page.EnableParams{}),
		command(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": auth}}),
	}, steps...)...)
	t.Cleanup(func() {
		stop()
		wg.Wait()
		for _, s := range b.trouble {
			t.Error(s)
		}
		if len(b.requests) == 0 {
			t.Error("the browser has asked for nothing")
		}
		for _, r := range b.requests {
			if u, err := url.Parse(r); err != nil || u.Scheme != "http" || u.Host != w.http {
				t.Errorf("a request to elsewhere: %s", r)
			}
		}
	})
	return b
}

// watch calls f with the events of a page until the page is closed.
func watch[E any](b *tab, wg *sync.WaitGroup, event cdp.Event[E], f func(E)) {
	events := chromedp.Events(b.ctx, event)
	wg.Go(func() {
		for e, err := range events {
			if err != nil {
				return
			}
			b.mu.Lock()
			f(e)
			b.mu.Unlock()
		}
	})
}

// do does some steps in the page.
func (b *tab) do(steps ...step) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// visit opens a page of the dashboard.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://" + b.w.http + "/dashboard/" + path))
}

// eval evaluates a script, and waits for its promise.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return out
}

// await waits until a script says true, and returns how long that took.
func (b *tab) await(what, script string) time.Duration {
	b.t.Helper()
	began := time.Now()
	for !eval[bool](b, script) {
		if time.Since(began) > patience {
			b.t.Fatalf("in vain: %s\n%s", what, eval[string](b, "document.body.innerText"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(began)
}

// themed makes the system's theme dark or light.
func themed(name string) step {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}
