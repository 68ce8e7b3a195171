package checkup

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

// healthy returns the facts of a cluster with nothing to do.
func healthy() *Facts {
	server := func(shard, address string) Server {
		return Server{
			Shard: shard, Address: address, Version: 150018, VersionText: "15.18", Connections: 97, Prepared: 160, Ahead: 3 * time.Millisecond, Unsure: time.Millisecond,
			Free: 50 << 30, Size: 100 << 30, Roles: map[string]Role{"app": {"NOSUPERUSER", "x"}},
			Databases: []Database{{Name: "shop", Encoding: "UTF8", Locale: "libc C", Extensions: map[string]string{"plpgsql": "1.0"}}},
		}
	}
	return &Facts{
		Now: now, Cluster: "main", Home: "a", Shards: 2, Declared: true, MaxPerShard: 40,
		Servers:      []Server{server("a", "h:1"), server("b", "h:2")},
		Proxies:      []Proxy{{ID: "1", Version: "0.1"}, {ID: "2", Version: "0.1"}},
		Certificates: []Certificate{{Of: "proxy h:6432", Until: now.Add(100 * 24 * time.Hour)}},
		Points:       Points{Name: "daily", Newest: now.Add(-2 * time.Hour)},
		Etcd:         []Member{{Endpoint: "e:1", Version: "3.6", Leader: true}, {Endpoint: "e:2", Version: "3.6", Leader: true}, {Endpoint: "e:3", Version: "3.6", Leader: true}},
	}
}

func TestHealthy(t *testing.T) {
	found := Examine(healthy())
	var out bytes.Buffer
	if err := Print(&out, found); err != nil || !Fine(found) || !strings.HasSuffix(out.String(), "\n0 problems, 0 warnings\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "ok       versions      2 servers run PostgreSQL 15.18\n") {
		t.Error(out.String())
	}
	// A cluster of which nothing answers is no reason to fail.
	Examine(&Facts{Servers: []Server{{Err: "away"}}})
	Examine(&Facts{})
}

// One fault at a time gives its finding, and no other.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(f *Facts)
		level Level
		want  string
	}{
		"away":        {func(f *Facts) { f.Servers = append(f.Servers, Server{Shard: "b", Address: "h:3", Err: "refused"}) }, Warning, "reachable  b at h:3: does not answer: refused"},
		"old":         {func(f *Facts) { f.Servers[1].Version, f.Servers[1].VersionText = 140001, "14.1" }, Problem, "versions  b at h:2: runs PostgreSQL 14.1, which weft does not support"},
		"major":       {func(f *Facts) { f.Servers[1].Version, f.Servers[1].VersionText = 170001, "17.1" }, Problem, "versions  b at h:2: runs PostgreSQL 17.1, and the home shard 15.18"},
		"minor":       {func(f *Facts) { f.Servers[1].Version, f.Servers[1].VersionText = 150001, "15.1" }, Warning, "versions  b at h:2: runs PostgreSQL 15.1, and the home shard 15.18"},
		"foreign":     {func(f *Facts) { f.Misplaced = []string{"b at h:2: is shard c"} }, Problem, "identity  b at h:2: is shard c"},
		"encoding":    {func(f *Facts) { f.Servers[1].Databases[0].Encoding = "LATIN1" }, Problem, "locales  b at h:2: database shop has encoding LATIN1, and UTF8 on the home shard"},
		"locale":      {func(f *Facts) { f.Servers[1].Databases[0].Locale = "libc de_DE" }, Problem, "locales  b at h:2: database shop sorts text by libc de_DE, and by libc C on the home shard"},
		"libc":        {func(f *Facts) { f.Servers[1].Databases[0].Actual = "2.36" }, Warning, "locales  b at h:2: the collation of database shop is of version 2.36"},
		"extension":   {func(f *Facts) { f.Servers[1].Databases[0].Extensions = nil }, Problem, "extensions  b at h:2: database shop lacks extension plpgsql"},
		"older":       {func(f *Facts) { f.Servers[1].Databases[0].Extensions = map[string]string{"plpgsql": "0.9"} }, Warning, "extensions  b at h:2: extension plpgsql of database shop is of version 0.9"},
		"connections": {func(f *Facts) { f.Servers[1].Connections = 50 }, Warning, "connections  b at h:2: takes 50 connections, and 2 proxies may open 80"},
		"none":        {func(f *Facts) { f.Servers[1].Prepared = 0 }, Problem, "two-phase  b at h:2: max_prepared_transactions is 0"},
		"few":         {func(f *Facts) { f.Servers[1].Prepared = 100 }, Warning, "two-phase  b at h:2: max_prepared_transactions is 100, and 2 proxies may need 160"},
		"clock":       {func(f *Facts) { f.Servers[0].Ahead, f.Servers[1].Ahead = -900*time.Millisecond, 900*time.Millisecond }, Warning, "clocks  b at h:2: its clock is 1.8s ahead of a at h:1"},
		"expired":     {func(f *Facts) { f.Certificates[0].Until = now.Add(-time.Hour) }, Problem, "certificates  proxy h:6432: the certificate has expired on 2026-11-18"},
		"expires":     {func(f *Facts) { f.Certificates[0].Until = now.Add(50 * time.Hour) }, Warning, "certificates  proxy h:6432: the certificate expires on 2026-11-20, in 2 days"},
		"full":        {func(f *Facts) { f.Servers[1].Free = 1 << 30 }, Problem, "disks  b at h:2: 1.0 % of the disk is free (1024 MB)"},
		"role":        {func(f *Facts) { f.Servers[1].Roles = map[string]Role{} }, Problem, "roles  b at h:2: role app is missing"},
		"attributes":  {func(f *Facts) { f.Servers[1].Roles = map[string]Role{"app": {"SUPERUSER", "x"}} }, Warning, "roles  b at h:2: role app is SUPERUSER, and NOSUPERUSER on the home shard"},
		"password":    {func(f *Facts) { f.Servers[1].Roles = map[string]Role{"app": {"NOSUPERUSER", "y"}} }, Warning, "roles  b at h:2: the stored password of role app is not that of the home shard"},
		"drift":       {func(f *Facts) { f.Drift = []Drift{{"shop", "b", "table orders", "has another column"}} }, Problem, "drift  b: table orders of database shop has another column"},
		"undrift":     {func(f *Facts) { f.DriftErr = "away" }, Warning, "drift  schemas were not compared: away"},
		"durability":  {func(f *Facts) { f.Servers[1].Lacks = "no standby" }, Problem, "durability  b at h:2: is not as durable as declared: no standby"},
		"archive":     {func(f *Facts) { f.Servers[1].Backup = "archive_mode is off" }, Warning, "backups  b at h:2: archive_mode is off"},
		"point":       {func(f *Facts) { f.Points.Newest = now.Add(-30 * time.Hour) }, Warning, "backups  the newest backup point, daily, is 30h0m0s old"},
		"no point":    {func(f *Facts) { f.Points = Points{} }, Warning, "backups  there is no backup point"},
		"no proxy":    {func(f *Facts) { f.Proxies = nil }, Problem, "proxies  no proxy is running"},
		"mixed":       {func(f *Facts) { f.Proxies[1].Version = "0.2" }, Warning, "proxies  proxies run different versions of weft: 0.1, 0.2"},
		"member":      {func(f *Facts) { f.Etcd[2].Err = "refused" }, Warning, "etcd  e:3: does not answer: refused"},
		"majority":    {func(f *Facts) { f.Etcd = f.Etcd[:2]; f.Etcd[1].Err = "refused" }, Problem, "etcd  e:2: does not answer: refused"},
		"alarm":       {func(f *Facts) { f.Alarms = []string{"NOSPACE"} }, Problem, "etcd  alarm NOSPACE is raised"},
		"large":       {func(f *Facts) { f.Etcd[0].Size = 1900 << 20 }, Warning, "etcd  e:1: the database has 1900 MB of 2048 MB"},
		"leaderless":  {func(f *Facts) { f.Etcd[0].Leader = false }, Problem, "etcd  e:1: the member knows no leader"},
		"stale index": {func(f *Facts) {
			d := &f.Servers[0].Databases[0]
			d.Recorded, d.Actual = "2.31", "2.36"
			f.Servers[1].Databases[0].Actual = "2.36"
		}, Warning, "locales  a at h:1: indexes of database shop were made with version 2.31"},
		"no primary":   {func(f *Facts) { f.Servers[1].Standby = true }, Problem, "reachable  b at h:2: is a standby, and the shard has no primary"},
		"no authority": {func(f *Facts) { f.Servers[0].Roles = nil }, Warning, "roles  a at h:1: service.user may not see roles"},
	} {
		f := healthy()
		c.spoil(f)
		var got []string
		for _, x := range Examine(f) {
			if x.Level == OK {
				continue
			}
			where := ""
			if x.Where != "" {
				where = x.Where + ": "
			}
			got = append(got, string(x.Level)+" "+x.Area+"  "+where+x.What)
			if x.Do == "" {
				t.Errorf("%s: nothing says what to do about %s", name, x.What)
			}
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], string(c.level)+" "+c.want) {
			t.Errorf("%s: found\n%s\nwant %s %s", name, strings.Join(got, "\n"), c.level, c.want)
		}
	}
}
