package parser

// functionEffects are the effects of PostgreSQL's functions, and of two extensions, on the session that calls them. A
// function of another schema with such a name is taken for it: that can only say too much.
var functionEffects = map[string]Effect{
	"pg_advisory_lock":            AdvisoryLock,
	"pg_advisory_lock_shared":     AdvisoryLock,
	"pg_try_advisory_lock":        AdvisoryLock,
	"pg_try_advisory_lock_shared": AdvisoryLock,
	"pg_advisory_unlock":          AdvisoryLock,
	"pg_advisory_unlock_shared":   AdvisoryLock,
	"pg_advisory_unlock_all":      AdvisoryLock,

	"setseed":   Seed,
	"set_limit": ChangesSettings, // pg_trgm

	"currval": ReadsSequence,
	"lastval": ReadsSequence,
	"nextval": AdvancesSequence,
	"setval":  AdvancesSequence,

	"pg_notify":             Notifies,
	"pg_listening_channels": ReadsListening,
	"pg_prepared_statement": ReadsPrepared,
	"pg_export_snapshot":    ExportsSnapshot,

	"pg_backend_pid":                 SessionID,
	"pg_cancel_backend":              SessionID,
	"pg_terminate_backend":           SessionID,
	"pg_log_backend_memory_contexts": SessionID,
	"pg_blocking_pids":               SessionID,
	"pg_stat_get_activity":           SessionID,
	"pg_lock_status":                 SessionID,

	"pg_create_physical_replication_slot": Temp,
	"pg_create_logical_replication_slot":  Temp,
	"pg_copy_physical_replication_slot":   Temp,
	"pg_copy_logical_replication_slot":    Temp,
	"pg_replication_origin_session_setup": Temp,
	"pg_backup_start":                     Temp,
	"pg_start_backup":                     Temp,
	"dblink_connect":                      Temp,
	"dblink_connect_u":                    Temp,

	"query_to_xml":               Opaque,
	"query_to_xmlschema":         Opaque,
	"query_to_xml_and_xmlschema": Opaque,
	"ts_stat":                    Opaque,
	"ts_rewrite":                 Opaque,
}

// relationEffects are the effects of reading PostgreSQL's views, by their name in pg_catalog.
var relationEffects = map[string]Effect{
	"pg_stat_activity":       SessionID,
	"pg_locks":               SessionID,
	"pg_stat_ssl":            SessionID,
	"pg_prepared_statements": ReadsPrepared,
	"pg_namespace":           ListsObjects,
	"pg_trigger":             ListsObjects,
	"pg_event_trigger":       ListsObjects,
}

// settingAliases are old names that PostgreSQL still takes.
var settingAliases = map[string]string{
	"sort_mem":   "work_mem",
	"vacuum_mem": "maintenance_work_mem",
}
