package proxy

import "maps"

// perRound bounds the databases that a round of background work is done for: a proxy that
// starts in front of a hundred databases must not take on all of them at once.
const perRound = 4

// turn returns the databases whose turn it is in a round of background work: of those that
// want it, the ones with clients first.
func (r *register) turn(databases []string, wants func(database string) bool) []string {
	var used, rest []string
	r.mu.Lock()
	clients := maps.Clone(r.byDatabase)
	r.mu.Unlock()
	for _, name := range databases {
		switch {
		case len(used) == perRound:
			return used
		case clients[name] == 0 && len(rest) == perRound || !wants(name):
		case clients[name] > 0:
			used = append(used, name)
		default:
			rest = append(rest, name)
		}
	}
	all := append(used, rest...)
	return all[:min(len(all), perRound)]
}
