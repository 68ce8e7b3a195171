package proxy

import "testing"

// TestWide: what the execution of a portal would do on other shards is gone with the portal.
func TestWide(t *testing.T) {
	var w wide
	unnamed, p := []byte(nil), []byte("p")
	bind := func() {
		for _, name := range [][]byte{unnamed, p} {
			w.noteEverywhere(name, &spread{})
			w.noteForAll(name, "savepoint s", nil)
		}
	}
	bind()
	if w.forget(unnamed); w.everywhere[""] != nil || w.everywhere["p"] == nil {
		t.Error("forget does not forget one portal")
	}
	if _, ok := w.takeForAll(unnamed); ok {
		t.Error("a forgotten portal is for all")
	}
	if all, ok := w.takeForAll(p); !ok || all.text != "savepoint s" {
		t.Errorf("taken: %q", all.text)
	}
	if _, ok := w.takeForAll(p); ok {
		t.Error("a portal is for all twice")
	}
	bind()
	if w.forgetAll(); len(w.everywhere)+len(w.forAll) > 0 {
		t.Error("portals are left")
	}
}
