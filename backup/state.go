package backup

import "fmt"

// State is what a server does for its backups.
type State struct {
	ArchiveMode  string
	WALLevel     string
	LastArchived string // WAL file
	LastFailed   string // WAL file
	Failing      bool   // the last attempt to archive failed
	MayMark      bool   // weft may make restore points
}

// Verdict says why a server could not be restored to a point made now, "" if it could be.
func Verdict(s State) string {
	switch {
	case s.WALLevel == "minimal":
		return "wal_level is minimal: set replica, restart the server"
	case s.ArchiveMode == "off":
		return "archive_mode is off: nothing keeps the WAL after the last base backup"
	case s.Failing:
		return fmt.Sprintf("archiving %s fails: look into the server's log", s.LastFailed)
	case s.LastArchived == "":
		return "nothing was archived yet"
	case !s.MayMark:
		return "weft's service user may not make restore points: GRANT EXECUTE ON FUNCTION pg_create_restore_point(text)"
	}
	return ""
}

// Archived reports whether a server that has archived one WAL file has archived another, which is not newer on the same
// timeline. Of another timeline that is not known: after a failover right behind a point its WAL may be lost.
func Archived(last, file string) bool {
	const name = 24 // three times eight digits; backup histories have more after that
	if len(last) < name || len(file) < name {
		return false // a history of timelines, or nothing
	}
	return last[:8] == file[:8] && last[8:name] >= file[8:name]
}
