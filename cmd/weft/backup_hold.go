package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weft/backup"
	"weft/directory"
)

// holdCommand is how the owner of a reservation begins that weft backup release may end.
const holdCommand = "weft backup hold"

func backupHoldCommand() *cobra.Command {
	var b backingUp
	var manifest, name string
	lasts := 5 * time.Minute
	cmd := &cobra.Command{
		Use:   "hold",
		Short: "Hold commits over several shards while disks are copied",
		Long: `Keep commits over several shards waiting, so that copies of the shards' disks fit together:
snapshots of volumes, for example. Commits of one shard and reads go on. Copy the disk
of the home shard last, because values of sequences are drawn there first.

The command holds the locks in its own connections until --for is over, weft backup
release is called or a signal comes. If the command dies, the locks are gone. The exit
status is 0 if all locks were held to the end, and the copies that were made can be
used. weft restore finish needs the manifest.`,
		Example: `  weft backup hold -c weft.yaml --for 2m --manifest disks.json`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if manifest == "" || lasts <= 0 {
				return &usageError{errors.New("give --manifest FILE, which weft restore finish needs, and a time of more than 0")}
			}
			if name == "" {
				name = stamp(time.Now())
			}
			return b.run(cmd, func(ctx context.Context) error { return b.hold(ctx, name, manifest, lasts) })
		},
	}
	b.flags(cmd)
	cmd.Flags().DurationVar(&lasts, "for", lasts, "how long at most")
	cmd.Flags().StringVar(&manifest, "manifest", "", "file that the manifest is written to")
	cmd.Flags().StringVar(&name, "name", "", "name of the copies (default: the time)")
	return cmd
}

// hold is weft backup hold.
func (b *backingUp) hold(ctx context.Context, name, manifest string, lasts time.Duration) error {
	held, release, err := b.store.Reserve(ctx, owner(holdCommand))
	if err != nil {
		return err
	}
	defer release()
	maker := backup.Maker{Cluster: b.cluster, Say: func(text string) { b.say("%s", text) }}
	h, err := maker.Hold(held, name)
	if err != nil {
		return err
	}
	began := time.Now()
	b.say("commits over several shards are held, for %s at most: copy the disks now, that of %s last", lasts, h.Manifest.Home)
	err = h.Wait(held, lasts)
	took := time.Since(began)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := errors.Join(err, h.Release(last)); err != nil {
		return err
	}
	text, err := h.Manifest.Encode()
	if err == nil {
		err = writeNew(manifest, text)
	}
	if err != nil {
		return err
	}
	b.say("commits were held for %s; copies made meanwhile fit together: %s", took.Round(time.Millisecond), manifest)
	return nil
}

func backupReleaseCommand() *cobra.Command {
	var b backingUp
	wait := 30 * time.Second
	cmd := &cobra.Command{
		Use:     "release",
		Short:   "End weft backup hold",
		Long:    `End the weft backup hold of this cluster, wherever it runs, and wait until it has ended.`,
		Example: `  weft backup release -c weft.yaml`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.run(cmd, func(ctx context.Context) error { return b.release(ctx, wait) })
		},
	}
	b.flags(cmd)
	cmd.Flags().DurationVar(&wait, "wait", wait, "how long to wait for its end")
	return cmd
}

// release is weft backup release.
func (b *backingUp) release(ctx context.Context, wait time.Duration) error {
	who, err := b.store.EndReservation(ctx, holdCommand)
	if err != nil {
		return err
	}
	if who == "" {
		return errors.New("nothing is held")
	}
	snap, err := b.store.Load(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	for i := range snap.Shards {
		if err := b.awaitUnlocked(ctx, &snap.Shards[i]); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.out, "released: %s\n", who)
	return nil
}

// lockedQuery asks whether a process of weft backup holds decisions. The lock is the only one of its mode.
const lockedQuery = "SELECT EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype = 'relation' AND mode = 'ShareLock' AND granted AND pid <> pg_catalog.pg_backend_pid() " +
	"AND relation = pg_catalog.to_regclass('weft.decision'))"

// awaitUnlocked waits until no process holds the decisions of a shard.
func (b *backingUp) awaitUnlocked(ctx context.Context, spec *directory.Shard) error {
	snap, err := b.store.Load(ctx)
	if err != nil {
		return err
	}
	for _, database := range snap.Databases() {
		c, err := b.cluster.Dial(ctx, spec.Name, database)
		if err != nil {
			return err
		}
		for {
			rows, err := c.Exec(lockedQuery)
			if err == nil && rows[0][0] == "f" {
				break
			}
			select {
			case <-ctx.Done():
				c.Terminate()
				return fmt.Errorf("%s, database %s is still held", spec.Name, database)
			case <-time.After(100 * time.Millisecond):
			}
			if err != nil {
				c.Terminate()
				return err
			}
		}
		c.Terminate()
	}
	return nil
}
