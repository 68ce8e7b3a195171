package handover

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"weft/directory"
	"weft/pgerr"
	"weft/primary"
)

// Accept says that of the primaries of its timeline the server at an address is right, and returns the server's generation when every proxy has let go of the
// others. If that is not so before ctx ends, the error names the proxies, and the ruling stays. see asks the server, which is one of the shard's.
func (s *Shard) Accept(ctx context.Context, at string, see func(context.Context, *directory.Shard) (primary.Sighting, error)) (primary.Generation, error) {
	sh, err := s.Load(ctx)
	if err != nil {
		return primary.Generation{}, err
	}
	if !slices.Contains(sh.Hosts, at) {
		return primary.Generation{}, refused("Give an address as the directory has it, or add the server to the hosts of the shard first, with weft apply.",
			"%s is not one of the servers of shard %s: %s", at, sh.Name, strings.Join(sh.Hosts, ", "))
	}
	seen, err := see(ctx, sh)
	if err != nil {
		return primary.Generation{}, refused("Nothing was changed. The server must run, and let service.user log in from this machine.",
			"%s cannot be asked whether it is a primary of shard %s: %s", at, sh.Name, pgerr.From(err).Message)
	}
	return seen.Generation, s.rule(ctx, func(sh *directory.Shard) error {
		if err := acceptable(sh, seen, at); err != nil {
			return err
		}
		sh.Accept(seen.Generation, at)
		return nil
	})
}

// refused is the error for a server that cannot be accepted, with what to do.
func refused(hint, format string, args ...any) error {
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, format, args...).WithHint("%s", hint)
}

// acceptable returns why a server cannot be accepted as the primary of a shard, nil if it can.
func acceptable(sh *directory.Shard, seen primary.Sighting, at string) error {
	g := seen.Generation
	switch {
	case seen.Kind != primary.Primary:
		return refused("Promote the server first, if it is the right one. weft then goes on by itself if its timeline is the highest.",
			"%s %s, and cannot be accepted as the primary of shard %s", at, seen.Kind, sh.Name)
	case sh.System == "":
		return refused("Proxies enter the system identifier when they first log in. Then run this command again, if it is still needed.",
			"the directory does not know which system shard %s is", sh.Name)
	case g.System != sh.System:
		return refused("If the shard is another server from now on, weft apply --adopt "+sh.Name+" says so.",
			"%s belongs to system %s, and shard %s is system %s", at, g.System, sh.Name, sh.System)
	case g.Timeline < sh.Timeline:
		return refused("The server was replaced. If the shard was restored to an earlier point, weft shard reset "+sh.Name+" forgets the timeline.",
			"%s is on timeline %d, and shard %s has been on timeline %d", at, g.Timeline, sh.Name, sh.Timeline)
	case g.Timeline <= sh.Fence:
		return refused("If the promotion has failed and the server is to go on, weft fence --shard "+sh.Name+" --end takes the fence back.",
			"%s is on timeline %d, and timeline %d of shard %s is over because another server was about to be promoted", at, g.Timeline, sh.Fence, sh.Name)
	}
	return nil
}

// Reset forgets which timeline the shard has been on, so that a server of any timeline may be its primary, and returns when every proxy has
// done so. With system the system identifier is forgotten as well.
func (s *Shard) Reset(ctx context.Context, system bool) error {
	return s.rule(ctx, func(sh *directory.Shard) error {
		if sh.Reset(); system {
			sh.System = ""
		}
		return nil
	})
}

// rule changes the shard in the directory, and waits until every proxy has done what that says.
func (s *Shard) rule(ctx context.Context, f func(sh *directory.Shard) error) error {
	snap, err := s.change(ctx, f)
	if err != nil {
		return err
	}
	if err := s.Directory.Cleared(ctx, snap.Version); err != nil {
		return fmt.Errorf("the directory has it, but not every proxy has followed for shard %s: %w", s.Name, err)
	}
	return nil
}
