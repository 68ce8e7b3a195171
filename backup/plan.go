package backup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Tools are the programs that Plan knows.
var Tools = []string{"files", "pgbackrest", "walg", "barman", "cnpg"}

// Settings returns the settings of PostgreSQL that restore a shard to its point, without restore_command.
func (m *Manifest) Settings(mark Mark) []string {
	return []string{
		"recovery_target_name = '" + m.Target + "'",
		"recovery_target_timeline = '" + mark.timeline() + "'",
		"recovery_target_action = 'promote'",
	}
}

// timeline is the timeline as PostgreSQL's settings have it.
func (m *Mark) timeline() string {
	return strconv.FormatUint(uint64(m.number()), 10)
}

// number is the timeline as a number, 0 if it is not known.
func (m *Mark) number() uint32 {
	n, _ := strconv.ParseUint(m.Timeline(), 16, 32)
	return uint32(n)
}

// Plan returns what an operator does to restore each shard with a tool.
func (m *Manifest) Plan(tool string) (string, error) {
	if tool == "wal-g" { // as the program is called
		tool = "walg"
	}
	if !slices.Contains(Tools, tool) {
		return "", fmt.Errorf("%q is none of %s", tool, strings.Join(Tools, ", "))
	}
	if m.Kind == Snapshot {
		return "", fmt.Errorf("%s is no point: it is the manifest of copies of disks; start the servers on the copies, and then run weft restore finish", m.Name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Point %s of cluster %s. Take base backups that were finished before the point.\n", m.Name, m.Cluster)
	for _, k := range m.Marks {
		fmt.Fprintf(&b, "\n# %s: timeline %s, %s in WAL file %s, made at %s; system %s, PostgreSQL %s\n", k.Shard, k.timeline(), k.LSN, k.File, k.At, k.System, k.Server)
		if !k.Archives && tool != "files" {
			fmt.Fprintf(&b, "# The server did not archive its WAL (archive_mode = off): there may be nothing to restore from.\n")
		}
		b.WriteString(m.steps(tool, k))
	}
	b.WriteString("\n# When all servers have left recovery:\nweft restore finish --manifest FILE -c weft.yaml -f cluster.yaml --yes\n")
	return b.String(), nil
}

// steps are the commands for one shard.
func (m *Manifest) steps(tool string, k Mark) string {
	settings := strings.Join(m.Settings(k), "\n") + "\n"
	switch tool {
	case "pgbackrest":
		return fmt.Sprintf("pgbackrest --stanza=%s --type=name --target='%s' --target-timeline=%s --target-action=promote restore\n", k.Shard, m.Target, k.timeline())
	case "walg":
		return "wal-g backup-fetch \"$PGDATA\" NAME_OF_THE_BASE_BACKUP\ntouch \"$PGDATA/recovery.signal\"\n# in postgresql.conf:\nrestore_command = 'wal-g wal-fetch %f %p'\n" + settings
	case "barman":
		return fmt.Sprintf("barman recover --target-name '%s' --target-tli %s --target-action promote %s BACKUP_ID DIRECTORY\n", m.Target, k.timeline(), k.Shard)
	case "cnpg":
		return fmt.Sprintf("# in the Cluster's spec:\nbootstrap:\n  recovery:\n    source: %s\n    recoveryTarget:\n      targetName: %q\n      targetTLI: %q\n", k.Shard, m.Target, k.timeline())
	}
	return "# a copy of the base backup, with an empty file recovery.signal in it, and in its postgresql.conf:\nrestore_command = 'cp WAL/%f %p'\n" + settings
}
