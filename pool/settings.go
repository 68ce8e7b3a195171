package pool

import (
	"hash/maphash"
	"slices"
	"strings"

	"weft/quote"
)

// Settings are the run-time parameters a client has changed in its session,
// by name. A Settings value never changes, so sessions, backends and
// statements can share it; nil means nothing is changed.
type Settings struct {
	list []Setting
	hash uint64
}

// Setting is one parameter and its value as current_setting() words it.
type Setting struct{ Name, Value string }

var settingsSeed = maphash.MakeSeed()

func newSettings(list []Setting) *Settings {
	if len(list) == 0 {
		return nil
	}
	var h maphash.Hash
	h.SetSeed(settingsSeed)
	for _, s := range list {
		h.WriteString(s.Name)
		h.WriteByte(0)
		h.WriteString(s.Value)
		h.WriteByte(0)
	}
	return &Settings{list: list, hash: h.Sum64()}
}

// SettingsOf returns the settings in the map.
func SettingsOf(m map[string]string) *Settings {
	list := make([]Setting, 0, len(m))
	for n, v := range m {
		list = append(list, Setting{n, v})
	}
	slices.SortFunc(list, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return newSettings(list)
}

// All returns the settings ordered by name. The caller must not change them.
func (s *Settings) All() []Setting {
	if s == nil {
		return nil
	}
	return s.list
}

// Get returns the value of one setting.
func (s *Settings) Get(name string) (string, bool) {
	if i, ok := s.find(name); ok {
		return s.list[i].Value, true
	}
	return "", false
}

// With returns s with one setting changed.
func (s *Settings) With(name, value string) *Settings {
	i, ok := s.find(name)
	list := slices.Clone(s.All())
	if ok {
		if list[i].Value == value {
			return s
		}
		list[i].Value = value
	} else {
		list = slices.Insert(list, i, Setting{name, value})
	}
	return newSettings(list)
}

// Without returns s with one setting back at its default.
func (s *Settings) Without(name string) *Settings {
	i, ok := s.find(name)
	if !ok {
		return s
	}
	return newSettings(slices.Delete(slices.Clone(s.list), i, i+1))
}

func (s *Settings) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.All(), name, func(e Setting, n string) int { return strings.Compare(e.Name, n) })
}

// Equal reports whether s and t hold the same settings.
func (s *Settings) Equal(t *Settings) bool {
	if s == t {
		return true
	}
	if s == nil || t == nil {
		return false
	}
	return s.hash == t.hash && slices.Equal(s.list, t.list)
}

// roles are the settings that are reset first and set last: which parameters may be changed
// depends on the role.
var roles = []string{"session_authorization", "role"}

func (s *Settings) value(name string) string {
	v, _ := s.Get(name)
	return v
}

// Steps returns the statements that take a backend from settings s to settings t. A change of
// client_encoding comes before all values, which are in the new encoding.
func (s *Settings) Steps(t *Settings) []string {
	if s.Equal(t) {
		return nil
	}
	var steps []string
	// While another role is set, nothing else can safely be changed.
	if _, on := s.Get("role"); on {
		steps = append(steps, "RESET ROLE")
	}
	if _, on := s.Get("session_authorization"); on {
		steps = append(steps, "RESET SESSION AUTHORIZATION")
	}
	// Values are in the encoding of the session they belong to.
	if from, to := s.value("client_encoding"), t.value("client_encoding"); from != to {
		if to == "" {
			steps = append(steps, "RESET client_encoding")
		} else {
			steps = append(steps, setConfig(Setting{"client_encoding", to}))
		}
	}
	for _, e := range s.All() {
		if e.Name == "client_encoding" {
			continue
		}
		if _, ok := t.Get(e.Name); !ok && !slices.Contains(roles, e.Name) {
			steps = append(steps, "RESET "+quoteName(e.Name))
		}
	}
	for _, e := range t.All() {
		if e.Name == "client_encoding" {
			continue
		}
		if v, ok := s.Get(e.Name); (!ok || v != e.Value) && !slices.Contains(roles, e.Name) {
			steps = append(steps, setConfig(e))
		}
	}
	for _, n := range roles {
		if v, ok := t.Get(n); ok {
			steps = append(steps, setConfig(Setting{n, v}))
		}
	}
	return steps
}

// setConfig is a SET as a function call, which takes a list value such as that of search_path as
// one string; SET would take the string for one identifier.
func setConfig(s Setting) string {
	return "SELECT pg_catalog.set_config(" + quote.Literal(s.Name) + "," + quote.Literal(s.Value) + ",false)"
}

// quoteName quotes a parameter's name, each part of a custom parameter's by itself.
func quoteName(name string) string {
	parts := strings.Split(name, ".")
	for i := range parts {
		parts[i] = quote.Ident(parts[i])
	}
	return strings.Join(parts, ".")
}
