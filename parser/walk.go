package parser

import (
	"reflect"
	"sync"
)

// walk visits a message of a parse tree and, where visit returns true, everything below it, in the order of the fields. It
// goes by reflection, so that no place where an expression can hide is forgotten, now or after an upgrade of pg_query.
func walk(message any, visit func(message any) bool) {
	v := reflect.ValueOf(message)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		walkValue(v, visit)
	}
}

func walkValue(ptr reflect.Value, visit func(any) bool) {
	if !visit(ptr.Interface()) {
		return
	}
	s := ptr.Elem()
	for _, i := range childFields(s.Type()) {
		f := s.Field(i)
		switch f.Kind() {
		case reflect.Slice:
			for j := range f.Len() {
				if e := f.Index(j); !e.IsNil() {
					walkValue(e, visit)
				}
			}
		case reflect.Interface: // a oneof: a pointer to a struct of one field
			if f.IsNil() {
				continue
			}
			if one := f.Elem().Elem().Field(0); one.Kind() == reflect.Pointer && !one.IsNil() {
				walkValue(one, visit)
			}
		default:
			if !f.IsNil() {
				walkValue(f, visit)
			}
		}
	}
}

// children remembers per message type which fields hold messages.
var children sync.Map // reflect.Type → []int

func childFields(t reflect.Type) []int {
	if fields, ok := children.Load(t); ok {
		return fields.([]int)
	}
	var fields []int
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		switch ft := f.Type; ft.Kind() {
		case reflect.Pointer, reflect.Interface:
			fields = append(fields, i)
		case reflect.Slice:
			if ft.Elem().Kind() == reflect.Pointer {
				fields = append(fields, i)
			}
		}
	}
	children.Store(t, fields)
	return fields
}
