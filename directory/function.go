package directory

import "slices"

// Function declares that a function runs on the shard that one of its arguments leads to, as the
// key of a table would.
type Function struct {
	Database string `json:"database"`
	Schema   string `json:"schema"`
	Name     string `json:"name"`
	// Argument is the index, from 0, of the argument that leads to the shard.
	Argument int    `json:"argument"`
	Column   Column `json:"column"`
	Vindex   Vindex `json:"vindex"`
}

// Table returns a table whose key is the function's argument.
func (f *Function) Table() Table {
	return Table{Database: f.Database, Schema: f.Schema, Name: f.Name, Kind: Sharded, Columns: []Column{f.Column}, Vindex: f.Vindex}
}

// PutFunction adds a declaration, or replaces that of the same function. s must be a Clone.
func (s *Snapshot) PutFunction(f Function) {
	s.DropFunction(f.Database, f.Schema, f.Name)
	s.Functions = append(s.Functions, f)
}

// DropFunction removes a declaration, and reports whether there was one.
func (s *Snapshot) DropFunction(database, schema, name string) bool {
	n := len(s.Functions)
	s.Functions = slices.DeleteFunc(s.Functions, func(f Function) bool {
		return f.Database == database && f.Schema == schema && f.Name == name
	})
	return len(s.Functions) < n
}

// Placed returns the declared functions of a database.
func (s *Snapshot) Placed(database string) []Function {
	var out []Function
	for _, f := range s.Functions {
		if f.Database == database {
			out = append(out, f)
		}
	}
	return out
}

// Equal reports whether two declarations say the same.
func (f *Function) Equal(o *Function) bool {
	return f.Database == o.Database && f.Schema == o.Schema && f.Name == o.Name && f.Argument == o.Argument &&
		f.Column == o.Column && f.Vindex.Equal(&o.Vindex)
}
