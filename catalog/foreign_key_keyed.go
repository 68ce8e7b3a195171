package catalog

import (
	"regexp"
	"slices"
	"strings"

	"weft/quote"
)

const (
	nameText  = `(?:"(?:[^"]|"")+"|[^\s",.()]+)`
	namesText = `\((?:` + nameText + `(?:, )?)+\)`
)

var linkText = regexp.MustCompile(`^FOREIGN KEY ` + namesText + ` REFERENCES ((?:` + nameText + `\.)?` + nameText + `)` + namesText + `(.*)$`)

// Contains reports whether the foreign key matches each column of from with the column of to in the same
// place: a row and the row that it references then have equal keys.
func (fk *ForeignKey) Contains(from, to []string) bool {
	for i, key := range from {
		at := slices.Index(fk.Columns, key)
		if at < 0 || at >= len(fk.RefColumns) || i >= len(to) || fk.RefColumns[at] != to[i] {
			return false
		}
	}
	return true
}

// Keyed returns the foreign key with the shard keys of both tables in front of its columns: the same
// reference, to rows of the same shard key only. ok is false if there is no such foreign key, because a key
// column is matched with another column already, or because of MATCH FULL, which would demand that all of the columns
// are NULL or none. The Definition follows if there is one.
func (fk *ForeignKey) Keyed(from, to []string) (keyed ForeignKey, ok bool) {
	keyed = *fk
	if len(from) != len(to) || len(fk.Columns) != len(fk.RefColumns) {
		return keyed, false
	}
	var columns, refs []string
	for i, key := range from {
		at := slices.Index(fk.Columns, key)
		switch {
		case at >= 0 && fk.RefColumns[at] == to[i]:
			continue
		case at >= 0 || slices.Contains(fk.RefColumns, to[i]):
			return keyed, false
		}
		columns, refs = append(columns, key), append(refs, to[i])
	}
	keyed.Columns, keyed.RefColumns = append(columns, fk.Columns...), append(refs, fk.RefColumns...)
	if fk.Definition == "" {
		return keyed, true
	}
	m := linkText.FindStringSubmatch(fk.Definition)
	if m == nil {
		return keyed, false
	}
	rest := m[2]
	if full := strings.HasPrefix(rest, " MATCH FULL"); full && len(fk.Columns) > 1 {
		return keyed, false
	} else if full {
		rest = strings.TrimPrefix(rest, " MATCH FULL")
	}
	// Without a list, ON DELETE SET NULL would take the shard key from the row.
	for _, action := range []string{" ON DELETE SET NULL", " ON DELETE SET DEFAULT"} {
		if before, after, found := strings.Cut(rest, action); found && !strings.HasPrefix(after, " (") {
			rest = before + action + " (" + quote.Idents(fk.Columns) + ")" + after
		}
	}
	keyed.Definition = "FOREIGN KEY (" + quote.Idents(keyed.Columns) + ") REFERENCES " + m[1] + "(" + quote.Idents(keyed.RefColumns) + ")" + rest
	return keyed, true
}

// HasUnique reports whether the relation has a unique index on exactly these columns, in whatever order, that a
// foreign key can reference.
func (r *Relation) HasUnique(columns []string) bool {
	return slices.ContainsFunc(r.Unique, func(u Unique) bool {
		if u.Exclusion || u.Partial || u.Deferrable || len(u.Columns) != len(columns) {
			return false
		}
		for _, c := range columns {
			if !slices.Contains(u.Columns, c) {
				return false
			}
		}
		return true
	})
}
