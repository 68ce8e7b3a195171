package vindex

import "weft/datum"

// single is a vindex of one column whose function gives the ID as it is.
type single struct {
	kind    string
	cost    Cost
	columns []Column
	function
	hashes bool // function is hash
}

var _ Computed = (*single)(nil)

func (s *single) Kind() string      { return s.kind }
func (s *single) Cost() Cost        { return s.cost }
func (s *single) Columns() []Column { return s.columns }

func (s *single) ID(keys []datum.Key) (ID, error) {
	if len(keys) != 1 {
		return 0, exactly(s, keys)
	}
	if s.hashes { // nearly every table's vindex, on every statement's way
		return ID(Hash(keys[0])), nil
	}
	id, err := s.of(keys[0])
	return ID(id), err
}

func (s *single) Ranges(dst []Range, keys []datum.Key) ([]Range, error) {
	if len(keys) == 0 {
		return append(dst, All), nil
	}
	id, err := s.ID(keys)
	if err != nil {
		return dst, err
	}
	return append(dst, Range{id, id}), nil
}

func (s *single) SQL(columns []string) string { return s.sql(columns[0]) }
