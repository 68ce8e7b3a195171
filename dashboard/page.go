package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"weft/console"
	wefthttp "weft/http"
)

// page is one page of the dashboard.
type page struct {
	Path, Title string
	template    string
	blocks      []block
	// hidden are views that the page listens to beside those that it shows.
	hidden []string
}

// block is a view on a page.
type block struct {
	view, title string
	// columns are the columns that are shown, in this order; nil for all.
	columns []string
	// most bounds the rows that are shown.
	most int
}

// readTimeout bounds how long the views of a page may take.
const readTimeout = 8 * time.Second

// pages are all pages in the order of the menu. A page is there if one of its views is.
var pages = []page{
	{Path: "", Title: "Overview", template: "overview", blocks: []block{
		{view: "load", title: "Shards"},
		{view: "warnings", title: "Warnings", most: 50},
		{view: "stats", title: "Statements by kind", columns: []string{"kind", "statements", "seconds", "p50_ms", "p99_ms", "proxy"}, most: 40},
		{view: "skew", title: "How evenly work is spread", most: 40},
	}},
	{Path: "heat", Title: "Heat", template: "heat", hidden: []string{"hot_keys", "moves"}, blocks: []block{
		{view: "heat", title: "Busiest buckets now", columns: []string{"database", "bucket", "shard", "reads_s", "writes_s", "bytes_s", "busy_ms_s", "share", "over_mean", "top_key_share", "verdict", "reason"}, most: 20},
	}},
	{Path: "keys", Title: "Keys", template: "tables", blocks: []block{
		{view: "hot_keys", title: "Hot keys", columns: []string{"key", "shard", "bucket", "reads_s", "writes_s", "bytes_s", "busy_ms_s", "share_of_shard", "share", "p50_ms", "p99_ms", "verdict", "reason", "since", "database", "tables"}, most: 60},
	}},
	{Path: "statements", Title: "Statements", template: "tables", blocks: []block{
		{view: "hot_statements", title: "Heaviest now", columns: []string{"statement", "database", "username", "shard", "reads_s", "writes_s", "rows_s", "busy_ms_s", "share_of_shard", "p50_ms", "p99_ms"}, most: 40},
		{view: "statements", title: "Since the proxies began to count", columns: []string{"statement", "database", "username", "kind", "calls", "errors", "rows", "shards", "total_ms", "mean_ms", "max_ms", "proxy"}, most: 100},
	}},
	{Path: "pools", Title: "Pools & sessions", template: "tables", blocks: []block{
		{view: "pools", title: "Connections to shards", columns: []string{"shard", "database", "username", "mode", "open", "used", "idle", "waiting", "connection_limit", "proxy"}, most: 100},
		{view: "sessions", title: "Sessions", columns: []string{"id", "username", "database", "application", "state", "since", "statement", "shard", "backend_pid", "shards", "pinned", "address", "proxy"}, most: 200},
	}},
	{Path: "transactions", Title: "Transactions", template: "tables", blocks: []block{
		{view: "transactions", title: "In doubt or underway over several shards", most: 200},
	}},
	{Path: "jobs", Title: "Jobs", template: "tables", blocks: []block{
		{view: "moves", title: "Moves of rows", columns: []string{"job", "database", "kind", "state", "from_shards", "to_shards", "buckets_done", "buckets", "rows", "bytes", "rate", "eta", "pause_p50_ms", "pause_p99_ms", "rounds", "given_up", "blocked_by", "started", "ended"}, most: 50},
		{view: "move_rounds", title: "Last rounds", columns: []string{"ended", "job", "database", "ways", "buckets", "outcome", "rows", "bytes", "write_pause_ms", "read_pause_ms"}, most: 50},
	}},
	{Path: "throttles", Title: "Throttles", template: "tables", blocks: []block{
		{view: "throttles", title: "Limits in effect", columns: []string{"target", "allows", "class", "mode", "origin", "demand_s", "passed", "delayed", "refused", "delay_p99_ms", "max_wait_ms", "expires", "reason", "made_by", "below", "database", "id"}, most: 200},
	}},
	{Path: "cluster", Title: "Cluster", template: "tables", blocks: []block{
		{view: "shards", title: "Shards", columns: []string{"name", "hosts", "home", "state", "weight", "buckets", "paused", "open", "used", "waiting", "connection_limit", "statements", "p50_ms", "p99_ms", "queue_waits"}, most: 200},
		{view: "tables", title: "Declared tables", most: 200},
		{view: "placement", title: "Placement of buckets", most: 200},
	}},
	{Path: "servers", Title: "Servers", template: "tables", blocks: []block{
		{view: "replicas", title: "Servers of the shards", columns: []string{"shard", "address", "role", "state", "timeline", "lsn", "lag_bytes", "lag_seconds", "sync", "last_error", "since"}, most: 400},
		{view: "shards", title: "Primaries", columns: []string{"name", "primary_address", "generation", "primary_state", "at_gate", "durable", "durable_lacks"}, most: 200},
		{view: "failovers", title: "Failovers", columns: []string{"at", "shard", "from_address", "from_timeline", "to_address", "to_timeline", "fork", "last_lsn", "lossy", "lost_bytes", "kept_until", "paused_sessions", "pause_ms"}, most: 100},
		{view: "failover_transactions", title: "Transactions that a failover has lost, or half of them", most: 100},
	}},
	{Path: "settings", Title: "Settings", template: "tables", blocks: []block{
		{view: "settings", title: "weft.yaml as it is in effect", columns: []string{"name", "value", "reload"}, most: 300},
	}},
}

// beats are how often views are read while somebody looks, but for those that are read once a second: views that ask
// shards, other proxies or etcd for much.
var beats = map[string]time.Duration{
	"hot_keys": 2 * time.Second, "hot_statements": 2 * time.Second, "heat": 5 * time.Second, "skew": 5 * time.Second, "statements": 5 * time.Second,
	"transactions": 5 * time.Second, "moves": 5 * time.Second, "move_rounds": 5 * time.Second, "buckets": 5 * time.Second, "settings": 5 * time.Second, "failovers": 5 * time.Second, "failover_transactions": 5 * time.Second, "placement": 5 * time.Second, "tables": 5 * time.Second,
}

// exists reports whether one of the page's views does.
func (p *page) exists() bool {
	return slices.ContainsFunc(p.blocks, func(b block) bool { return console.Named(b.view) != nil })
}

// shown is a view as it stands on a page.
type shown struct {
	View, Title, Help string
	Headings          []heading
	Rows              []row
	Total             int // rows of the view
	Acts              bool
	// Blank is a row without content, for scripts to copy.
	Blank row
	// Filter is what the rows are restricted to: columns and the texts that they may have.
	Filter map[string][]string
	// Notices say what is missing.
	Notices []string
}

// row is a row of a view.
type row struct {
	Cells   []cell   `json:"cells"`
	Actions []choice `json:"acts,omitempty"`
	// Key names the row among those of its view.
	Key string `json:"key,omitempty"`

	columns []heading
}

// Get returns the cell of a column.
func (r row) Get(name string) cell {
	for i, h := range r.columns {
		if h.Name == name && i < len(r.Cells) {
			return r.Cells[i]
		}
	}
	return cell{}
}

// blockOf returns a block with what all pages show of a view: the columns of each and the most rows. A view that is on no page, or
// on one in all its columns, has all.
func blockOf(view string) block {
	var out *block
	for _, p := range pages {
		for _, b := range p.blocks {
			switch {
			case b.view != view:
			case out == nil:
				b.columns = slices.Clone(b.columns)
				out = &b
			default:
				out.add(b)
			}
		}
	}
	if out == nil {
		return block{view: view, title: view, most: 200}
	}
	return *out
}

// add makes b show what another block of its view shows as well.
func (b *block) add(other block) {
	if b.most > 0 {
		b.most = max(b.most, other.most)
	}
	if other.most == 0 {
		b.most = 0
	}
	if b.columns == nil || other.columns == nil {
		b.columns = nil
		return
	}
	for _, c := range other.columns {
		if !slices.Contains(b.columns, c) {
			b.columns = append(b.columns, c)
		}
	}
}

// keys are the columns that name the rows of a view.
var keys = map[string]string{"load": "shard", "warnings": "id"}

// show makes a table readable.
func (b block) show(view *console.View, t console.Table, now time.Time) shown {
	s := shown{View: view.Name, Title: b.title, Help: view.Help, Total: len(t.Rows)}
	for _, n := range t.Notices {
		s.Notices = append(s.Notices, printable(n))
	}
	var columns []int
	for i, c := range view.Columns {
		if b.columns == nil {
			columns = append(columns, i)
			s.Headings = append(s.Headings, newHeading(c))
		}
	}
	for _, name := range b.columns {
		if i := slices.IndexFunc(view.Columns, func(c console.Column) bool { return c.Name == name }); i >= 0 {
			columns = append(columns, i)
			s.Headings = append(s.Headings, newHeading(view.Columns[i]))
		}
	}
	s.Acts, s.Rows = offers(view.Name), []row{}
	for _, values := range t.Rows {
		if b.most > 0 && len(s.Rows) >= b.most {
			break
		}
		r := row{columns: s.Headings, Cells: make([]cell, len(columns)), Actions: choices(view, values)}
		for i, at := range columns {
			r.Cells[i] = newCell(view.Columns[at], values[at], now)
		}
		if at := slices.IndexFunc(view.Columns, func(c console.Column) bool { return c.Name == keys[view.Name] }); at >= 0 {
			key, _ := console.Format(values[at])
			r.Key = printable(key)
		}
		s.Rows = append(s.Rows, r)
	}
	s.Blank = row{columns: s.Headings, Cells: make([]cell, len(columns))}
	return s
}

// FilterText is Filter as scripts read it.
func (s *shown) FilterText() string {
	if s.Filter == nil {
		return ""
	}
	text, _ := json.Marshal(s.Filter) // texts: it does not fail
	return string(text)
}

// restrict leaves the rows whose columns have one of some texts.
func (s *shown) restrict(filter map[string][]string) {
	for i, h := range s.Headings {
		want, given := filter[h.Name]
		if !given {
			continue
		}
		if s.Filter == nil {
			s.Filter = map[string][]string{}
		}
		s.Filter[h.Name] = want
		s.Rows = slices.DeleteFunc(s.Rows, func(r row) bool { return !slices.Contains(want, r.Cells[i].Text) })
	}
}

// content is what a page is made of.
type content struct {
	Title    string
	Path     string
	Menu     []*page
	Blocks   []shown
	Views    string // that the page listens to
	User     wefthttp.User
	Proxy    string
	Version  string
	At       string
	Map      mapChoice
	Act      *choice
	Outcome  string // of an action
	Failed   bool
	Message  string
	Warnings int
}

// fill adds what all pages have.
func (c *content) fill(r *http.Request, p Proxy) {
	c.User = wefthttp.UserOf(r)
	for i := range pages {
		if pages[i].exists() {
			c.Menu = append(c.Menu, &pages[i])
		}
	}
	if p != nil {
		c.Proxy, c.Version = p.Proxy(), p.Version()
	}
	c.At = time.Now().UTC().Format("15:04:05")
}

// page returns the handler of a page.
func (d *Dashboard) page(p *page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		proxy := d.proxy(w, r)
		if proxy == nil {
			return
		}
		if !p.exists() {
			d.render(w, r, http.StatusNotFound, "message", &content{Title: "Not here", Message: "This version of weft has nothing to show here."})
			return
		}
		ctx, stop := context.WithTimeout(r.Context(), readTimeout)
		defer stop()
		c := &content{Title: p.Title, Path: p.Path}
		var views []*console.View
		var blocks []block
		for _, b := range p.blocks {
			if v := console.Named(b.view); v != nil {
				views, blocks = append(views, v), append(blocks, b)
			}
		}
		var names []string
		filter := filterOf(r)
		for i, t := range proxy.Tables(ctx, views) {
			if len(filter) > 0 {
				blocks[i].most = 0
			}
			s := blocks[i].show(views[i], t, time.Now())
			s.restrict(filter)
			c.Blocks = append(c.Blocks, s)
			names = append(names, views[i].Name)
		}
		c.Views = strings.Join(append(names, p.hidden...), ",")
		if p.template == "heat" {
			c.Map = newMapChoice(r, proxy)
		}
		d.render(w, r, http.StatusOK, p.template, c)
	}
}

// filterOf returns what a request restricts rows to: ?bucket=4,5&shard=shard-1. Parts are parted by commas.
func filterOf(r *http.Request) map[string][]string {
	out := map[string][]string{}
	for name, values := range r.URL.Query() {
		out[name] = strings.Split(values[0], ",")
	}
	return out
}

// Block returns a view of the page by its name.
func (c *content) Block(name string) *shown {
	for i := range c.Blocks {
		if c.Blocks[i].View == name {
			return &c.Blocks[i]
		}
	}
	return nil
}
