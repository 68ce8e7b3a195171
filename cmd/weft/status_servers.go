package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/dev"
	"weft/directory"
	"weft/primary"
	"weft/server"
)

// pingTimeout bounds how long hosts may take to answer.
const pingTimeout = 2 * time.Second

// judge notes what each server says of itself, what it is to its shard, and what is wrong. A login that is turned away is no answer: a query would be
// turned away, too.
func (st *status) judge(snap *directory.Snapshot, hosts server.Hosts) {
	for i := range st.Shards {
		s := &st.Shards[i]
		v := hosts.Judge(&snap.Shards[i])
		s.State, s.Problems = v.State.String(), v.Troubles(s.Name)
		if v.State == primary.Steady {
			s.Primary = v.Primary
		}
		for j := range s.Hosts {
			for k := range hosts {
				if h := &hosts[k]; h.Shard == s.Name && h.Address == s.Hosts[j].Address {
					s.Hosts[j].note(&v.Servers[j], h)
					s.lack(st.Durability, h)
				}
			}
		}
	}
}

// note takes down what is known of a server.
func (h *hostStatus) note(s *primary.Server, a *server.Host) {
	h.State = s.State()
	if a.Err != nil {
		h.Error = oneLine(a.Err)
		return
	}
	h.Role, h.System, h.Timeline, h.Halted = "primary", s.Seen.Generation.System, a.Timeline, a.Halted
	if a.Standby {
		h.Role = "standby"
	}
	h.Sync = strings.Join(s.Seen.SyncStates, ", ")
	if s.LagKnown {
		lag := int64(s.LagBytes)
		h.Lag = &lag
	}
}

// lack notes what a server keeps the shard from being what is declared.
func (s *shardStatus) lack(durability string, h *server.Host) {
	if h.Halted {
		s.Problems = append(s.Problems, primary.Trouble{
			Wrong: fmt.Sprintf("%s of shard %s does not replay what it receives: an operator has paused it", h.Address, s.Name),
			Next:  "Run SELECT pg_wal_replay_resume() there.",
		})
	}
	if h.Address != s.Primary {
		return
	}
	if s.Lacks = lacks(durability, h); s.Lacks != "" {
		s.Problems = append(s.Problems, primary.Trouble{
			Wrong: fmt.Sprintf("shard %s is not as durable as declared: %s", s.Name, s.Lacks),
			Next:  "Correct it on " + h.Address + ", with Patroni by synchronous_mode; or declare another durability in cluster.yaml and run weft apply.",
		})
	}
}

// lacks says what a primary lacks to be as durable as the cluster declares; empty if nothing.
func lacks(durability string, h *server.Host) string {
	return primary.Durability(durability).Lacks(h.SyncNames, h.Hasty)
}

// troubled reports whether there is a problem.
func (st *status) troubled() bool {
	return slices.ContainsFunc(st.Shards, func(s shardStatus) bool { return len(s.Problems) > 0 })
}

// printProblems says what is wrong, and in the next line what to do.
func (st *status) printProblems(w io.Writer) {
	for _, s := range st.Shards {
		for _, p := range s.Problems {
			fmt.Fprintf(w, "! %s\n  %s\n", p.Wrong, p.Next)
		}
	}
	if st.troubled() {
		fmt.Fprintln(w)
	}
}

// own adds what a weft dev that runs in the directory says of its servers.
func (st *status) own(ctx context.Context, dir string) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	servers, err := dev.Servers(ctx, dir)
	if err != nil {
		return // no weft dev, or another user's
	}
	for _, s := range servers {
		for i := range st.Shards {
			for j := range st.Shards[i].Hosts {
				if h := &st.Shards[i].Hosts[j]; st.Shards[i].Name == s.Shard && h.Address == s.Address {
					h.Dir, h.PID, h.Frozen = s.Dir, s.PID, s.Frozen
				}
			}
		}
	}
}

func (st *status) printShards(w io.Writer) {
	owned := slices.ContainsFunc(st.Shards, func(s shardStatus) bool {
		return slices.ContainsFunc(s.Hosts, func(h hostStatus) bool { return h.Dir != "" })
	})
	head := "SHARD\tHOST\tROLE\tSTATE\tTIMELINE\tLAG\tSYNC\tWEIGHT\tBUCKETS\tSHARE\tOPTIONS"
	if owned {
		head += "\tPID\tDATA DIRECTORY"
	}
	fmt.Fprintln(w, head)
	for _, s := range st.Shards {
		var opts []string
		for _, k := range slices.Sorted(maps.Keys(s.Options)) {
			opts = append(opts, k+"="+s.Options[k])
		}
		buckets := fmt.Sprint(s.Buckets)
		if s.Pinned > 0 {
			buckets += fmt.Sprintf(" + %d own", s.Pinned)
		}
		for i, h := range s.Hosts {
			line := []string{"", h.Address, h.Role, h.state(), h.timeline(), h.lag(), h.Sync, "", "", "", ""}
			if i == 0 { // said once per shard
				line[0] = s.Name
				line = append(line[:7], fmt.Sprint(s.Weight), buckets, fmt.Sprintf("%.1f%%", 100*s.Share), strings.Join(opts, " "))
			}
			if owned {
				line = append(line, h.pid(), h.Dir)
			}
			fmt.Fprintln(w, strings.Join(line, "\t"))
		}
	}
	fmt.Fprintln(w)
}

// state is what the server is to its shard. weft dev knows more of one that does not answer.
func (h hostStatus) state() string {
	if h.Frozen {
		return "frozen"
	}
	return h.State
}

func (h hostStatus) timeline() string {
	if h.Timeline == 0 {
		return ""
	}
	return strconv.Itoa(h.Timeline)
}

// lag is how much of the primary's log a standby has not replayed, for people.
func (h hostStatus) lag() string {
	switch {
	case h.Lag == nil:
		return ""
	case *h.Lag < 10<<10:
		return fmt.Sprintf("%d B", *h.Lag)
	case *h.Lag < 10<<20:
		return fmt.Sprintf("%d kB", *h.Lag>>10)
	default:
		return fmt.Sprintf("%d MB", *h.Lag>>20)
	}
}

func (h hostStatus) pid() string {
	if h.PID == 0 {
		return ""
	}
	return strconv.Itoa(h.PID)
}
