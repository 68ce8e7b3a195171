package catalog

import (
	"regexp"
	"slices"
	"strings"
)

// Effects says which functions of a database may change the session that
// calls them: set parameters beyond their transaction, make temporary tables,
// take advisory locks. Most databases have none.
//
// It is a guess on the safe side, made from the functions' source text: a
// function named here costs its callers a question to the backend, nothing
// else.
type Effects struct {
	functions map[string]bool
	// triggers: one of them is a trigger's, so any write may call it.
	triggers bool
	// Placeholders are the custom parameters the functions name.
	Placeholders []string
}

// EffectsQuery returns the source of every function whose text looks as if it
// changed its session, and of every function that is small enough to call one
// of those: name, whether it looks so itself, whether it is a trigger, source.
const EffectsQuery = `SELECT p.proname, src ~* '` + changes + `' AS changes, p.prorettype IN ('trigger'::regtype, 'event_trigger'::regtype), src
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_language l ON l.oid = p.prolang,
LATERAL (SELECT p.prosrc || coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), '') AS src) s
WHERE p.oid >= 16384 AND l.lanname NOT IN ('c', 'internal')
AND EXISTS (SELECT FROM pg_catalog.pg_proc q JOIN pg_catalog.pg_language m ON m.oid = q.prolang
  WHERE q.oid >= 16384 AND m.lanname NOT IN ('c', 'internal')
  AND q.prosrc || coalesce(pg_catalog.pg_get_function_sqlbody(q.oid), '') ~* '` + changes + `')`

// changes matches source text that may change the session. SET counts at the
// start of a statement only: UPDATE has one too.
const changes = `\mset_config\M|\mpg_temp|\mtemp(orary)?\M|advisory_(un)?lock|advisory_lock|\msetseed\M|\mdblink_connect` +
	`|\mwith\s+hold\M|(^|;|\m(begin|then|else|loop)\M|'''')(\s|--[^\n]*\n|/\*.*?\*/)*\m(set|reset|discard|listen|unlisten|load|prepare|deallocate)\M`

var customName = regexp.MustCompile(`(?i)['\s]([a-z_][a-z0-9_$]*\.[a-z_][a-z0-9_$.]*)['\s=]`)

// NewEffects makes Effects of the rows that EffectsQuery returns.
func NewEffects(rows [][]string) *Effects {
	e := &Effects{functions: map[string]bool{}}
	if len(rows) == 0 {
		return e
	}
	for _, r := range rows {
		if r[1] == "t" {
			e.functions[strings.ToLower(r[0])] = true
		}
	}
	// Whoever mentions one may call it. Few rows, few rounds.
	for changed := true; changed; {
		changed = false
		for _, r := range rows {
			name := strings.ToLower(r[0])
			if !e.functions[name] && mentions(strings.ToLower(r[3]), e.functions) {
				e.functions[name], changed = true, true
			}
		}
	}
	for _, r := range rows {
		if !e.functions[strings.ToLower(r[0])] {
			continue
		}
		e.triggers = e.triggers || r[2] == "t"
		for _, m := range customName.FindAllStringSubmatch(r[3], -1) {
			if name := strings.ToLower(m[1]); !slices.Contains(e.Placeholders, name) {
				e.Placeholders = append(e.Placeholders, name)
			}
		}
	}
	return e
}

func mentions(source string, names map[string]bool) bool {
	for _, word := range strings.FieldsFunc(source, func(r rune) bool {
		return r != '_' && r != '$' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && r < 128
	}) {
		if names[word] {
			return true
		}
	}
	return false
}

// Touches reports whether a statement that calls these functions, or writes,
// may change its session.
func (e *Effects) Touches(functions []string, writes bool) bool {
	if len(e.functions) == 0 {
		return false
	}
	if writes && e.triggers {
		return true
	}
	for _, f := range functions {
		if e.functions[f] {
			return true
		}
	}
	return false
}
