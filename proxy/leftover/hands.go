package leftover

import "sync"

// hands are the commits that sessions of this proxy are carrying out, by nonce. A prepared
// transaction of no such commit is left to the resolver.
type hands struct {
	mu sync.Mutex
	m  map[string]struct{}
}

// Take notes that a session carries out the commit with this nonce.
func (k *Keeper) Take(nonce string) { k.hands.take(nonce) }

// Drop notes that no session carries out that commit any more.
func (k *Keeper) Drop(nonce string) { k.hands.drop(nonce) }

func (h *hands) take(n string) {
	h.mu.Lock()
	if h.m == nil {
		h.m = map[string]struct{}{}
	}
	h.m[n] = struct{}{}
	h.mu.Unlock()
}

func (h *hands) drop(n string) {
	h.mu.Lock()
	delete(h.m, n)
	h.mu.Unlock()
}

func (h *hands) has(n string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.m[n]
	return ok
}
