package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/integration/wire"
)

// TestPortalTypes: OIDs of types that users have made are those of the home shard in the binary rows of every portal, whichever was
// bound last.
func TestPortalTypes(t *testing.T) {
	p := newPair(t)
	p.run(1, append([]string{"create type mood as enum ('a', 'b')"}, dialogueRows...))
	t.Cleanup(func() { p.run(1, []string{"drop type mood"}) })
	script := wire.NewScript(wireTarget(p.targets[1]))
	defer script.Close()
	ask := func(lines string) string {
		out, err := script.Dialogue(strings.Split(lines, "\n"), 0)
		if err != nil || strings.Contains(out, "ErrorResponse") {
			t.Fatalf("%s%v", out, err)
		}
		return out
	}
	ask(`Parse {"Name":"m","Query":"select array['a'::mood] from d where id = $1","Types":[23]}` + "\n" +
		`Parse {"Name":"v","Query":"select v from d where id = $1","Types":[23]}` + "\nSync")
	var first string
	for id := 1; id <= 6; id++ {
		bind := fmt.Sprintf(`Bind {"Portal":"%%s","Statement":"%%s","Params":["%d"]%%s}`+"\n", id)
		mood, other := fmt.Sprintf(bind, "p", "m", `,"Results":[1]`), fmt.Sprintf(bind, "q", "v", "")
		const execute = `Execute {"Portal":"p"}` + "\n"
		for i, lines := range []string{
			mood + execute + "Sync",
			mood + other + execute + "Sync",
			other + mood + `Execute {"Portal":"q","MaxRows":1}` + "\n" + execute + "Sync",
		} {
			out := ask(lines)
			at := strings.LastIndex(out, "DataRow")
			row, _, _ := strings.Cut(out[at:], "\n")
			if first == "" {
				first = row
			}
			if row != first {
				t.Errorf("id %d, order %d: %s, want %s", id, i, row, first)
			}
		}
	}
}
