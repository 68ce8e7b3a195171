package directory

import (
	"fmt"
	"slices"
)

// Live is the proxies that were alive at one moment.
type Live struct {
	Proxies []Proxy
	// Revision is that moment: the store's revision at which the list was right.
	Revision int64
	// Newest is the largest epoch that was ever given. Its proxy may be gone again.
	Newest int64
}

// Names lists the proxies, each with its epoch.
func (l Live) Names() []string {
	out := make([]string, len(l.Proxies))
	for i := range l.Proxies {
		out[i] = fmt.Sprintf("%s/%d", l.Proxies[i].ID, l.Proxies[i].Epoch)
	}
	slices.Sort(out)
	return out
}

// Same reports whether no proxy has come or gone between two moments.
func (l Live) Same(other Live) bool {
	return l.Newest == other.Newest && slices.Equal(l.Names(), other.Names())
}

// Has reports whether a proxy is alive under an epoch.
func (l Live) Has(id string, epoch int64) bool {
	return slices.ContainsFunc(l.Proxies, func(p Proxy) bool { return p.ID == id && p.Epoch == epoch })
}

// Cleared reports whether nothing is in flight on any of the proxies that rounds of a version
// must wait for.
func (l Live) Cleared(version int64) bool {
	return !slices.ContainsFunc(l.Proxies, func(p Proxy) bool { return p.Serves.Version < version || p.Serves.Cleared < version })
}
