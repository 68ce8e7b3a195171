package planner

import (
	"fmt"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/copydata"
)

// copyOptions are the options of a COPY.
type copyOptions struct {
	format   copydata.Format
	encoding string
	quoted   []string // FORCE_QUOTE; "*" is all
	// unclear is an option that weft does not know: the server will reject it, or the server is
	// newer than weft.
	unclear string
}

// copyOptions reads the options, in either syntax. columns are the columns of the data.
func (cp copying) copyOptions(n *pg.CopyStmt, columns []string) (out copyOptions) {
	given := map[string]*pg.Node{}
	for _, o := range n.Options {
		d := o.GetDefElem()
		if _, twice := given[d.GetDefname()]; twice {
			out.unclear = fmt.Sprintf("option %s", strings.ToUpper(d.GetDefname()))
		}
		given[d.GetDefname()] = d.GetArg()
	}
	kind := copydata.Text
	if v, ok := given["format"]; ok {
		i := slices.Index([]string{"text", "csv", "binary"}, v.GetString_().GetSval())
		if i < 0 {
			out.unclear = "option FORMAT"
		}
		kind = copydata.Kind(max(i, 0))
	}
	out.format = copydata.Default(kind)
	out.format.Server = cp.a.env.Schema.Server
	for _, o := range n.Options {
		d := o.GetDefElem()
		if !out.read(d.GetDefname(), d.GetArg(), columns, n.IsFrom) {
			out.unclear = fmt.Sprintf("option %s", strings.ToUpper(d.GetDefname()))
		}
	}
	f := &out.format
	if _, ok := given["escape"]; !ok {
		f.Escape = f.Quote
	}
	return out
}

// read takes one option. It reports false if the option is malformed.
func (o *copyOptions) read(name string, arg *pg.Node, columns []string, from bool) bool {
	f := &o.format
	text, isText := arg.GetString_().GetSval(), arg.GetString_() != nil
	one := func(dst *byte) bool {
		if len(text) != 1 {
			return false
		}
		*dst = text[0]
		return f.Kind != copydata.Binary
	}
	switch name {
	case "format", "freeze":
		return true
	case "delimiter":
		return one(&f.Delimiter)
	case "quote":
		return one(&f.Quote) && f.Kind == copydata.CSV
	case "escape":
		return one(&f.Escape) && f.Kind == copydata.CSV
	case "null":
		f.Null = text
		return isText && f.Kind != copydata.Binary && !strings.ContainsAny(text, "\r\n")
	case "encoding":
		o.encoding = text
		return isText
	case "header":
		return o.header(arg, from)
	case "force_not_null":
		return from && f.Kind == copydata.CSV && flags(&f.NotNull, arg, columns)
	case "force_null":
		return from && f.Kind == copydata.CSV && flags(&f.Nullable, arg, columns)
	case "force_quote":
		if o.quoted = nameList(arg.GetList().GetItems()); arg.GetAStar() != nil {
			o.quoted = []string{"*"}
		}
		return !from && f.Kind == copydata.CSV && len(o.quoted) > 0
	}
	return false
}

// plainOptions spells the options in the one syntax that the deparser writes back correctly.
func plainOptions(list []*pg.Node) {
	for _, o := range list {
		d := o.GetDefElem()
		if name := d.GetDefname(); name != "header" && name != "freeze" {
			continue
		}
		on := d.Arg == nil || d.Arg.GetBoolean().GetBoolval() || d.Arg.GetInteger().GetIval() == 1
		word := strings.ToLower(d.Arg.GetString_().GetSval())
		switch {
		case d.Arg.GetString_() != nil && word != "on" && word != "off":
		case on || word == "on":
			d.Arg = pg.MakeStrNode("true")
		default:
			d.Arg = pg.MakeStrNode("false")
		}
	}
}

// header reads HEADER, whose value is a boolean in any spelling, or match.
func (o *copyOptions) header(arg *pg.Node, from bool) bool {
	f := &o.format
	switch {
	case arg == nil:
		f.Header = copydata.SkipHeader
	case arg.GetInteger() != nil && arg.GetInteger().Ival <= 1:
		f.Header = copydata.Header(arg.GetInteger().Ival)
	case arg.GetBoolean() != nil:
		if arg.GetBoolean().Boolval {
			f.Header = copydata.SkipHeader
		}
	default:
		switch strings.ToLower(arg.GetString_().GetSval()) {
		case "true", "on":
			f.Header = copydata.SkipHeader
		case "false", "off":
		case "match":
			f.Header = copydata.MatchHeader
			return from && f.Kind != copydata.Binary
		default:
			return false
		}
	}
	return f.Kind != copydata.Binary || f.Header == copydata.NoHeader
}

// flags marks the columns that an option lists.
func flags(dst *[]bool, arg *pg.Node, columns []string) bool {
	*dst = make([]bool, len(columns))
	names := nameList(arg.GetList().GetItems())
	for _, name := range names {
		i := slices.Index(columns, name)
		if i < 0 || (*dst)[i] {
			return false
		}
		(*dst)[i] = true
	}
	return len(names) > 0
}
