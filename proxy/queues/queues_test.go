package queues

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"weft/heat/ferry"
	"weft/heat/queue"
)

// scene is what a proxy hears of.
type scene struct {
	mode   queue.Mode
	reads  ferry.Mode
	wants  []Want
	others []Demand
	silent int
}

func (s *scene) queues() *Queues {
	return New(Config{
		Rows: func() queue.Mode { return s.mode }, Reads: func() ferry.Mode { return s.reads }, Wants: func() []Want { return s.wants },
		Others: func(context.Context) ([]Demand, int) { return s.others, s.silent },
	})
}

var seven = queue.Key{Database: "app", Group: 1, ID: 99, Value: "7"}

// A key that is hot gets a queue, which goes when the key has cooled, and lets all go on that wait.
func TestComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{mode: queue.Auto}
		q := s.queues()
		q.Second(t.Context())
		if q.Table() != nil {
			t.Fatal("a table of nothing")
		}
		s.wants = []Want{{Key: seven, Shard: "a", Words: "key 7", Writes: true, Hot: true}, {Key: queue.Key{Value: "8"}, Hot: true}}
		q.Second(t.Context())
		all := q.Table().All()
		if len(all) != 1 || all[0].Words != "key 7" || !all[0].Row.Figures().Closed {
			t.Fatalf("%+v", all)
		}
		row := all[0].Row
		var last *queue.Place
		for range queue.Slots + 1 {
			last = row.Enter(time.Now())
		}
		s.wants[0].Shard = "b" // the key has moved
		time.Sleep(time.Second)
		if q.Second(t.Context()); q.Table().All()[0].Shard != "b" || q.Table().All()[0].Row != row {
			t.Error("the queue is not the same on another shard")
		}
		s.wants = nil
		time.Sleep(time.Second)
		if q.Second(t.Context()); q.Table() == nil || last.Has() {
			t.Error("the queue ends while transactions wait")
		}
		s.mode = ""
		time.Sleep(time.Second)
		if q.Second(t.Context()); q.Table() != nil || !last.Has() {
			t.Error("the queue goes on although it is switched off")
		}
	})
}

// Slots are split over proxies by demand, and each has one at least.
func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{mode: queue.Auto, wants: []Want{{Key: seven, Writes: true, Hot: true}}}
		q := s.queues()
		slots := func() int {
			time.Sleep(time.Second)
			q.Second(t.Context())
			return q.Table().All()[0].Row.Figures().Slots
		}
		if n := slots(); n != queue.Slots {
			t.Errorf("%d alone", n)
		}
		s.silent = 1
		if n := slots(); n != queue.Slots/2 {
			t.Errorf("%d beside one that says nothing", n)
		}
		s.silent, s.others = 0, []Demand{{seven.Sum(): 100}, {seven.Sum(): 100}, {}, {}, {}}
		if n := slots(); n != 1 {
			t.Errorf("%d without demand", n)
		}
		for range 1000 {
			q.Table().All()[0].Row.Enter(time.Now())
		}
		s.others = []Demand{{}}
		if n := slots(); n != 3 || q.Demand()[seven.Sum()] < 400 {
			t.Errorf("%d with all demand: %v", n, q.Demand())
		}
	})
}
