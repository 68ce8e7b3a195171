package identity

import (
	"fmt"

	"weft/pgerr"
)

// Expected is the shard that a server is taken for.
type Expected struct {
	Cluster string
	Shard   string
	// System is the server's identifier, as the directory has it. Empty: it does not.
	System string
}

// Stamp returns what a database of the shard is stamped with on the server that was
// found.
func (e Expected) Stamp(f Found) Stamp {
	return Stamp{Cluster: e.Cluster, Shard: e.Shard, System: f.System}
}

// Check returns nil if a database can be one of the shard's, and else an error that says
// what is there and what was expected. A database without a stamp is nobody's yet.
func (e Expected) Check(f Found, database string) *pgerr.Error {
	refuse := func(is, hint string) *pgerr.Error {
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "shard %q is not the server it should be: %s", e.Shard, is).
			WithDetail("Expected: %s. Found in database %q: %s.", e, database, f).
			WithHint("%s", hint)
	}
	if f.Stamped {
		switch s := f.Stamp; {
		case s.Cluster != e.Cluster:
			return refuse(fmt.Sprintf("database %q belongs to another cluster, %s", database, s.Cluster),
				"Compare cluster, etcd.endpoints and etcd.prefix in weft.yaml with those of the other proxies. If the directory was lost, rebuild it: weft recover --directory. "+
					"If the server is to become a part of this cluster, say so: weft apply --adopt "+e.Shard+".")
		case s.Shard != e.Shard:
			return refuse(fmt.Sprintf("it is %s of this cluster", s.Shard),
				"Compare the hosts of "+e.Shard+" and "+s.Shard+" in cluster.yaml, and where their backups were restored. weft status shows what the directory says.")
		case s.System != f.System && e.System != f.System:
			return refuse("its database was copied from another server",
				"Tables were dumped and restored, or the server was upgraded to another version. If it is the shard's server from now on, say so: weft apply --adopt "+e.Shard+".")
		}
	}
	if e.System != "" && f.System != "" && e.System != f.System {
		return refuse("it is another server than before",
			"Was the server initialized anew, or do hosts in cluster.yaml name another one? If it is the shard's server from now on, say so: weft apply --adopt "+e.Shard+".")
	}
	return nil
}

// String describes the shard for people.
func (e Expected) String() string {
	if e.System == "" {
		return fmt.Sprintf("cluster %s, shard %s", e.Cluster, e.Shard)
	}
	return fmt.Sprintf("cluster %s, shard %s, server %s", e.Cluster, e.Shard, e.System)
}

// String describes what was found for people.
func (f Found) String() string {
	if !f.Stamped {
		return fmt.Sprintf("no cluster's stamp, server %s", f.System)
	}
	at := fmt.Sprintf("cluster %s, shard %s, server %s", f.Stamp.Cluster, f.Stamp.Shard, f.System)
	if f.Stamp.System != f.System {
		at += fmt.Sprintf(" (stamped on server %s)", f.Stamp.System)
	}
	return at
}
