package dashboard

import (
	"crypto/sha256"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"slices"
	"strconv"

	"weft/heat"
)

// sum is a short name of content.
func sum(data []byte) []byte {
	s := sha256.Sum256(data)
	return s[:12]
}

// metrics are what maps show, by name.
var metrics = []struct {
	Name, Text, Unit string
	metric           heat.Metric
}{
	{"reads", "Reads", "statements/s", heat.Reads},
	{"writes", "Writes", "statements/s", heat.Writes},
	{"busy", "Busy time", "ms/s", heat.Busy},
}

// spans are how far maps go back, by name.
var spans = []struct {
	Name, Text string
	span       heat.Span
}{
	{"hour", "Last hour", heat.Hour},
	{"day", "Last day", heat.Day},
}

// mapChoice is which map is shown, and which could be.
type mapChoice struct {
	Database, Metric, Span string
	Databases              []string
	Metrics, Spans         []option
	Unit                   string
}

// option is one that can be chosen.
type option struct {
	Name, Text string
	Chosen     bool
}

// newMapChoice returns what a request asks for, or what is shown first.
func newMapChoice(r *http.Request, p Proxy) mapChoice {
	q := r.URL.Query()
	c := mapChoice{Database: q.Get("database"), Metric: q.Get("metric"), Span: q.Get("span"), Databases: p.Databases()}
	for _, name := range p.Declared() {
		if !slices.Contains(c.Databases, name) {
			c.Databases = append(c.Databases, name)
		}
	}
	if !slices.Contains(c.Databases, c.Database) {
		c.Database = ""
		if len(c.Databases) > 0 {
			c.Database = c.Databases[0]
		}
	}
	m, s := metricOf(c.Metric), spanOf(c.Span)
	for i, o := range metrics {
		c.Metrics = append(c.Metrics, option{o.Name, o.Text, i == m})
	}
	for i, o := range spans {
		c.Spans = append(c.Spans, option{o.Name, o.Text, i == s})
	}
	c.Metric, c.Unit, c.Span = metrics[m].Name, metrics[m].Unit, spans[s].Name
	return c
}

// metricOf returns the index of a metric: busy time if there is none of that name.
func metricOf(name string) int {
	for i := range metrics {
		if metrics[i].Name == name {
			return i
		}
	}
	return len(metrics) - 1
}

// spanOf returns the index of a span: the first if there is none of that name.
func spanOf(name string) int {
	for i := range spans {
		if spans[i].Name == name {
			return i
		}
	}
	return 0
}

// read returns the map that a request asks for.
func (c mapChoice) read(p Proxy, from int64) heat.Map {
	return p.Map(c.Database, spans[spanOf(c.Span)].span, metrics[metricOf(c.Metric)].metric, from)
}

// heat answers with the levels of a map: one byte for each row of one column after the other. The headers say
// what they are.
func (d *Dashboard) heat(w http.ResponseWriter, r *http.Request) {
	p := d.proxy(w, r)
	if p == nil {
		return
	}
	c := newMapChoice(r, p)
	from, err := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	if err != nil {
		from = 0
	}
	m := c.read(p, from)
	h := w.Header()
	for name, n := range map[string]int64{
		"Weft-Layout": int64(m.Layout), "Weft-First": m.First, "Weft-Columns": int64(m.Columns), "Weft-Rows": int64(m.Rows), "Weft-Step": spans[spanOf(c.Span)].span.Step(),
	} {
		h.Set(name, strconv.FormatInt(n, 10))
	}
	h.Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(m.Levels)
}

// rows answers with what the rows of a database's maps are, and what the levels mean.
func (d *Dashboard) rows(w http.ResponseWriter, r *http.Request) {
	p := d.proxy(w, r)
	if p == nil {
		return
	}
	strips, layout := p.Strips(newMapChoice(r, p).Database)
	amounts := make([]float32, 256)
	for level := range amounts {
		amounts[level] = heat.Amount(byte(level))
	}
	answerJSON(w, struct {
		Layout  int          `json:"layout"`
		Strips  []heat.Strip `json:"strips"`
		Amounts []float32    `json:"amounts"`
		Colours []string     `json:"colours"`
	}{layout, strips, amounts, ramp})
}

// series answers with the work of each shard over the last hour.
func (d *Dashboard) series(w http.ResponseWriter, r *http.Request) {
	p := d.proxy(w, r)
	if p == nil {
		return
	}
	var out struct {
		First  int64                `json:"first"` // in seconds
		Step   int64                `json:"step"`
		Reads  map[string][]float32 `json:"reads"`
		Writes map[string][]float32 `json:"writes"`
		Busy   map[string][]float32 `json:"busy"`
	}
	out.Step = heat.Hour.Step()
	out.First, out.Reads = p.Series(heat.Reads)
	_, out.Writes = p.Series(heat.Writes)
	_, out.Busy = p.Series(heat.Busy)
	out.First *= out.Step
	answerJSON(w, out)
}

// viridis is a ramp that gets lighter all the way, so that the colour-blind and printers in black and white see
// the same order: ten colours of matplotlib's map of that name.
var viridis = []color.RGBA{
	{0x44, 0x01, 0x54, 0xff},
	{0x48, 0x28, 0x78, 0xff},
	{0x3e, 0x49, 0x89, 0xff},
	{0x31, 0x68, 0x8e, 0xff},
	{0x26, 0x82, 0x8e, 0xff},
	{0x1f, 0x9e, 0x89, 0xff},
	{0x35, 0xb7, 0x79, 0xff},
	{0x6e, 0xce, 0x58, 0xff},
	{0xb5, 0xde, 0x2b, 0xff},
	{0xfd, 0xe7, 0x25, 0xff},
}

// palette has 256 colours of viridis.
var palette = func() color.Palette {
	out := make(color.Palette, 256)
	for i := range out {
		at := float64(i) / 255 * float64(len(viridis)-1)
		a := min(int(at), len(viridis)-2)
		mix := func(x, y uint8) uint8 { return uint8(float64(x) + (at-float64(a))*(float64(y)-float64(x)) + 0.5) }
		x, y := viridis[a], viridis[a+1]
		out[i] = color.RGBA{mix(x.R, y.R), mix(x.G, y.G), mix(x.B, y.B), 0xff}
	}
	return out
}()

// ramp is the palette as scripts know it.
var ramp = func() []string {
	out := make([]string, len(palette))
	for i, c := range palette {
		rgb := c.(color.RGBA)
		out[i] = fmt.Sprintf("#%02x%02x%02x", rgb.R, rgb.G, rgb.B)
	}
	return out
}()

// picture answers with a map as an image, for those without scripts: time goes to the right, and rows are in the
// order of shards.
func (d *Dashboard) picture(w http.ResponseWriter, r *http.Request) {
	p := d.proxy(w, r)
	if p == nil {
		return
	}
	m := newMapChoice(r, p).read(p, 0)
	img := image.NewPaletted(image.Rect(0, 0, max(m.Columns, 1), max(m.Rows, 1)), palette)
	low, high := levelsOf(m.Levels)
	for c := range m.Columns {
		for row := range m.Rows {
			img.SetColorIndex(c, row, shade(m.Levels[c*m.Rows+row], low, high))
		}
	}
	w.Header().Set("Content-Type", "image/png")
	_ = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(w, img) // the browser is gone if it fails
}

// depth is how many levels the ramp covers at most: four powers of ten below the highest amount.
const depth = 113

// levelsOf returns the levels at the ends of the ramp.
func levelsOf(levels []byte) (low, high byte) {
	for _, l := range levels {
		high = max(high, l)
	}
	return byte(max(1, int(high)-depth)), high
}

// shade returns the place of a level in the palette.
func shade(level, low, high byte) uint8 {
	switch {
	case level == 0 || high == 0:
		return 0
	case level <= low || high == low:
		return 12
	}
	return uint8(12 + int(level-low)*(255-12)/int(high-low))
}
