package routing

import (
	"testing"

	"weft/integration/pair"
)

// TestClientPrepares: transactions that clients prepare themselves are refused.
func TestClientPrepares(t *testing.T) {
	if *undeclared {
		t.Skip("nothing is refused without declared tables")
	}
	_, p := pairs(t, "client_prepares", 4)
	for _, m := range pair.Modes {
		for _, sql := range []string{"prepare transaction 'mine'", "commit prepared 'mine'", "rollback prepared 'mine'"} {
			if a := p.Weft.Ask(m, sql, nil, nil); !a.Refused() {
				t.Errorf("%s: %s: %s %s", m, sql, a.Code, a.Message)
			}
		}
	}
}
