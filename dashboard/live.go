package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/console"
)

const (
	// maxViewers bounds the streams of events, and maxViews the views of one.
	maxViewers = 64
	maxViews   = 8
	// behind is how many events a viewer may be behind.
	behind = 4
	// beat is how often views are read that are not in beats.
	beat = time.Second
	// writeTimeout bounds how long a viewer may take for one event.
	writeTimeout = 5 * time.Second
)

// frames makes an event of each table.
func frames(views []*console.View, tables []console.Table) [][]byte {
	now := time.Now()
	out := make([][]byte, len(views))
	for i, view := range views {
		s := blockOf(view.Name).show(view, tables[i], now)
		f := frame{View: view.Name, At: now.UTC().Format("15:04:05"), Total: s.Total, Rows: s.Rows, Notices: s.Notices}
		for _, h := range s.Headings {
			f.Columns = append(f.Columns, h.Name)
		}
		if drawn[view.Name] {
			f.Time, f.Raw = now.UnixMilli(), tables[i].JSON()
		}
		data, err := json.Marshal(f)
		if err != nil {
			panic(err) // texts and finite numbers
		}
		out[i] = append(append([]byte("data: "), data...), '\n', '\n')
	}
	return out
}

// drawn are the views whose values scripts draw.
var drawn = map[string]bool{"load": true, "moves": true}

// frame is the content of an event: a view as the pages show it.
type frame struct {
	View    string   `json:"view"`
	At      string   `json:"at"`
	Total   int      `json:"total"`
	Columns []string `json:"columns"`
	Rows    []row    `json:"rows"`
	Notices []string `json:"notices,omitempty"`
	// Time and Raw are for charts: the rows as /api/views has them.
	Time int64           `json:"time,omitempty"`
	Raw  json.RawMessage `json:"raw,omitempty"`
}

// viewer is one stream of events.
type viewer struct {
	views []*console.View
	// events is closed for a viewer who does not keep up.
	events chan []byte
	fresh  bool // nothing was sent yet
}

// hub reads views for all viewers.
type hub struct {
	read    func(ctx context.Context, views []*console.View) [][]byte // an event of each view
	guarded func(f func()) func()

	mu      sync.Mutex
	viewers map[*viewer]bool
	running bool
}

func newHub(read func(context.Context, []*console.View) [][]byte, guarded func(func()) func()) *hub {
	return &hub{read: read, guarded: guarded, viewers: map[*viewer]bool{}}
}

// join adds a viewer, nil if there are too many. The first one starts the hub's work, which ends with the last.
func (h *hub) join(views []*console.View) *viewer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) >= maxViewers {
		return nil
	}
	v := &viewer{views: views, events: make(chan []byte, behind), fresh: true}
	h.viewers[v] = true
	if !h.running {
		h.running = true
		go h.guarded(h.work)()
	}
	return v
}

// leave forgets a viewer.
func (h *hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(v)
}

// drop ends a viewer. mu is held.
func (h *hub) drop(v *viewer) {
	if h.viewers[v] {
		delete(h.viewers, v)
		close(v.events)
	}
}

// work sends events until there is no viewer.
func (h *hub) work() {
	sound := false
	defer func() {
		if !sound { // a panic: all viewers come again
			h.mu.Lock()
			defer h.mu.Unlock()
			h.running = false
			for v := range h.viewers {
				h.drop(v)
			}
		}
	}()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	last := map[string]time.Time{}
	for now := time.Now(); ; now = <-tick.C {
		wanted, ok := h.wanted(now, last)
		if !ok {
			sound = true
			return
		}
		events := map[string][]byte{}
		if len(wanted) > 0 {
			ctx, stop := context.WithTimeout(context.Background(), readTimeout)
			for i, e := range h.read(ctx, wanted) {
				events[wanted[i].Name] = e
				last[wanted[i].Name] = now
			}
			stop()
		}
		h.send(events)
	}
}

// wanted returns the views that are due. ok is false if there is no viewer, and the work is over.
func (h *hub) wanted(now time.Time, last map[string]time.Time) (views []*console.View, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) == 0 {
		h.running = false
		return nil, false
	}
	for v := range h.viewers {
		for _, view := range v.views {
			due := v.fresh || now.Sub(last[view.Name]) >= beats[view.Name]-beat/2
			if due && !slices.Contains(views, view) {
				views = append(views, view)
			}
		}
	}
	return views, true
}

// send gives each viewer the events of its views, all in one piece. Viewers of the same views get the same
// bytes.
func (h *hub) send(events map[string][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pieces := map[string][]byte{}
	for v := range h.viewers {
		var names []string
		for _, view := range v.views {
			if events[view.Name] != nil {
				names = append(names, view.Name)
			}
		}
		if len(names) == 0 {
			continue
		}
		key := strings.Join(names, ",")
		piece := pieces[key]
		if piece == nil {
			for _, n := range names {
				piece = append(piece, events[n]...)
			}
			pieces[key] = piece
		}
		v.fresh = false
		select {
		case v.events <- piece:
		default:
			h.drop(v)
		}
	}
}

// events streams views until the browser leaves.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	var views []*console.View
	for name := range strings.SplitSeq(r.URL.Query().Get("views"), ",") {
		if v := console.Named(name); v != nil && !slices.Contains(views, v) && len(views) < maxViews {
			views = append(views, v)
		}
	}
	if len(views) == 0 {
		http.Error(w, "views names no view", http.StatusBadRequest)
		return
	}
	if d.proxy(w, r) == nil {
		return
	}
	v := d.hub.join(views)
	if v == nil {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many people are looking", http.StatusServiceUnavailable)
		return
	}
	defer d.hub.leave(v)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies of HTTP in between
	control := http.NewResponseController(w)
	for {
		select {
		case <-r.Context().Done():
			return
		case piece, ok := <-v.events:
			if !ok {
				return // too slow: the browser comes again
			}
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := w.Write(piece); err != nil || control.Flush() != nil {
				return
			}
		}
	}
}
