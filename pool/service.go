package pool

import "weft/wire"

// serviceSettings are the settings of connections that weft uses for itself, whatever the settings
// of the database or the role say: with a search_path of the database's owner, weft's statements
// would run the owner's operators with weft's rights; a timeout would keep transactions in doubt
// for ever. They are startup parameters, which win over ALTER DATABASE and ALTER ROLE … SET from
// the first moment on.
var serviceSettings = []wire.Option{
	{Name: "search_path", Value: "pg_catalog, pg_temp"},
	{Name: "statement_timeout", Value: "0"},
	{Name: "lock_timeout", Value: "0"},
	{Name: "idle_in_transaction_session_timeout", Value: "0"},
	{Name: "idle_session_timeout", Value: "0"},
	{Name: "row_security", Value: "off"},
	{Name: "default_transaction_isolation", Value: "read committed"},
	{Name: "default_transaction_read_only", Value: "off"},
	{Name: "default_transaction_deferrable", Value: "off"},
	{Name: "synchronous_commit", Value: "on"},
	{Name: "client_encoding", Value: "UTF8"},
	{Name: "standard_conforming_strings", Value: "on"},
	{Name: "array_nulls", Value: "on"},
	{Name: "transform_null_equals", Value: "off"},
	{Name: "quote_all_identifiers", Value: "off"},
	{Name: "bytea_output", Value: "hex"},
	{Name: "xmloption", Value: "content"},
	{Name: "DateStyle", Value: "ISO, MDY"},
	{Name: "IntervalStyle", Value: "postgres"},
	{Name: "TimeZone", Value: "UTC"},
	{Name: "extra_float_digits", Value: "3"},
	{Name: "default_tablespace", Value: ""},
	{Name: "temp_tablespaces", Value: ""},
	{Name: "default_table_access_method", Value: "heap"},
	{Name: "client_min_messages", Value: "warning"},
	{Name: "jit", Value: "off"}, // compiling a statement that runs once takes a hundred times as long as running it
}

// ServiceKey is the key of all connections that weft uses for itself.
func ServiceKey(database, user string) Key { return NewKey(database, user, serviceSettings) }
