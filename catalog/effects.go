package catalog

import (
	"regexp"
	"slices"
	"strings"

	"weft/quote"
)

// Effects says which functions of a database may change the session that
// calls them: set parameters beyond their transaction, make temporary tables,
// take advisory locks. Most databases have none.
//
// Effects is a guess on the safe side, made from the functions' source text. A function that is
// listed without need costs a session that calls it one question to the backend.
type Effects struct {
	functions map[string]Touch
	// triggers is the most that a trigger's function may do: any write may call it.
	triggers Touch
	// hidden is the most that a function called by a view, default, constraint, operator, cast or
	// the like may do: any statement may call it.
	hidden Touch
	// ReadsSequences says that something stored in the database reads currval or lastval, so that
	// a text need not name them.
	ReadsSequences bool
	// Notifies says that there is a function whose text has the word notify.
	Notifies bool
	// Placeholders are the custom parameters the functions name.
	Placeholders []string
}

// Touch is how much a function may do to the session that calls it.
type Touch uint8

const (
	// Untouched means nothing that outlives the function's transaction.
	Untouched Touch = iota
	// Unread means that the function runs texts put together at run time, which may
	// change its session. Few of these texts do, so callers do not pay for Unread as
	// they do for Touched, which may also mean that the schema has changed.
	Unread
	// Touched means that the function looks as if it changed its session.
	Touched
)

// EffectsQuery returns one row about the database as a whole, with an empty
// name: whether a view, default or constraint calls a built-in function that
// changes sessions (except weft's own default, which clients do not reach), whether a
// view, default or function reads currval or lastval, and whether a function has the word notify.
// If any function's source looks as if it changed its session (t) or ran texts put together at run
// time (d), EffectsQuery also returns all functions, because they may call that function: the name,
// t, d or f for neither, whether the function is a trigger's, whether anything depends on the
// function except triggers and event triggers (DDL is examined anyway), and the source.
var EffectsQuery = `SELECT '', CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE oid >= 16384 AND ev_action::text ~ ` + pattern(builtins) + `)
  OR EXISTS (SELECT FROM pg_catalog.pg_attrdef WHERE adbin::text ~ ` + pattern(builtins) + `
    AND adrelid IS DISTINCT FROM pg_catalog.to_regclass('weft.decision'))
  OR EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conbin::text ~ ` + pattern(builtins) + `) THEN 't' ELSE 'f' END,
  EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE oid >= 16384 AND ev_action::text ~ ` + pattern(sequenceReaders) + `)
  OR EXISTS (SELECT FROM pg_catalog.pg_attrdef WHERE adbin::text ~ ` + pattern(sequenceReaders) + `)
  OR EXISTS (SELECT FROM pg_catalog.pg_proc WHERE oid >= 16384 AND (prosrc ~* ` + pattern(`\m(currval|lastval)\M`) + ` OR prosqlbody::text ~ ` + pattern(sequenceReaders) + `)),
  EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE oid >= 16384 AND (prosrc ~* 'notify' OR prosqlbody::text ~ ':funcid 3036 ') AND ` + foreign("p") + `), ''
UNION ALL
SELECT p.proname, CASE WHEN ` + changing("p") + ` THEN 't' WHEN ` + runsTexts("p") + ` THEN 'd' ELSE 'f' END, p.prorettype IN (2279, 3838),
  EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.refclassid = 1255 AND d.refobjid = p.oid AND d.classid NOT IN (2620, 3466) AND d.deptype <> 'e'), p.prosrc
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE p.oid >= 16384 AND l.lanname NOT IN ('c', 'internal') AND ` + foreign("p") + `
AND EXISTS (SELECT FROM pg_catalog.pg_proc q JOIN pg_catalog.pg_language m ON m.oid = q.prolang
  WHERE q.oid >= 16384 AND m.lanname NOT IN ('c', 'internal') AND ` + foreign("q") + `
  AND (` + changing("q") + ` OR ` + runsTexts("q") + `))`

// changing returns the SQL condition that function p looks as if it changed its session. The
// condition reads the stored tree of a body in standard SQL, because asking for the body's text
// would lock every table that the body names.
func changing(p string) string {
	return "(" + p + ".prosrc ~* " + pattern(changes) + " OR coalesce(" + p + ".prosqlbody::text ~ " + pattern(builtins) + ", false))"
}

// runsTexts returns the SQL condition that function p runs texts put together at run time.
func runsTexts(p string) string { return p + ".prosrc ~* " + pattern(dynamic) }

// foreign returns the SQL condition that function p is not weft's own. Clients reach weft's own
// functions through triggers, and these functions leave sessions as they are.
func foreign(p string) string {
	return p + ".pronamespace IS DISTINCT FROM pg_catalog.to_regnamespace('weft')"
}

// pattern writes a regular expression as an SQL literal. The constants below have their quotes
// doubled already.
func pattern(s string) string { return quote.Literal(strings.ReplaceAll(s, "''", "'")) }

// builtins matches a stored expression that calls set_config, setseed or a
// function that takes a session-level advisory lock.
const builtins = `:funcid (2078|1599|2880|2881|2882|2883|2884|2885|2886|2887|2888|2889|2890|2891|2892) `

// sequenceReaders matches a stored expression that calls currval or lastval.
const sequenceReaders = `:funcid (1575|2559) `

// dynamic matches source text that runs a text put together at run time, unless the text that
// is run begins like a statement that leaves the session alone.
const dynamic = `\mexecute\M(?!(\s|\()*(function\M|procedure\M|on\M|(format\s*\(\s*)?(e?''|\$\w*\$)\s*(insert|update|delete|select|with|truncate|lock|analyze|refresh|values)\M))|\mspi_\w+`

// changes matches source text that may change the session. SET counts only at the start
// of a statement, because UPDATE has a SET too.
const changes = `\mset_config\M|\mpg_temp|\mtemp(orary)?\M|advisory_(un)?lock|advisory_lock|\msetseed\M|\mdblink_connect` +
	`|\mwith\s+hold\M|\m(create|alter|drop)\M|(^|;|\m(begin|then|else|loop)\M|''|\$\w*\$)(\s|--[^\n]*\n|/\*.*?\*/)*\m(set|reset|discard|listen|unlisten|load|prepare|deallocate)\M`

// customName finds the names of custom parameters, which have a dot.
var customName = regexp.MustCompile(`(?i)['\s]([a-z_][a-z0-9_$]*\.[a-z_][a-z0-9_$.]*)['\s=]`)

// NewEffects makes Effects of the rows that EffectsQuery returns.
func NewEffects(rows [][]string) *Effects {
	e := &Effects{functions: map[string]Touch{}}
	for i, r := range rows {
		if r[0] == "" {
			e.hidden, e.ReadsSequences, e.Notifies = touchOf(r[1]), r[2] == "t", r[3] == "t"
			rows = append(rows[:i:i], rows[i+1:]...)
			break
		}
	}
	for _, r := range rows {
		if t := touchOf(r[1]); t != Untouched {
			name := strings.ToLower(r[0])
			e.functions[name] = max(e.functions[name], t)
		}
	}
	// A function whose source mentions another function may call it. Rows are few, and so are rounds.
	for changed := true; changed; {
		changed = false
		for _, r := range rows {
			name := strings.ToLower(r[0])
			if e.functions[name] == Touched {
				continue
			}
			if t := mentions(strings.ToLower(r[4]), e.functions); t > e.functions[name] {
				e.functions[name], changed = t, true
			}
		}
	}
	for _, r := range rows {
		t := e.functions[strings.ToLower(r[0])]
		if t == Untouched {
			continue
		}
		if r[2] == "t" {
			e.triggers = max(e.triggers, t)
		}
		if r[3] == "t" {
			e.hidden = max(e.hidden, t)
		}
		for _, m := range customName.FindAllStringSubmatch(r[4], -1) {
			if name := strings.ToLower(m[1]); !slices.Contains(e.Placeholders, name) {
				e.Placeholders = append(e.Placeholders, name)
			}
		}
	}
	return e
}

// touchOf reads the second column of EffectsQuery.
func touchOf(word string) Touch {
	switch word {
	case "t":
		return Touched
	case "d":
		return Unread
	}
	return Untouched
}

// mentions returns the most that any function whose name is in the source may do.
func mentions(source string, names map[string]Touch) (most Touch) {
	for _, word := range strings.FieldsFunc(source, func(r rune) bool {
		return r != '_' && r != '$' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && r < 128
	}) {
		most = max(most, names[word])
	}
	return most
}

// Touches returns how much a statement that calls these functions, or writes,
// may do to its session.
func (e *Effects) Touches(functions []string, writes bool) Touch {
	most := e.hidden
	if writes {
		most = max(most, e.triggers)
	}
	for _, f := range functions {
		most = max(most, e.functions[f])
	}
	return most
}
