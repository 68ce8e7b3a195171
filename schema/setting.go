package schema

import (
	"strings"

	"weft/quote"
)

// listSettings are the parameters whose values are lists of names. PostgreSQL keeps such a list as
// one text, and takes it back as one value for each name, as pg_dumpall writes it.
var listSettings = map[string]bool{
	"local_preload_libraries": true, "search_path": true, "session_preload_libraries": true, "shared_preload_libraries": true, "temp_tablespaces": true,
	"unix_socket_directories": true,
}

// foldedSettings are the list parameters whose names are SQL names: without quotes they are folded
// to lower case.
var foldedSettings = map[string]bool{"search_path": true, "temp_tablespaces": true}

// settingLine returns the statement for a row of roleSettingsQuery.
func settingLine(row []string) string {
	role, database, setting := row[0], row[1], row[2]
	b := []byte("ALTER ")
	if role == "" {
		b = quote.AppendIdent(append(b, "DATABASE "...), database)
	} else {
		b = quote.AppendIdent(append(b, "ROLE "...), role)
		if database != "" {
			b = quote.AppendIdent(append(b, " IN DATABASE "...), database)
		}
	}
	name, value, _ := strings.Cut(setting, "=")
	b = append(b, " SET "...)
	for i, part := range strings.Split(name, ".") { // the parts of a custom parameter's name
		if i > 0 {
			b = append(b, '.')
		}
		b = quote.AppendIdent(b, part)
	}
	values := []string{value}
	if listSettings[strings.ToLower(name)] {
		if values = splitNames(value, foldedSettings[strings.ToLower(name)]); len(values) == 0 {
			values = []string{""}
		}
	}
	for i, v := range values {
		values[i] = quote.Literal(v)
	}
	return string(append(b, " TO "...)) + strings.Join(values, ", ")
}

// splitNames cuts a list of names as PostgreSQL keeps it: separated by commas, with white space
// around them that does not count; a name in double quotes may hold anything. A text that is not
// such a list is one name.
func splitNames(list string, fold bool) []string {
	const space = " \t\n\r\f\v"
	var names []string
	rest := strings.Trim(list, space)
	for rest != "" {
		var name string
		if rest[0] == '"' {
			end := 1
			for end < len(rest) && (rest[end] != '"' || end+1 < len(rest) && rest[end+1] == '"') {
				if rest[end] == '"' {
					end++
				}
				end++
			}
			if end >= len(rest) {
				return []string{list}
			}
			name, rest = strings.ReplaceAll(rest[1:end], `""`, `"`), rest[end+1:]
		} else {
			end := strings.IndexAny(rest, ","+space)
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return []string{list}
			}
			name, rest = rest[:end], rest[end:]
			if fold {
				name = strings.ToLower(name)
			}
		}
		names = append(names, name)
		if rest = strings.TrimLeft(rest, space); rest == "" {
			break
		}
		if rest[0] != ',' {
			return []string{list}
		}
		if rest = strings.TrimLeft(rest[1:], space); rest == "" {
			return []string{list}
		}
	}
	return names
}
