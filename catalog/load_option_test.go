package catalog

import "testing"

// TestIsOn: the options of views take what PostgreSQL takes for a boolean.
func TestIsOn(t *testing.T) {
	for options, want := range map[string]bool{
		"": false, "security_barrier=true": true, "security_barrier=T": true, "security_barrier=on": true, "security_barrier=yes": true, "security_barrier=1": true,
		"security_barrier=o": false, "security_barrier=of": false, "security_barrier=false": false, "security_barrier=0": false, "security_barrier=": false,
		"check_option=local,security_barrier=tr": true, "check_option=local": false, "security_invoker=true": false,
	} {
		if got := isOn(options, "security_barrier"); got != want {
			t.Errorf("%q: %v", options, got)
		}
	}
}
