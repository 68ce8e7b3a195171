package patroni

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"

	"weft/pgserver"
)

// global are the settings that must be the same on all servers of a shard: Patroni takes
// them from etcd alone.
var global = []string{
	"max_connections", "max_prepared_transactions", "max_worker_processes", "max_wal_senders", "max_replication_slots",
	"wal_level", "wal_log_hints", "wal_keep_size",
}

// settings is the configuration file of one server's Patroni: JSON, which is YAML.
func (s *Shard) settings(m *member) ([]byte, error) {
	all := pgserver.DefaultSettings()
	maps.Copy(all, pgserver.ReplicationSettings())
	maps.Copy(all, m.cfg.Settings)
	shared := map[string]any{}
	for name, value := range all {
		if slices.Contains(global, name) {
			shared[name] = value
			delete(all, name)
		}
	}
	// No sockets: a path of one may have at most about 100 bytes, and pg_rewind fails to copy one that is in the data directory.
	all["unix_socket_directories"] = ""
	user := map[string]any{"username": m.cfg.User}
	type object = map[string]any
	return json.MarshalIndent(object{
		"scope":   s.cfg.Name,
		"name":    m.name(),
		"restapi": object{"listen": m.api, "connect_address": m.api},
		"etcd3":   object{"host": s.cfg.Etcd},
		"log":     object{"level": "INFO"},
		"bootstrap": object{"dcs": object{
			"ttl":                   20,
			"loop_wait":             1,
			"retry_timeout":         5,
			"primary_start_timeout": 0,
			"failsafe_mode":         true,
			"synchronous_mode":      !s.cfg.Async,
			"postgresql": object{
				"use_pg_rewind": true,
				"use_slots":     true,
				"parameters":    shared,
			},
		}},
		"postgresql": object{
			"listen":          m.addr(),
			"connect_address": m.addr(),
			"data_dir":        m.cfg.Dir,
			"bin_dir":         m.cfg.Install.Bin,
			"pgpass":          filepath.Join(s.cfg.Dir, m.name()+".pgpass"),
			"authentication":  object{"superuser": user, "replication": user, "rewind": user},
			"parameters":      all,
			"basebackup":      []any{object{"checkpoint": "fast"}},
			// A directory that pg_rewind has left half done is of no use: Patroni copies the primary instead.
			"remove_data_directory_on_rewind_failure": true,
			"pg_hba": []string{"host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"},
		},
	}, "", "  ")
}
