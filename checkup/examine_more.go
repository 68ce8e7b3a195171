package checkup

import (
	"fmt"
	"time"
)

func (e *examiner) connections() string {
	proxies := max(1, len(e.Proxies))
	least := 0
	for _, s := range e.up() {
		if s.Connections == 0 {
			continue
		}
		if least == 0 || s.Connections < least {
			least = s.Connections
		}
		if want := proxies * e.MaxPerShard; want > s.Connections {
			e.add(Warning, s.place(), fmt.Sprintf("Set max_connections to %d or more, or pool.max_per_shard to %d: otherwise clients queue.", want+want/10+3, max(1, s.Connections/proxies)),
				"takes %d connections, and %s may open %d", s.Connections, plural(proxies, "proxy", "proxies"), want)
		}
	}
	if least == 0 {
		return ""
	}
	return fmt.Sprintf("servers take %d connections, %s may open %d", least, plural(proxies, "proxy", "proxies"), proxies*e.MaxPerShard)
}

func (e *examiner) prepared() string {
	want := preparedEach * max(1, len(e.Proxies))
	for _, s := range e.up() {
		do := fmt.Sprintf("Set max_prepared_transactions = %d in postgresql.conf, on standbys too, and start the server again.", want)
		switch {
		case e.Shards < 2:
		case s.Prepared == 0:
			e.add(Problem, s.place(), do, "max_prepared_transactions is 0: transactions over several shards are refused")
		case s.Prepared < want:
			e.add(Warning, s.place(), do, "max_prepared_transactions is %d, and %s may need %d", s.Prepared, plural(max(1, len(e.Proxies)), "proxy", "proxies"), want)
		}
	}
	if len(e.up()) == 0 {
		return ""
	}
	return fmt.Sprintf("max_prepared_transactions is enough for %s", plural(max(1, len(e.Proxies)), "proxy", "proxies"))
}

func (e *examiner) clocks() string {
	up := e.up()
	for _, s := range up {
		if off := s.Ahead.Abs(); off > maxSkew+s.Unsure {
			side := "ahead of"
			if s.Ahead < 0 {
				side = "behind"
			}
			e.add(Warning, s.place(), "Let NTP or chrony set the clock: now() differs between shards.", "its clock is %s %s the clock here", off.Round(10*time.Millisecond), side)
		}
	}
	if len(up) == 0 {
		return ""
	}
	first, last := up[0], up[0]
	for _, s := range up {
		if s.Ahead < first.Ahead {
			first = s
		}
		if s.Ahead > last.Ahead {
			last = s
		}
	}
	apart := last.Ahead - first.Ahead
	if apart > maxSkew+first.Unsure+last.Unsure {
		e.add(Warning, last.place(), "Let NTP or chrony set the clocks: now() differs between shards.", "its clock is %s ahead of %s", apart.Round(10*time.Millisecond), first.place())
	}
	return fmt.Sprintf("the clocks of servers are less than %s apart", max(apart, 100*time.Millisecond).Round(100*time.Millisecond)+100*time.Millisecond)
}

func (e *examiner) certificates() string {
	var first time.Time
	for _, c := range e.Certificates {
		left := c.Until.Sub(e.Now)
		switch {
		case c.Err != "":
			e.add(Warning, c.Of, "Look whether the file is there and the server speaks TLS.", "the certificate cannot be read: %s", c.Err)
		case left <= 0:
			e.add(Problem, c.Of, "Install a new certificate; proxies read theirs again after SIGHUP.", "the certificate has expired on %s", c.Until.UTC().Format(time.DateOnly))
		case left < soon:
			e.add(Warning, c.Of, "Install a new certificate; proxies read theirs again after SIGHUP.", "the certificate expires on %s, in %s", c.Until.UTC().Format(time.DateOnly), plural(int(left.Hours()/24), "day", "days"))
		}
		if c.Err == "" && (first.IsZero() || c.Until.Before(first)) {
			first = c.Until
		}
	}
	if first.IsZero() {
		return "no certificate is in use"
	}
	return fmt.Sprintf("%s, the first expires on %s", plural(len(e.Certificates), "certificate", "certificates"), first.UTC().Format(time.DateOnly))
}

func (e *examiner) disks() string {
	known := 0
	for _, s := range e.up() {
		if s.Size == 0 {
			continue
		}
		known++
		free := float64(s.Free) / float64(s.Size)
		const do = "Make room, or move buckets to other shards: weft rebalance."
		switch {
		case free < 0.05:
			e.add(Problem, s.place(), do, "%.1f %% of the disk is free (%s)", 100*free, size(s.Free))
		case free < 0.15:
			e.add(Warning, s.place(), do, "%.1f %% of the disk is free (%s)", 100*free, size(s.Free))
		}
	}
	if known == 0 {
		return "not known: PostgreSQL does not tell, and no server is on this machine"
	}
	return fmt.Sprintf("of %s on this machine, with room enough", plural(known, "server", "servers"))
}

func size(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GB", n>>30)
	default:
		return fmt.Sprintf("%d MB", n>>20)
	}
}

func (e *examiner) roles() string {
	all, home := e.primaries()
	if home == nil || !e.Declared {
		return ""
	}
	if home.Roles == nil {
		e.add(Warning, home.place(), "Let service.user be a superuser, so that weft can bring roles to all shards.", "service.user may not see roles and their passwords")
		return ""
	}
	for _, s := range all {
		if s == home || s.Roles == nil {
			continue
		}
		for _, name := range sortedKeys(home.Roles) {
			want := home.Roles[name]
			got, ok := s.Roles[name]
			switch {
			case !ok:
				e.add(Problem, s.place(), "Make the role there as it is on the home shard; SELECT * FROM weft.schema_diff() shows what else differs.", "role %s is missing", name)
			case got.Attributes != want.Attributes:
				e.add(Warning, s.place(), fmt.Sprintf("ALTER ROLE %s there until both are alike.", name), "role %s is %s, and %s on the home shard", name, got.Attributes, want.Attributes)
			case got.Password != want.Password:
				e.add(Warning, s.place(), fmt.Sprintf("Set the password through weft (ALTER ROLE %s PASSWORD …), which brings it to all shards, or copy rolpassword of pg_authid from the home shard.", name),
					"the stored password of role %s is not that of the home shard: logins there fail unless weft.yaml has the password", name)
			}
		}
	}
	return fmt.Sprintf("%s alike on all shards", plural(len(home.Roles), "role that may log in is", "roles that may log in are"))
}

func (e *examiner) drift() string {
	if e.DriftErr != "" {
		e.add(Warning, "", "Mend what keeps the shards from being asked, and look again.", "schemas were not compared: %s", e.DriftErr)
	}
	for _, d := range e.Drift {
		e.add(Problem, d.Shard, "Mend it on that shard; SELECT * FROM weft.schema_diff() shows the same.", "%s of database %s %s", d.Object, d.Database, d.What)
	}
	if !e.Declared {
		return "no table is declared"
	}
	return "declared tables are alike on all shards"
}

func (e *examiner) durability() string {
	all, _ := e.primaries()
	for _, s := range all {
		if s.Lacks != "" {
			e.add(Problem, s.place(), "Set synchronous_standby_names and synchronous_commit as docs/operations.md says, or declare less durability.", "is not as durable as declared: %s", s.Lacks)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "primaries are as durable as the cluster declares"
}

func (e *examiner) backups() string {
	all, _ := e.primaries()
	for _, s := range all {
		if s.Backup != "" {
			e.add(Warning, s.place(), "weft backup check says more.", "%s", s.Backup)
		}
	}
	switch p := e.Points; {
	case p.Err != "":
		e.add(Warning, "", "Look at etcd.", "backup points cannot be listed: %s", p.Err)
	case p.Newest.IsZero():
		e.add(Warning, "", "weft backup point makes one; let it run every day at least.", "there is no backup point: the shards cannot be restored together")
	case e.Now.Sub(p.Newest) > pointAge:
		e.add(Warning, "", "Look why weft backup point does not run.", "the newest backup point, %s, is %s old", p.Name, e.Now.Sub(p.Newest).Round(time.Minute))
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("all shards archive, the newest point, %s, is %s old", e.Points.Name, e.Now.Sub(e.Points.Newest).Round(time.Minute))
}

func (e *examiner) proxies() string {
	if len(e.Proxies) == 0 {
		e.add(Problem, "", "Start one with weft serve.", "no proxy is running")
		return ""
	}
	versions := map[string]bool{}
	for _, p := range e.Proxies {
		versions[p.Version] = true
	}
	if len(versions) > 1 {
		e.add(Warning, "", "Finish the upgrade: restart the older proxies with the newer binary.", "proxies run different versions of weft: %s", list(sortedKeys(versions)))
	}
	return plural(len(e.Proxies), "proxy is running", "proxies are running")
}

func (e *examiner) etcd() string {
	away, voters := 0, 0
	versions := map[string]bool{}
	var largest int64
	for _, m := range e.Etcd {
		if m.Err != "" {
			away++
			continue
		}
		if !m.Learner {
			voters++
		}
		versions[m.Version] = true
		largest = max(largest, m.Size)
		quota := m.Quota
		if quota == 0 {
			quota = defaultQuota
		}
		if !m.Leader {
			e.add(Problem, m.Endpoint, "Start the other members of etcd; without a majority nothing can be declared or moved.", "the member knows no leader")
		}
		if m.Size > quota*8/10 {
			e.add(Warning, m.Endpoint, "etcdctl compact and defrag, or a larger --quota-backend-bytes.", "the database has %s of %s", size(uint64(m.Size)), size(uint64(quota)))
		}
	}
	for _, m := range e.Etcd {
		if m.Err == "" {
			continue
		}
		level := Warning
		if 2*away >= len(e.Etcd) {
			level = Problem
		}
		e.add(level, m.Endpoint, "Start the member: another one lost may be one too many.", "does not answer: %s", m.Err)
	}
	for _, a := range e.Alarms {
		e.add(Problem, "", "Mend the cause (for NOSPACE: etcdctl compact, defrag), then etcdctl alarm disarm.", "alarm %s is raised: etcd takes no writes", a)
	}
	if len(versions) > 1 {
		e.add(Warning, "", "Finish the upgrade of etcd.", "members run different versions: %s", list(sortedKeys(versions)))
	}
	if len(e.Etcd) == 0 {
		return ""
	}
	fine := fmt.Sprintf("%s, %s", plural(voters, "member", "members"), size(uint64(largest)))
	if voters < 3 {
		fine += "; three survive the loss of one"
	}
	return fine
}
