package auth

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Failures counts failed logins by the address they come from, so that passwords
// cannot be tried at will. Each address may fail limit times in a row and gets its
// tries back evenly over a minute. The limit comes with each call, as it may
// change; 0 is none.
//
// An IPv6 client owns a whole network, so /64 networks are counted. Addresses on
// Unix-domain sockets are not counted.
type Failures struct {
	mu  sync.Mutex
	set map[netip.Prefix]time.Time // when the address will have all its tries back
}

// maxAddresses bounds the table. When it is full, those that are closest to being
// forgotten anyway make room, a quarter at once.
const maxAddresses = 8192

// Wait returns how long an address must wait before it may try, 0 if it may now.
func (f *Failures) Wait(limit int, addr net.Addr, now time.Time) time.Duration {
	key, ok := failing(limit, addr)
	if !ok {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	full, known := f.set[key]
	if !known {
		return 0
	}
	// All tries are used when they would need the whole window to come back.
	return max(0, full.Sub(now)-(window-each(limit)))
}

// Note counts a failure.
func (f *Failures) Note(limit int, addr net.Addr, now time.Time) {
	key, ok := failing(limit, addr)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	full, known := f.set[key]
	if !known {
		f.makeRoom(now)
	}
	if full.Before(now) {
		full = now
	}
	// Clients that were let through at the same moment do not add up for ever.
	full = full.Add(each(limit))
	if last := now.Add(window); full.After(last) {
		full = last
	}
	if f.set == nil {
		f.set = map[netip.Prefix]time.Time{}
	}
	f.set[key] = full
}

func (f *Failures) makeRoom(now time.Time) {
	if len(f.set) < maxAddresses {
		return
	}
	keys := make([]netip.Prefix, 0, len(f.set))
	for key := range f.set {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b netip.Prefix) int { return f.set[a].Compare(f.set[b]) })
	for i, key := range keys {
		if i >= maxAddresses/4 && f.set[key].After(now) {
			return
		}
		delete(f.set, key)
	}
}

// window is how long all tries take to come back.
const window = time.Minute

// each is how long one of them takes.
func each(limit int) time.Duration { return window / time.Duration(limit) }

// failing is what an address is counted under, if it is.
func failing(limit int, addr net.Addr) (netip.Prefix, bool) {
	if limit <= 0 || addr == nil || isLocal(addr) {
		return netip.Prefix{}, false
	}
	ip, ok := addrOf(addr)
	if !ok {
		return netip.Prefix{}, false
	}
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	return p, err == nil
}
