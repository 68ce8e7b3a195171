package proxy

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/proxy/target"
	"weft/quote"
	"weft/wire"
)

// weft's own parameters are custom parameters of the backends, like any other with a dot in
// its name: so transactions, savepoints, roles, databases and startup options do to them
// what PostgreSQL says they do. weft adds three things. A value is checked when it is set.
// A parameter that was never set has a default. And a statement over several shards heeds
// the values in effect: the session knows them, except in a transaction that may have
// changed them, where it asks a backend.

// options are the values of weft's own parameters that are in effect.
type options struct {
	// maxGatherBytes bounds the bytes that one statement may bring together.
	maxGatherBytes int64
	// scatter: statements may read several shards.
	scatter bool
	// maxParallelShards bounds the shards that work on one statement at a time; 0 is no
	// bound.
	maxParallelShards int
	// inlineBytes: rows of at least this many bytes are copied into a temporary table
	// instead of going along as parameters.
	inlineBytes int64
	// read is what a query over several shards may see of transactions on several shards:
	// readShard or readAtomic.
	read string
	// perShard: SERIALIZABLE transactions may use several shards, although only each shard
	// by itself is serializable.
	perShard bool
	// firesPerShard: triggers FOR EACH STATEMENT may run once on each shard of a statement.
	firesPerShard bool
	// native: weft itself merges and aggregates where it can.
	native bool
	// priority says how urgent statements are that wait for a backend.
	priority namedPriority
	// single: a transaction may write on one shard only.
	single bool
	// certain: a client is told how its transaction ended, whichever server dies.
	certain bool
	// coalesce: reads may share an execution with those of other sessions.
	coalesce bool
	// away is what is said of reads on standbys.
	away wish

	// statementTimeout and isolation are PostgreSQL's statement_timeout and
	// default_transaction_isolation: a gathered statement must heed them as a whole.
	statementTimeout time.Duration
	isolation        string
	// idleTimeout is idle_in_transaction_session_timeout: a shard would also count the time
	// in which the client works on other shards.
	idleTimeout time.Duration
}

// heeded are parameters of PostgreSQL that weft must know, too.
var heeded = []string{"statement_timeout", "default_transaction_isolation", "idle_in_transaction_session_timeout"}

// heed takes a value for one of weft's parameters or of heeded.
func (o *options) heed(name, value string) error {
	switch name {
	case "statement_timeout":
		o.statementTimeout = gucDuration(strings.ReplaceAll(value, " ", ""))
	case "idle_in_transaction_session_timeout":
		o.idleTimeout = gucDuration(strings.ReplaceAll(value, " ", ""))
	case "default_transaction_isolation":
		o.isolation = value
	default:
		if err := o.set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// optionNames are the names of weft's own parameters.
var optionNames = []string{
	"weft.max_gather_bytes", "weft.scatter", "weft.max_parallel_shards", "weft.inline_bytes", "weft.native", "weft.commit", "weft.read", "weft.serializable",
	"weft.statement_triggers", priorityOption, coalesceOption, "weft.target", "weft.max_lag", "weft.causal", "weft.causal_wait", "weft.token",
}

func isOption(name string) bool { return strings.HasPrefix(name, parser.OptionPrefix) }

// set takes a value for one of weft's parameters, or says what is wrong with the value.
func (o *options) set(name, value string) *pgerr.Error {
	switch name {
	case "weft.max_gather_bytes", "weft.inline_bytes":
		n, err := parseBytes(name, value)
		if err == nil && n < 1 {
			err = outOfRange(name, strconv.FormatInt(n, 10), 1, math.MaxInt64)
		}
		if err != nil {
			return err
		}
		if name == "weft.inline_bytes" {
			o.inlineBytes = min(n, maxInline)
		} else {
			o.maxGatherBytes = n
		}
	case "weft.scatter", "weft.native", coalesceOption:
		on, ok := parseBool(value)
		if !ok {
			return invalidOption(name, value).WithHint("Available values: on, off.")
		}
		switch name {
		case "weft.native":
			o.native = on
		case coalesceOption:
			o.coalesce = on
		default:
			o.scatter = on
		}
	case "weft.commit":
		switch strings.ToLower(value) {
		case "atomic", "single", "certain":
			o.single, o.certain = strings.EqualFold(value, "single"), strings.EqualFold(value, "certain")
		default:
			return invalidOption(name, value).WithHint("Available values: atomic, certain, single.")
		}
	case "weft.read":
		v := strings.ToLower(value)
		if v != readShard && v != readAtomic {
			return invalidOption(name, value).WithHint("Available values: shard, atomic.")
		}
		o.read = v
	case priorityOption:
		v := strings.ToLower(value)
		if !slices.Contains(priorities, v) {
			return invalidOption(name, value).WithHint("Available values: %s.", strings.Join(priorities, ", "))
		}
		o.priority = priorityNamed(v)
	case "weft.serializable", "weft.statement_triggers":
		v := strings.ToLower(value)
		if v != "refuse" && v != "per_shard" {
			return invalidOption(name, value).WithHint("Available values: refuse, per_shard.")
		}
		if name == "weft.serializable" {
			o.perShard = v == "per_shard"
		} else {
			o.firesPerShard = v == "per_shard"
		}
	case "weft.max_parallel_shards":
		n, err := strconv.ParseInt(strings.TrimSpace(value), 0, 64)
		if err != nil {
			return invalidOption(name, value)
		}
		if n < 0 || n > math.MaxInt32 {
			return outOfRange(name, strings.TrimSpace(value), 0, math.MaxInt32)
		}
		o.maxParallelShards = int(n)
	case "weft.target", "weft.max_lag", "weft.causal", "weft.causal_wait", "weft.token":
		return o.away.set(name, value)
	default:
		return pgerr.New(pgerr.InvalidName, "invalid configuration parameter name %q", name).
			WithDetail(`"weft" is a reserved prefix.`).WithHint("The parameters are %s.", strings.Join(optionNames, ", "))
	}
	return nil
}

func invalidOption(name, value string) *pgerr.Error {
	return pgerr.New(pgerr.InvalidParameterValue, "invalid value for parameter %q: %q", name, value)
}

func outOfRange(name, value string, low, high int64) *pgerr.Error {
	return pgerr.New(pgerr.InvalidParameterValue, "%s is outside the valid range for parameter %q (%d .. %d)", value, name, low, high)
}

var byteUnits = map[string]float64{"": 1, "B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}

var byteValue = regexp.MustCompile(`^\s*([-+]?(?:0[xX][0-9a-fA-F]+|[0-9]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?))\s*([a-zA-Z]*)\s*$`)

// parseBytes reads an amount of memory as PostgreSQL writes it in settings.
func parseBytes(name, value string) (int64, *pgerr.Error) {
	m := byteValue.FindStringSubmatch(value)
	if m == nil {
		return 0, invalidOption(name, value)
	}
	unit, known := byteUnits[m[2]]
	if !known {
		return 0, invalidOption(name, value).WithHint(`Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".`)
	}
	if n, err := strconv.ParseInt(m[1], 0, 64); err == nil && n >= math.MinInt64/int64(unit) && n <= math.MaxInt64/int64(unit) {
		return n * int64(unit), nil
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, invalidOption(name, value)
	}
	if f = math.Round(f * unit); math.Abs(f) >= math.MaxInt64 {
		return 0, outOfRange(name, strings.TrimSpace(value), 1, math.MaxInt64)
	}
	return int64(f), nil
}

// showBytes writes an amount of memory as PostgreSQL shows it.
func showBytes(n int64) string {
	for _, unit := range []string{"TB", "GB", "MB", "kB"} {
		if size := int64(byteUnits[unit]); n > 0 && n%size == 0 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// parseBool takes what PostgreSQL takes for a boolean setting.
func parseBool(value string) (on, ok bool) {
	v := strings.ToLower(value)
	switch {
	case v == "":
	case v == "1", v == "on", strings.HasPrefix("true", v), strings.HasPrefix("yes", v):
		return true, true
	case v == "0", v == "of", v == "off", strings.HasPrefix("false", v), strings.HasPrefix("no", v):
		return false, true
	}
	return false, false
}

// texts returns the values as SHOW would show them, by name.
func (o options) texts() map[string]string {
	commit := "atomic"
	switch {
	case o.single:
		commit = "single"
	case o.certain:
		commit = "certain"
	}
	serializable, triggers := "refuse", "refuse"
	if o.perShard {
		serializable = "per_shard"
	}
	if o.firesPerShard {
		triggers = "per_shard"
	}
	return map[string]string{
		"weft.target": o.away.target.String(), "weft.max_lag": showDuration(o.away.maxLag), "weft.causal": o.away.causal.String(),
		"weft.causal_wait": showDuration(o.away.wait), "weft.token": o.away.token,
		"weft.read": o.read, "weft.serializable": serializable, "weft.statement_triggers": triggers,
		"weft.max_gather_bytes": showBytes(o.maxGatherBytes), "weft.scatter": onOff(o.scatter), "weft.max_parallel_shards": strconv.Itoa(o.maxParallelShards),
		"weft.inline_bytes": showBytes(o.inlineBytes), "weft.native": onOff(o.native), "weft.commit": commit,
		priorityOption: priorities[o.priority], coalesceOption: onOff(o.coalesce),
	}
}

// checkOptions refuses a text that sets one of weft's parameters to an invalid value.
func checkOptions(list []parser.Option) error {
	for _, o := range list {
		if err := new(options).set(o.Name, o.Value); err != nil {
			return err
		}
	}
	return nil
}

// learnOptions finds out which options are in effect for the statement at hand. It asks a
// backend only if the session cannot know.
func (rc *record) learnOptions() error {
	if rc.optionsInFlux() {
		lane := rc.s.lane
		if !rc.s.route.holdsHome() {
			lane = rc.s.route.atHand() // all participants have the same settings
		}
		o, err := rc.askOptions(lane)
		rc.inEffect, rc.optionsKnown = o, false
		return err
	}
	if rc.optionsKnown && rc.optionsFor == rc.settings {
		return nil
	}
	key := optionKey{rc.s.lane.Key(), rc.s.lane.Epoch(), rc.defaults().away.target}
	o, ok := rc.s.srv.memory.envs.loginOptions(key)
	explicit := false
	for _, name := range slices.Concat(optionNames, heeded) {
		v, _ := rc.settings.Get(name)
		if v == "" {
			continue
		}
		explicit = true
		if err := o.heed(name, v); err != nil {
			return err
		}
	}
	if !ok {
		// Only a backend knows what startup options, ALTER ROLE and ALTER DATABASE have
		// set.
		var err error
		if o, err = rc.askOptions(rc.s.lane); err != nil {
			return err
		}
		if !explicit {
			rc.s.srv.memory.envs.keepLoginOptions(key, o)
		}
	}
	rc.optionsFor, rc.optionsKnown, rc.inEffect = rc.settings, true, o
	return nil
}

// The following methods return what learnOptions last found.

// scatter reports whether the client wants statements over several shards.
func (rc *record) scatter() bool { return rc.inEffect.scatter }

// maxGatherBytes bounds the rows that one statement may carry through weft.
func (rc *record) maxGatherBytes() int64 { return rc.inEffect.maxGatherBytes }

// maxParallelShards bounds how many shards work for a statement at once; 0 is no bound.
func (rc *record) maxParallelShards() int { return rc.inEffect.maxParallelShards }

// optionsInFlux reports whether the open transaction may have set weft's parameters or
// those of heeded.
func (rc *record) optionsInFlux() bool {
	d := &rc.done
	return d.bits&(parser.Opaque|parser.ChangesAllSettings|parser.DiscardAll) != 0 ||
		d.bits&parser.ChangesSettings != 0 && slices.ContainsFunc(d.sets, func(set parser.Setting) bool {
			return isOption(set.Name) || slices.Contains(heeded, set.Name)
		})
}

// sets reports whether the open transaction may have set a parameter.
func (rc *record) sets(name string) bool {
	return slices.ContainsFunc(rc.done.sets, func(set parser.Setting) bool { return set.Name == name })
}

// askOptions asks a backend of the session for the options in effect.
func (rc *record) askOptions(l *pool.Lane) (options, error) {
	var b strings.Builder
	for i, name := range slices.Concat(optionNames, heeded) {
		if i > 0 {
			b.WriteString(" UNION ALL ")
		}
		if name == "default_transaction_isolation" && rc.s.tx.isOpen() && rc.sets(name) {
			// The block has changed the setting, but began under the older value: the one
			// of the login, unless the session had set another.
			fmt.Fprintf(&b, "SELECT name, reset_val FROM pg_catalog.pg_settings WHERE name = %s", quote.Literal(name))
			continue
		}
		fmt.Fprintf(&b, "SELECT %s, pg_catalog.current_setting(%[1]s, true)", quote.Literal(name))
	}
	o := rc.defaults()
	rows, err := rc.s.route.ask(l, b.String())
	if err != nil {
		return o, err
	}
	for _, r := range rows {
		if r[1] == "" { // never set, or reset
			continue
		}
		if err := o.heed(r[0], r[1]); err != nil {
			return o, err
		}
	}
	return o, nil
}

// optionKey is what the options of a new session depend on.
type optionKey struct {
	lane   pool.Key
	epoch  uint64
	target target.Target // users with the same role may begin with different ones
}

// defaults are the options that the session begins with, unless a backend says otherwise.
func (rc *record) defaults() options { return rc.s.srv.conf().Gather.options(&rc.s.login) }

func (e *environments) loginOptions(key optionKey) (options, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o, ok := e.options[key]
	return o, ok
}

func (e *environments) keepLoginOptions(key optionKey, o options) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.options) >= maxEnvironments {
		clear(e.options)
	}
	e.options[key] = o
}

// readsOption reports whether a text may read one of weft's parameters.
func readsOption(text []byte, f *parser.Facts) bool {
	return f.Effects&parser.ReadsSetting != 0 && bytes.Contains(bytes.ToLower(text), []byte(parser.OptionPrefix))
}

// showOptions sets weft's parameters on the backend at hand before a text that reads them:
// PostgreSQL knows a custom parameter only after it has been set. idle says that no message
// of the client is under way on that backend.
func (rc *record) showOptions(idle bool) error {
	c := rc.s.held.conn
	if c.Status() == wire.TxFailed {
		return nil
	}
	local := !idle || c.Status() != wire.TxIdle // the setting ends with the client's transaction
	var b strings.Builder
	texts := rc.defaults().texts()
	for _, name := range optionNames {
		if v, _ := c.Settings().Get(name); v != "" && !local {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&b, "SELECT %s, pg_catalog.set_config(%[1]s, %s, %t) WHERE coalesce(pg_catalog.current_setting(%[1]s, true), '') = ''",
			quote.Literal(name), quote.Literal(texts[name]), local)
	}
	if b.Len() == 0 {
		return nil
	}
	if !idle {
		return rc.s.pipe.inject(b.String())
	}
	rows, err := c.Exec(b.String())
	if err != nil {
		return err
	}
	if !local {
		for _, r := range rows {
			c.NoteSettings(c.Settings().With(r[0], r[1]))
			rc.settings = rc.settings.With(r[0], r[1])
		}
	}
	return nil
}

// spellOptions gives the session's settings an explicit value for each of weft's parameters
// that has none, so that backends borrowed from now on get it.
func (rc *record) spellOptions() {
	if rc.s.tx.isOpen() || rc.optionsInFlux() {
		return // backends that take part in the block have their settings
	}
	for name, text := range rc.inEffect.texts() {
		if v, _ := rc.settings.Get(name); v == "" {
			rc.settings = rc.settings.With(name, text)
		}
	}
}

// beforeShow is showOptions for a simple query.
func (rc *record) beforeShow() error {
	if err := rc.s.held.acquire(); err != nil {
		return err
	}
	if err := rc.s.tx.quiesce(); err != nil {
		return err
	}
	return rc.showOptions(true)
}

// startupOptions refuses a client that connects with an invalid value for one of weft's
// parameters.
func startupOptions(packet []wire.Option) error {
	for _, p := range packet {
		if p.Name != "options" {
			if name := strings.ToLower(p.Name); isOption(name) {
				if err := new(options).set(name, p.Value); err != nil {
					return err
				}
			}
			continue
		}
		words := startupWords(p.Value)
		for i, w := range words {
			switch {
			case w == "-c" && i+1 < len(words):
				w = words[i+1]
			case strings.HasPrefix(w, "--"), strings.HasPrefix(w, "-c"):
				w = w[2:]
			default:
				continue
			}
			name, value, ok := strings.Cut(w, "=")
			if name = strings.ToLower(name); ok && isOption(name) {
				if err := new(options).set(name, value); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// startupWords splits the startup parameter options as PostgreSQL does: at blanks without a
// backslash before them.
func startupWords(text string) []string {
	var words []string
	var word strings.Builder
	inWord := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			word.WriteByte(text[i])
			inWord = true
		case c == ' ' || c >= '\t' && c <= '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}
