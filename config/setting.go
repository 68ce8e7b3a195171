package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Setting is one key of weft.yaml with its value, for people.
type Setting struct {
	Path, Value string
	// Reload: a change takes effect when the file is read again.
	Reload bool
}

// reloaded are the keys that take effect when the file is read again, with all
// that is below them. The others need a restart.
var reloaded = []string{"admin_users", "proxy_protocol", "tls", "auth", "pool", "gather", "limits", "log.level", "log.slow_statement", "statements", "heat", "tracing.ratio"}

// Reloads reports whether a change of a key takes effect when the file is read
// again.
func Reloads(path string) bool {
	return slices.ContainsFunc(reloaded, func(r string) bool { return path == r || strings.HasPrefix(path, r+".") })
}

// secretWords are in the names of keys whose values are not shown.
var secretWords = []string{"password", "secret", "token", "verifier"}

func secret(key string) bool {
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(key, w) })
}

// Settings lists every key with its value. Of secrets it says no more than that
// there is one.
func (c Config) Settings() []Setting {
	var out []Setting
	walk(reflect.ValueOf(&c).Elem(), "", func(path string, v reflect.Value) {
		out = append(out, Setting{path, show(path, v), Reloads(path)})
	})
	return out
}

// Keep returns next with those keys as they are in c that need a restart, and
// the names of those that were to change.
func (c Config) Keep(next Config) (kept Config, restart []string) {
	old := map[string]reflect.Value{}
	walk(reflect.ValueOf(&c).Elem(), "", func(path string, v reflect.Value) { old[path] = v })
	walk(reflect.ValueOf(&next).Elem(), "", func(path string, v reflect.Value) {
		if was := old[path]; !Reloads(path) && !reflect.DeepEqual(was.Interface(), v.Interface()) {
			restart = append(restart, path)
			v.Set(was)
		}
	})
	return next, restart
}

// Changes says, for people, in which keys next differs from c.
func (c Config) Changes(next Config) []string {
	old := map[string]reflect.Value{}
	walk(reflect.ValueOf(&c).Elem(), "", func(path string, v reflect.Value) { old[path] = v })
	var out []string
	walk(reflect.ValueOf(&next).Elem(), "", func(path string, v reflect.Value) {
		was := old[path]
		if reflect.DeepEqual(was.Interface(), v.Interface()) {
			return
		}
		from, to := show(path, was), show(path, v)
		if v.Kind() == reflect.Slice || from == to {
			out = append(out, path)
			return
		}
		out = append(out, fmt.Sprintf("%s from %s to %s", path, or(from, "nothing"), or(to, "nothing")))
	})
	return out
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// walk calls f for each key that has a value of its own: lists count as one.
func walk(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		full := strings.TrimPrefix(path+"."+key, ".")
		if e := v.Field(i); e.Kind() == reflect.Struct && !textual(e) {
			walk(e, full, f)
		} else {
			f(full, e)
		}
	}
}

func textual(v reflect.Value) bool {
	_, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	return ok
}

// show writes a value as the file would have it.
func show(path string, v reflect.Value) string {
	key := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case v.Kind() == reflect.String && v.Len() == 0, v.Kind() == reflect.Slice && v.Len() == 0, v.Kind() == reflect.Pointer && v.IsNil():
		return ""
	case secret(key):
		return "(secret)"
	case v.Type() == durationType:
		return v.Interface().(time.Duration).String()
	}
	if s, ok := v.Interface().(fmt.Stringer); ok {
		return s.String()
	}
	switch v.Kind() {
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = show(key, v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Struct:
		var parts []string
		walk(v, "", func(path string, e reflect.Value) {
			if s := show(path, e); s != "" && !e.IsZero() {
				parts = append(parts, path+": "+s)
			}
		})
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Pointer:
		return show(path, v.Elem())
	}
	return fmt.Sprint(v.Interface())
}
