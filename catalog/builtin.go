package catalog

import "strings"

// builtin is one of PostgreSQL's own types. The OIDs are the same on every
// server.
type builtin struct {
	oid, array uint32
	display    string // the type as format_type writes it, if that is not its name
}

// builtinTypes are the types of pg_catalog that a dump may name.
var builtinTypes = map[string]builtin{
	"aclitem":                 {1033, 1034, ""},
	"any":                     {2276, 0, "\"any\""},
	"anyarray":                {2277, 0, ""},
	"anycompatible":           {5077, 0, ""},
	"anycompatiblearray":      {5078, 0, ""},
	"anycompatiblemultirange": {4538, 0, ""},
	"anycompatiblenonarray":   {5079, 0, ""},
	"anycompatiblerange":      {5080, 0, ""},
	"anyelement":              {2283, 0, ""},
	"anyenum":                 {3500, 0, ""},
	"anymultirange":           {4537, 0, ""},
	"anynonarray":             {2776, 0, ""},
	"anyrange":                {3831, 0, ""},
	"bit":                     {1560, 1561, ""},
	"bool":                    {16, 1000, "boolean"},
	"box":                     {603, 1020, ""},
	"bpchar":                  {1042, 1014, "character"},
	"bytea":                   {17, 1001, ""},
	"char":                    {18, 1002, "\"char\""},
	"cid":                     {29, 1012, ""},
	"cidr":                    {650, 651, ""},
	"circle":                  {718, 719, ""},
	"cstring":                 {2275, 1263, ""},
	"date":                    {1082, 1182, ""},
	"datemultirange":          {4535, 6155, ""},
	"daterange":               {3912, 3913, ""},
	"event_trigger":           {3838, 0, ""},
	"fdw_handler":             {3115, 0, ""},
	"float4":                  {700, 1021, "real"},
	"float8":                  {701, 1022, "double precision"},
	"gtsvector":               {3642, 3644, ""},
	"index_am_handler":        {325, 0, ""},
	"inet":                    {869, 1041, ""},
	"int2":                    {21, 1005, "smallint"},
	"int2vector":              {22, 1006, ""},
	"int4":                    {23, 1007, "integer"},
	"int4multirange":          {4451, 6150, ""},
	"int4range":               {3904, 3905, ""},
	"int8":                    {20, 1016, "bigint"},
	"int8multirange":          {4536, 6157, ""},
	"int8range":               {3926, 3927, ""},
	"internal":                {2281, 0, ""},
	"interval":                {1186, 1187, ""},
	"json":                    {114, 199, ""},
	"jsonb":                   {3802, 3807, ""},
	"jsonpath":                {4072, 4073, ""},
	"language_handler":        {2280, 0, ""},
	"line":                    {628, 629, ""},
	"lseg":                    {601, 1018, ""},
	"macaddr":                 {829, 1040, ""},
	"macaddr8":                {774, 775, ""},
	"money":                   {790, 791, ""},
	"name":                    {19, 1003, ""},
	"numeric":                 {1700, 1231, ""},
	"nummultirange":           {4532, 6151, ""},
	"numrange":                {3906, 3907, ""},
	"oid":                     {26, 1028, ""},
	"oidvector":               {30, 1013, ""},
	"path":                    {602, 1019, ""},
	"pg_lsn":                  {3220, 3221, ""},
	"pg_node_tree":            {194, 0, ""},
	"pg_snapshot":             {5038, 5039, ""},
	"point":                   {600, 1017, ""},
	"polygon":                 {604, 1027, ""},
	"record":                  {2249, 2287, ""},
	"refcursor":               {1790, 2201, ""},
	"regclass":                {2205, 2210, ""},
	"regcollation":            {4191, 4192, ""},
	"regconfig":               {3734, 3735, ""},
	"regdictionary":           {3769, 3770, ""},
	"regnamespace":            {4089, 4090, ""},
	"regoper":                 {2203, 2208, ""},
	"regoperator":             {2204, 2209, ""},
	"regproc":                 {24, 1008, ""},
	"regprocedure":            {2202, 2207, ""},
	"regrole":                 {4096, 4097, ""},
	"regtype":                 {2206, 2211, ""},
	"table_am_handler":        {269, 0, ""},
	"text":                    {25, 1009, ""},
	"tid":                     {27, 1010, ""},
	"time":                    {1083, 1183, "time without time zone"},
	"timestamp":               {1114, 1115, "timestamp without time zone"},
	"timestamptz":             {1184, 1185, "timestamp with time zone"},
	"timetz":                  {1266, 1270, "time with time zone"},
	"trigger":                 {2279, 0, ""},
	"tsm_handler":             {3310, 0, ""},
	"tsmultirange":            {4533, 6152, ""},
	"tsquery":                 {3615, 3645, ""},
	"tsrange":                 {3908, 3909, ""},
	"tstzmultirange":          {4534, 6153, ""},
	"tstzrange":               {3910, 3911, ""},
	"tsvector":                {3614, 3643, ""},
	"txid_snapshot":           {2970, 2949, ""},
	"unknown":                 {705, 0, ""},
	"uuid":                    {2950, 2951, ""},
	"varbit":                  {1562, 1563, "bit varying"},
	"varchar":                 {1043, 1015, "character varying"},
	"void":                    {2278, 0, ""},
	"xid":                     {28, 1011, ""},
	"xid8":                    {5069, 271, ""},
	"xml":                     {142, 143, ""},
}

// The system relations below are in every database. Whether a server has a few more
// or fewer of them makes no difference for reading a dump.
const (
	catalogTables = `pg_aggregate pg_am pg_amop pg_amproc pg_attrdef pg_attribute pg_auth_members pg_authid pg_cast pg_class
pg_collation pg_constraint pg_conversion pg_database pg_db_role_setting pg_default_acl pg_depend
pg_description pg_enum pg_event_trigger pg_extension pg_foreign_data_wrapper pg_foreign_server
pg_foreign_table pg_index pg_inherits pg_init_privs pg_language pg_largeobject pg_largeobject_metadata
pg_namespace pg_opclass pg_operator pg_opfamily pg_parameter_acl pg_partitioned_table pg_policy pg_proc
pg_publication pg_publication_namespace pg_publication_rel pg_range pg_replication_origin pg_rewrite
pg_seclabel pg_sequence pg_shdepend pg_shdescription pg_shseclabel pg_statistic pg_statistic_ext
pg_statistic_ext_data pg_subscription pg_subscription_rel pg_tablespace pg_transform pg_trigger pg_ts_config
pg_ts_config_map pg_ts_dict pg_ts_parser pg_ts_template pg_type pg_user_mapping`
	catalogViews = `pg_available_extension_versions pg_available_extensions pg_backend_memory_contexts pg_config pg_cursors
pg_file_settings pg_group pg_hba_file_rules pg_ident_file_mappings pg_indexes pg_locks pg_matviews pg_policies
pg_prepared_statements pg_prepared_xacts pg_publication_tables pg_replication_origin_status
pg_replication_slots pg_roles pg_rules pg_seclabels pg_sequences pg_settings pg_shadow pg_shmem_allocations
pg_stat_activity pg_stat_all_indexes pg_stat_all_tables pg_stat_archiver pg_stat_bgwriter pg_stat_database
pg_stat_database_conflicts pg_stat_gssapi pg_stat_progress_analyze pg_stat_progress_basebackup
pg_stat_progress_cluster pg_stat_progress_copy pg_stat_progress_create_index pg_stat_progress_vacuum
pg_stat_recovery_prefetch pg_stat_replication pg_stat_replication_slots pg_stat_slru pg_stat_ssl
pg_stat_subscription pg_stat_subscription_stats pg_stat_sys_indexes pg_stat_sys_tables pg_stat_user_functions
pg_stat_user_indexes pg_stat_user_tables pg_stat_wal pg_stat_wal_receiver pg_stat_xact_all_tables
pg_stat_xact_sys_tables pg_stat_xact_user_functions pg_stat_xact_user_tables pg_statio_all_indexes
pg_statio_all_sequences pg_statio_all_tables pg_statio_sys_indexes pg_statio_sys_sequences
pg_statio_sys_tables pg_statio_user_indexes pg_statio_user_sequences pg_statio_user_tables pg_stats
pg_stats_ext pg_stats_ext_exprs pg_tables pg_timezone_abbrevs pg_timezone_names pg_user pg_user_mappings
pg_views`
	informationTables = `sql_features sql_implementation_info sql_parts sql_sizing`
	informationViews  = `_pg_foreign_data_wrappers _pg_foreign_servers _pg_foreign_table_columns _pg_foreign_tables _pg_user_mappings
administrable_role_authorizations applicable_roles attributes character_sets check_constraint_routine_usage
check_constraints collation_character_set_applicability collations column_column_usage column_domain_usage
column_options column_privileges column_udt_usage columns constraint_column_usage constraint_table_usage
data_type_privileges domain_constraints domain_udt_usage domains element_types enabled_roles
foreign_data_wrapper_options foreign_data_wrappers foreign_server_options foreign_servers
foreign_table_options foreign_tables information_schema_catalog_name key_column_usage parameters
referential_constraints role_column_grants role_routine_grants role_table_grants role_udt_grants
role_usage_grants routine_column_usage routine_privileges routine_routine_usage routine_sequence_usage
routine_table_usage routines schemata sequences table_constraints table_privileges tables transforms
triggered_update_columns triggers udt_privileges usage_privileges user_defined_types user_mapping_options
user_mappings view_column_usage view_routine_usage view_table_usage views`
)

// systemRelations returns the names and kinds of system relations. Their OIDs are
// made up, below the OIDs of users' relations.
func systemRelations() []*Relation {
	var out []*Relation
	add := func(schema string, kind RelationKind, names string) {
		for name := range strings.FieldsSeq(names) {
			out = append(out, &Relation{Name: Name{schema, name}, Kind: kind, OID: uint32(10000 + len(out))})
		}
	}
	add("pg_catalog", Table, catalogTables)
	add("pg_catalog", View, catalogViews)
	add("information_schema", Table, informationTables)
	add("information_schema", View, informationViews)
	return out
}
