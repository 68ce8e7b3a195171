package catalog

// HasPlainOperator reports whether users have made an operator of that name for values of built-in types, in any schema.
func (s *Schema) HasPlainOperator(name string) bool {
	return s.connection == nil || s.connection.plainOperators[name]
}

// HasPlainCast reports whether users have made a cast by a function between two built-in types. Such a cast may run in
// any statement, and none names it.
func (s *Schema) HasPlainCast() bool { return s.connection == nil || s.connection.plainCast }
