package proxy

import (
	"context"
	"errors"
	"time"

	"weft/directory"
	"weft/handover"
	"weft/pgerr"
)

// How long transactions may take to end when a shard is drained on all proxies, and how long the shard is drained if the command does not say.
const (
	drainWait = 10 * time.Second
	drainFor  = time.Minute
)

// DrainEverywhere implements console.Control.
func (a adminSource) DrainEverywhere(ctx context.Context, shard, lasts string) error {
	o := handover.Options{Wait: drainWait, For: drainFor}
	if lasts != "" {
		d, err := time.ParseDuration(lasts)
		if err != nil || d <= 0 || d > directory.MaxDrain {
			return pgerr.New(pgerr.InvalidParameterValue, "%q is not a time up to %s, such as 30s", lasts, directory.MaxDrain)
		}
		o = handover.Options{Wait: min(drainWait, d), For: d}
	}
	s, err := a.handedOver(shard)
	if err != nil {
		return err
	}
	a.srv.log.Info("draining on all proxies", "shard", shard, "for", o.For.String())
	return asAnswer(s.Drain(ctx, o))
}

// ResumeEverywhere implements console.Control.
func (a adminSource) ResumeEverywhere(ctx context.Context, shard string) error {
	s, err := a.handedOver(shard)
	if err != nil {
		return err
	}
	_, err = s.EndDrain(ctx)
	return asAnswer(err)
}

// handedOver returns a shard whose primary may change.
func (a adminSource) handedOver(shard string) (*handover.Shard, error) {
	if a.srv.cfg.Directory == nil {
		return nil, pgerr.New(pgerr.FeatureNotSupported, "this proxy has no directory").WithHint("Send it to a proxy that has one: etcd in weft.yaml.")
	}
	return &handover.Shard{Directory: a.srv.cfg.Directory, Name: shard}, nil
}

// asAnswer returns an error of a change of the directory as a client is told it.
func asAnswer(err error) error {
	if e := (*pgerr.Error)(nil); err == nil || errors.As(err, &e) {
		return err
	}
	if errors.Is(err, handover.ErrNoShard) {
		return pgerr.New(pgerr.UndefinedObject, "%s", err.Error())
	}
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "%s", err.Error())
}
