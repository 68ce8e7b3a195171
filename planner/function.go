package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/pgerr"
)

// call notes a function that the statement calls.
func (l *level) call(f *pg.FuncCall) {
	names := nameList(f.Funcname)
	name := names[len(names)-1]
	schema := ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	if schema == ownSchema {
		if _, known := own[name]; !known {
			l.a.refuse(pgerr.InsufficientPrivilege, "", "permission denied for schema %s: %s is no function for clients", ownSchema, name)
			return
		}
		l.a.unsupported("Call it as the only item of a SELECT: SELECT weft."+name+"(…).",
			"weft.%s cannot be part of a larger statement", name)
		return
	}
	if users := l.a.reach().userFunctions(schema, name); len(users) > 0 {
		l.locksWhereCalled(users)
		if l.placedCall(users, f) {
			l.a.notes.calls(users[0].Volatility)
			return
		}
		l.a.functions = append(l.a.functions, users...)
		for _, f := range users {
			l.a.notes.calls(f.Volatility)
		}
		return
	}
	if _, known := citus[name]; known && schema == "" {
		l.a.unsupported("Call it as the only item of a SELECT: SELECT "+name+"(…).", "%s cannot be part of a larger statement", name)
		return
	}
	l.a.probe.call(l.a, f)
	l.a.notes.calls(l.a.reach().volatility(name))
	switch {
	case isTemporary(schema):
		l.a.touched.homely = append(l.a.touched.homely, name)
		l.a.touched.temporary = name
	case name == "nextval" || name == "currval" || name == "lastval" || name == "setval":
		l.a.touched.sequences = append(l.a.touched.sequences, name)
	case runsSQL[name] && !l.a.env.Tables.Empty():
		l.a.unsupported("Send the query itself.", "%s runs a query that cannot be looked into, and would see one shard", name)
	case strings.Contains(name, "advisory"):
		l.a.touched.homely = append(l.a.touched.homely, name)
		l.a.touched.advisory = true
	case sizeFunctions[name]:
		l.a.touched.homely = append(l.a.touched.homely, name)
		l.a.touched.sizes = append(l.a.touched.sizes, f)
		l.a.touched.sizesInView = l.a.touched.sizesInView || l.a.text.stored
	case homely(name):
		l.a.touched.homely = append(l.a.touched.homely, name)
	}
}

// volatility returns the volatility of a built-in function. An unknown function counts as volatile.
func (re reach) volatility(name string) byte {
	if re.a.env.Schema == nil {
		return 'v'
	}
	if t := re.a.env.Schema.Builtin(name); t.Known {
		return t.Volatility
	}
	return 'v'
}

// runsSQL are the built-in functions that run a query given as text, or read
// tables given by name.
var runsSQL = set("query_to_xml", "query_to_xmlschema", "query_to_xml_and_xmlschema", "table_to_xml", "table_to_xmlschema",
	"table_to_xml_and_xmlschema", "schema_to_xml", "schema_to_xmlschema", "schema_to_xml_and_xmlschema", "database_to_xml",
	"database_to_xmlschema", "database_to_xml_and_xmlschema", "ts_stat", "ts_rewrite")

// userFunctions returns the user's functions that a call may mean.
func (re reach) userFunctions(schema, name string) []*catalog.Function {
	if re.a.env.Schema == nil || schema == "pg_catalog" {
		return nil
	}
	var out []*catalog.Function
	for _, f := range re.a.env.Schema.Functions(name) {
		if f.Schema == schema || schema == "" && slices.Contains(re.a.text.path, f.Schema) {
			out = append(out, f)
		}
	}
	return out
}

// homely reports whether a built-in function looks at or changes the server that it runs on, and so
// runs on the home shard where nothing else decides.
func homely(name string) bool {
	switch name {
	case "pg_typeof", "pg_sleep", "pg_backend_pid", "pg_column_size", "pg_client_encoding", "pg_is_in_recovery":
		return false
	case "set_config", "setseed", "obj_description", "col_description", "shobj_description", "format_type",
		"cursor_to_xml", "cursor_to_xmlschema", "inet_server_addr", "inet_server_port", "row_security_active":
		return true
	}
	for _, prefix := range []string{"pg_", "lo_", "has_", "to_reg", "txid_", "dblink", "binary_upgrade"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "loread" || name == "lowrite"
}
