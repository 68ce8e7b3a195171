package integration

import (
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"weft/integration/harness"
)

// TestDump dumps a database, restores it into another and dumps that: all the
// dumps are alike, whichever way they went.
func TestDump(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		ctx := within(t, time.Minute)
		if err := target.Admin(ctx, sampleSchema); err != nil {
			t.Fatal(err)
		}
		// What the server itself says, read past weft.
		direct := *target
		direct.Addr = target.Home.Addr()
		want := clean(must(t, &direct, "", "pg_dump", "--no-sync"))

		sameText(t, "plain dump", want, clean(must(t, target, "", "pg_dump", "--no-sync")))
		sameText(t, "dump as inserts", clean(must(t, &direct, "", "pg_dump", "--no-sync", "--inserts", "--rows-per-insert=10")),
			clean(must(t, target, "", "pg_dump", "--no-sync", "--inserts", "--rows-per-insert=10")))

		target.CreateDatabase(t, "restored")
		archive := filepath.Join(t.TempDir(), "archive")
		must(t, target, "", "pg_dump", "--no-sync", "-Fc", "-f", archive)
		must(t, target, "", "pg_restore", "-d", "restored", archive)
		sameText(t, "dump of the archive's restore", want, clean(must(t, target, "", "pg_dump", "--no-sync", "restored")))

		target.CreateDatabase(t, "restored2")
		plain := must(t, target, "", "pg_dump", "--no-sync")
		must(t, target, plain, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "restored2", "-o", "/dev/null")
		sameText(t, "dump of the script's restore", want, clean(must(t, target, "", "pg_dump", "--no-sync", "restored2")))

		must(t, target, "", "pg_dump", "--no-sync", "-Fd", "-j", "3", "-f", filepath.Join(t.TempDir(), "dir"))
	})
}

var dumpNoise = regexp.MustCompile(`(?m)^\\(un)?restrict .*\n|^-- (Started|Completed) on .*\n`)

// clean takes out what differs from one dump to the next.
func clean(dump string) string { return dumpNoise.ReplaceAllString(dump, "") }
