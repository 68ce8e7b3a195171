package catalog

import (
	"regexp"
	"slices"
	"strings"
)

// Action is what a foreign key does to rows that reference a row which is deleted,
// or whose key is updated.
type Action byte

// The actions, by the letters that pg_constraint has for them.
const (
	NoAction   Action = 'a'
	Restrict   Action = 'r'
	Cascade    Action = 'c'
	SetNull    Action = 'n'
	SetDefault Action = 'd'
)

// String returns the action as SQL writes it.
func (a Action) String() string {
	switch a {
	case Restrict:
		return "RESTRICT"
	case Cascade:
		return "CASCADE"
	case SetNull:
		return "SET NULL"
	case SetDefault:
		return "SET DEFAULT"
	}
	return "NO ACTION"
}

var (
	actionText = regexp.MustCompile(`(?: ON UPDATE (CASCADE|RESTRICT|SET NULL|SET DEFAULT))?` +
		`(?: ON DELETE (CASCADE|RESTRICT|SET NULL|SET DEFAULT)(?: \(((?:"(?:[^"]|"")+"|[^"()])+)\))?)?(?: DEFERRABLE)?(?: INITIALLY DEFERRED)?(?: NOT VALID)?$`)
	identText = regexp.MustCompile(`"(?:[^"]|"")+"|[^\s",]+`)
	actions   = map[string]Action{"CASCADE": Cascade, "RESTRICT": Restrict, "SET NULL": SetNull, "SET DEFAULT": SetDefault}
)

// Actions returns what the foreign key does when a referenced row is updated or
// deleted. set are the columns that ON DELETE SET NULL or SET DEFAULT changes.
func (fk *ForeignKey) Actions() (update, del Action, set []string) {
	update, del, set = NoAction, NoAction, fk.Columns
	m := actionText.FindStringSubmatch(fk.Definition)
	if m == nil {
		return update, del, set
	}
	if a, ok := actions[m[1]]; ok {
		update = a
	}
	if a, ok := actions[m[2]]; ok {
		del = a
	}
	if m[3] != "" {
		set = nil
		for _, name := range identText.FindAllString(m[3], -1) {
			if strings.HasPrefix(name, `"`) {
				name = strings.ReplaceAll(name[1:len(name)-1], `""`, `"`)
			}
			set = append(set, name)
		}
	}
	return update, del, set
}

// ActionOf returns the action that a letter of pg_constraint stands for. An empty letter is
// NO ACTION.
func ActionOf(letter string) Action {
	switch a := Action((letter + "a")[0]); a {
	case Restrict, Cascade, SetNull, SetDefault:
		return a
	}
	return NoAction
}

// Rekeys returns the action of the foreign key that would give rows of a sharded table
// another shard key when the referenced table is written, or "" if there is none.
// colocated says that the referenced table is sharded by the same key, so that rows whose
// keys are updated together stay together.
func (fk *ForeignKey) Rekeys(keys []string, colocated bool) string {
	update, del, set := fk.Actions()
	return Rekeys(keys, fk.Columns, set, update, del, colocated)
}

// Rekeys is ForeignKey.Rekeys for a foreign key of columns that has these actions. set are
// the columns that its ON DELETE changes.
func Rekeys(keys, columns, set []string, update, del Action, colocated bool) string {
	has := func(columns []string) bool {
		return slices.ContainsFunc(columns, func(c string) bool { return slices.Contains(keys, c) })
	}
	switch {
	case (del == SetNull || del == SetDefault) && has(set):
		return "ON DELETE " + del.String()
	case (update == SetNull || update == SetDefault || update == Cascade && !colocated) && has(columns):
		return "ON UPDATE " + update.String()
	}
	return ""
}
