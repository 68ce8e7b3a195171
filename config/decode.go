package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// decoder fills a struct from a YAML file and remembers where each value was.
// The library's own decoder stops at the first mistake; people fix files
// faster when they see all of them.
type decoder struct {
	file     string
	problems Problems
	places   map[string]*token.Position
}

// decode fills into, a pointer to a struct that already holds the defaults.
func decode(file string, data []byte, into any) *decoder {
	d := &decoder{file: file, places: map[string]*token.Position{}}
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		d.syntax(err)
		return d
	}
	docs := 0
	for _, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if _, comment := doc.Body.(*ast.CommentGroupNode); comment {
			continue
		}
		if docs++; docs > 1 {
			d.bad(doc.Body, "", "a second document: the file must hold one")
			break
		}
		d.value(doc.Body, reflect.ValueOf(into).Elem(), "")
	}
	return d
}

func (d *decoder) syntax(err error) {
	p := &Problem{File: d.file, Reason: err.Error()}
	var ye yaml.Error
	if errors.As(err, &ye) {
		p.Reason = ye.GetMessage()
		if t := ye.GetToken(); t != nil && t.Position != nil {
			p.Line, p.Column = t.Position.Line, t.Position.Column
		}
	}
	d.problems = append(d.problems, p)
}

func (d *decoder) bad(n ast.Node, path, format string, args ...any) {
	p := &Problem{File: d.file, Path: path, Reason: fmt.Sprintf(format, args...)}
	if t := n.GetToken(); t != nil && t.Position != nil {
		p.Line, p.Column = t.Position.Line, t.Position.Column
	}
	d.problems = append(d.problems, p)
}

// finish adds the problems that validating found, at the places their paths
// were read from, and returns all of them as one error.
func (d *decoder) finish(found Problems) error {
	out := d.problems
	for _, p := range found {
		if d.unread(p.Path) {
			continue
		}
		p.File = d.file
		out = append(out, p)
		// A value that is not there is reported at the nearest thing around it.
		for path := p.Path; path != ""; path = parent(path) {
			if at := d.places[path]; at != nil {
				p.Line, p.Column = at.Line, at.Column
				break
			}
		}
	}
	return out.err()
}

// unread tells whether path, or something around it, could not be read: that
// is the problem then, not the value left in its place.
func (d *decoder) unread(path string) bool {
	for _, p := range d.problems {
		if rest, ok := strings.CutPrefix(path, p.Path); ok && (p.Path == "" || rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

var durationType = reflect.TypeFor[time.Duration]()

// value reads n into v. path is "" only for the whole file.
func (d *decoder) value(n ast.Node, v reflect.Value, path string) {
	if path != "" && d.places[path] == nil {
		if t := n.GetToken(); t != nil {
			d.places[path] = t.Position
		}
	}
	switch n.(type) {
	case *ast.NullNode:
		return // as if the key were not there
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.bad(n, path, "anchors, aliases and tags are not supported: write the value")
		return
	}
	_, text := v.Addr().Interface().(encoding.TextUnmarshaler)
	if m, mapping := n.(ast.MapNode); mapping && v.Type() == reflect.TypeFor[Host]() {
		if address := bareAddress(m); address != "" {
			v.Set(reflect.ValueOf(Host{Addr: address}))
			return
		}
		text = false // a host is a text or a mapping
	}
	if text || v.Type() == durationType {
		d.scalar(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(n, path, func(key string, value ast.Node) {
			d.field(key, value, v, path)
		})
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		d.mapping(n, path, func(key string, value ast.Node) {
			e := reflect.New(v.Type().Elem()).Elem()
			d.value(unpair(value), e, path+"."+key)
			m.SetMapIndex(reflect.ValueOf(key), e)
		})
		v.Set(m)
	case reflect.Slice:
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			d.bad(n, path, "must be a list")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
		for i, item := range seq.Values {
			d.value(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Interface:
		if x := d.any(n, path); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.value(n, p.Elem(), path)
		v.Set(p)
	default:
		d.scalar(n, v, path)
	}
}

// any reads a value whose shape the file decides: strings, numbers, booleans,
// lists ([]any) and maps (map[string]any).
func (d *decoder) any(n ast.Node, path string) any {
	switch n := n.(type) {
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.FloatNode:
		return n.Value
	case *ast.SequenceNode:
		var l []any
		d.value(n, reflect.ValueOf(&l).Elem(), path)
		return l
	case *ast.MappingNode, *ast.MappingValueNode:
		var m map[string]any
		d.value(n, reflect.ValueOf(&m).Elem(), path)
		return m
	}
	var s string
	d.scalar(n, reflect.ValueOf(&s).Elem(), path)
	return s
}

func (d *decoder) mapping(n ast.Node, path string, each func(key string, value ast.Node)) {
	m, ok := n.(ast.MapNode)
	if !ok {
		if path == "" {
			d.bad(n, "", "the file must hold keys and values")
		} else {
			d.bad(n, path, "must hold keys and values")
		}
		return
	}
	for it := m.MapRange(); it.Next(); {
		each(it.Key().GetToken().Value, it.KeyValue())
	}
}

// bareAddress returns the text of an address such as db-1:5432 that the parser takes for a mapping, as it does within braces: there
// YAML wants a space after the colon of a mapping. It is empty for other mappings.
func bareAddress(m ast.MapNode) string {
	pairs := m.MapRange()
	if !pairs.Next() {
		return ""
	}
	key, port := pairs.Key().GetToken(), unpair(pairs.Value())
	number, ok := port.(*ast.IntegerNode)
	if !ok || pairs.Next() || number.GetToken().Position.Offset > key.Position.Offset+len(key.Value)+1 {
		return ""
	}
	return key.Value + ":" + number.GetToken().Value
}

// unpair returns the value of a key and value; problems with unknown keys
// point at the key, all others at the value.
func unpair(n ast.Node) ast.Node {
	if kv, ok := n.(*ast.MappingValueNode); ok {
		return kv.Value
	}
	return n
}

func (d *decoder) field(key string, pair ast.Node, v reflect.Value, path string) {
	full := strings.TrimPrefix(path+"."+key, ".")
	var known []string
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		if name == key {
			kv := pair.(*ast.MappingValueNode)
			d.places[full] = kv.Key.GetToken().Position
			d.value(kv.Value, v.Field(i), full)
			return
		}
		known = append(known, name)
	}
	hint := suggest(key, known)
	if hint == "" {
		hint = "; known here: " + strings.Join(known, ", ")
	}
	d.bad(pair.(*ast.MappingValueNode).Key, full, "unknown key%s", hint)
}

// scalar reads a single value from the text it was written as, so that
// password: 0123 and min_version: 1.2 mean what they look like.
func (d *decoder) scalar(n ast.Node, v reflect.Value, path string) {
	var text string
	switch n := n.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.LiteralNode:
		text = n.Value.Value
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		d.bad(n, path, "must be a single value")
		return
	default:
		text = n.GetToken().Value
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			d.bad(n, path, "%v", err)
		}
		return
	}
	switch {
	case v.Type() == durationType:
		t, err := time.ParseDuration(text)
		if err != nil {
			d.bad(n, path, "%q is not a duration: write a number with its unit, for example 500ms, 30s or 10m", text)
			return
		}
		v.SetInt(int64(t))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.bad(n, path, "%q is neither true nor false", text)
			return
		}
		v.SetBool(b.Value)
	case v.Kind() == reflect.Int:
		i, err := strconv.Atoi(strings.ReplaceAll(text, "_", ""))
		if err != nil {
			d.bad(n, path, "%q is not a whole number", text)
			return
		}
		v.SetInt(int64(i))
	default:
		// A field of a kind that no file can fill is our mistake; the test
		// that reads every field finds it.
		panic("config: cannot decode " + path + " of type " + v.Type().String())
	}
}
