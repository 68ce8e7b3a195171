package wire_test

import "flag"

// datadrivenFlag reads a flag that datadriven registers but does not export.
func datadrivenFlag(name string) string {
	if f := flag.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}
