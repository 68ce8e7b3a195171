package routing

import (
	"fmt"
	"regexp"
	"strings"

	"weft/integration/pair"
)

// value spells a value of a type: as a literal of some kind, computed, or as a parameter.
func (g *generator) value(typ string) string {
	text := pick(g, samples[typ])
	if g.chance(4) {
		return pick(g, []string{"null", "null::" + typ})
	}
	if g.chance(45) {
		return g.param(typ, text)
	}
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	switch typ {
	case "int2", "int4", "int8":
		return g.oneOf(
			func() string { return text }, func() string { return text },
			func() string { return quoted },
			func() string { return quoted + "::" + typ },
			func() string { return "(" + text + ")::int8" },
			func() string { return text + " + 0" },
			func() string { return "(" + text + " - 1 + 1)" },
			func() string { return "cast(" + quoted + " as bigint)" },
			func() string { return text + ".0" },
			func() string { return text + "::numeric" },
			func() string { return text + "::float8" },
		)
	case "numeric":
		if number.MatchString(text) {
			return pick(g, []string{text, quoted, quoted + "::numeric", text + "::numeric(30,4)"})
		}
		return pick(g, []string{quoted, quoted + "::numeric"})
	case "text", "varchar":
		return pick(g, []string{quoted, quoted, quoted + "::text", "e" + quoted, quoted + "::varchar", "lower(" + quoted + ")", quoted + " || ''"})
	default:
		return pick(g, []string{quoted, quoted, quoted + "::" + typ, "cast(" + quoted + " as " + typ + ")"})
	}
}

// param makes a parameter, declared as its type, a relative of it, or not at all.
func (g *generator) param(typ, text string) string {
	declared := typ
	switch {
	case g.chance(40):
		declared = "unknown"
	case g.chance(25) && strings.HasPrefix(typ, "int"):
		declared = pick(g, []string{"int4", "int8", "numeric"})
		if declared == "int4" && len(text) > 11 {
			declared = "int8"
		}
	case g.chance(25) && typ == "varchar":
		declared = "text"
	}
	if typ == "numeric" && declared == "unknown" && g.chance(50) {
		declared = typ
	}
	g.params = append(g.params, pair.Param{Type: declared, Text: &text})
	out := fmt.Sprintf("$%d", len(g.params))
	if g.chance(15) {
		out += "::" + typ
	}
	return out
}

// array spells an array for = ANY.
func (g *generator) array(typ string) string {
	var list []string
	for range g.IntN(3) {
		list = append(list, `"`+pick(g, samples[typ])+`"`)
	}
	if g.chance(15) {
		list = append(list, "NULL")
	}
	text := "{" + strings.Join(list, ",") + "}"
	if _, known := pair.TypeOIDs[typ+"[]"]; known && g.chance(50) {
		g.params = append(g.params, pair.Param{Type: typ + "[]", Text: &text})
		return fmt.Sprintf("$%d", len(g.params))
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// number is what may stand without quotes.
var number = regexp.MustCompile(`^[0-9.]+$`)
