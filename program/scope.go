package program

// scope is a list of names, from the innermost outwards, as PostgreSQL keeps them: names of variables, and
// behind the names of a block the label of the block. Every Expr keeps the scope at its place.
type scope struct {
	prev *scope
	name string
	v    *Var // nil: a label
	loop bool // the label of a loop
}

// find looks for a variable by up to three names. It returns how many of the names it took. A scalar cannot
// be followed by another name.
func (s *scope) find(names []string, isRecord func(*Var) bool) (*Var, int) {
	for level := s; level != nil; {
		end := level
		for end.v != nil {
			end = end.prev
		}
		for item := level; item != end; item = item.prev {
			if item.name == names[0] && (len(names) == 1 || isRecord(item.v)) {
				return item.v, 1
			}
		}
		if len(names) > 1 && end.name == names[0] {
			for item := level; item != end; item = item.prev {
				if item.name == names[1] && (len(names) == 2 || isRecord(item.v)) {
					return item.v, 2
				}
			}
		}
		level = end.prev
	}
	return nil, 0
}

// local reports whether the innermost block has a variable of a name.
func (s *scope) local(name string) bool {
	for item := s; item.v != nil; item = item.prev {
		if item.name == name {
			return true
		}
	}
	return false
}

// label looks for the block or loop of a label.
func (s *scope) label(name string) *scope {
	for item := s; item != nil; item = item.prev {
		if item.v == nil && item.name == name {
			return item
		}
	}
	return nil
}

// mayBeRecord is what can be said of a variable before its type is looked up.
func mayBeRecord(v *Var) bool { return !scalars[lower(v.Type.Text)] }

// scalars are types that are certainly no rows.
var scalars = map[string]bool{
	"int": true, "integer": true, "bigint": true, "smallint": true, "text": true, "boolean": true, "bool": true, "numeric": true,
	"varchar": true, "date": true, "refcursor": true, "uuid": true, "float8": true,
}
