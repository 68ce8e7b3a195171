package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Health is what a member of etcd says of itself.
type Health struct {
	Endpoint string
	Version  string
	Size     int64 // of its database, in bytes
	Leader   bool  // it knows a leader
	Learner  bool
	Err      error
}

// Health asks all members that etcd lists, and the endpoints of the configuration if it lists none. Alarms
// are those that are raised, with the names that etcd gives them.
func (s *Store) Health(ctx context.Context) (members []Health, alarms []string) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	endpoints := s.client.Endpoints()
	if list, err := s.client.MemberList(ctx); err == nil {
		var all []string
		for _, m := range list.Members {
			if len(m.ClientURLs) > 0 {
				all = append(all, m.ClientURLs[0])
			}
		}
		if len(all) >= len(endpoints) {
			endpoints = all
		}
	}
	for _, at := range endpoints {
		h := Health{Endpoint: at}
		if st, err := s.client.Status(ctx, at); err != nil {
			h.Err = s.wrap("status", err)
		} else {
			h.Version, h.Size, h.Leader, h.Learner = st.Version, st.DbSize, st.Leader != 0, st.IsLearner
		}
		members = append(members, h)
	}
	if r, err := s.client.AlarmList(ctx); err == nil {
		for _, a := range r.Alarms {
			if a.Alarm != etcdserverpb.AlarmType_NONE {
				alarms = append(alarms, a.Alarm.String())
			}
		}
	}
	return members, alarms
}
