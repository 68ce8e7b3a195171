package patroni

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Cluster is a running cluster that is to have another primary. It is a handover.Manager.
type Cluster struct {
	Client *Client
	Scope  Scope
	// Keys reads what Patroni keeps of the cluster.
	Keys func(ctx context.Context) (map[string]string, error)
	// To is the address, or Patroni's name, of the server that is to be the primary. Empty: Patroni chooses.
	To string

	leader    Member
	candidate string
}

// Check finds out which server is the primary, and returns why no other can take its place.
func (c *Cluster) Check(ctx context.Context) error {
	keys, err := c.Keys(ctx)
	if err != nil {
		return err
	}
	members, err := c.Scope.Members(keys)
	if err != nil {
		return err
	}
	if len(members) == 0 {
		return fmt.Errorf("etcd has no members of Patroni below %smembers/: compare scope and namespace with patroni.yml", c.Scope.Prefix())
	}
	at := slices.IndexFunc(members, func(m Member) bool { return m.Name == c.Scope.Leader(keys) })
	if at < 0 {
		return errors.New("patroni has no primary of the shard now")
	}
	c.leader, c.candidate = members[at], ""
	if c.To != "" {
		to := slices.IndexFunc(members, func(m Member) bool { return m.Name == c.To || m.Address() == c.To })
		if to < 0 {
			return fmt.Errorf("%s is not a server of the shard: it is one of %s", c.To, describe(members))
		}
		if to == at {
			return fmt.Errorf("%s is the primary already", c.To)
		}
		c.candidate = members[to].Name
	}
	asked, stop := context.WithTimeout(ctx, checkTimeout)
	defer stop()
	standings, err := c.Client.Cluster(asked, c.leader.APIURL)
	if unanswered := (*url.Error)(nil); errors.As(err, &unanswered) && ctx.Err() == nil {
		return fmt.Errorf("the Patroni of the primary, %s, does not answer, and no other may switch: if it is gone, another server becomes the primary by itself when its lease (ttl) is over: %w", c.leader.Name, err)
	}
	if err != nil {
		return err
	}
	return c.ready(standings)
}

// checkTimeout is how long Patroni may take to say who could be the primary.
const checkTimeout = 5 * time.Second

// ready returns why no server can take the place of the primary.
func (c *Cluster) ready(standings []Standing) error {
	var others []string
	sync := slices.ContainsFunc(standings, func(s Standing) bool { return s.Role == "sync_standby" || s.Role == "quorum_standby" })
	for _, s := range standings {
		if s.Name == c.leader.Name {
			continue
		}
		runs := s.State == "running" || s.State == "streaming"
		if runs && (c.candidate == "" || s.Name == c.candidate) && (!sync || s.Role != "replica") {
			return nil
		}
		others = append(others, s.Name+" is a "+s.Role+", "+s.State)
	}
	if len(others) == 0 {
		return errors.New("the shard has no standby")
	}
	return fmt.Errorf("no standby can take the place of %s now: %s", c.leader.Name, strings.Join(others, "; "))
}

// Switch asks Patroni for another primary.
func (c *Cluster) Switch(ctx context.Context) error {
	return c.Client.Switchover(ctx, c.leader.APIURL, c.leader.Name, c.candidate)
}

// describe lists members.
func describe(members []Member) string {
	out := make([]string, len(members))
	for i := range members {
		out[i] = members[i].Name + " at " + members[i].Address()
	}
	return strings.Join(out, ", ")
}
