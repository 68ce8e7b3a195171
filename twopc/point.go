package twopc

// Point is a moment in the life of a transaction at which tests stop or kill a
// process.
type Point string

// Points of a commit, in its order. Each "before" comes after everything that the step before
// it has left behind.
const (
	BeforeDecide  Point = "before-decide"  // nothing but the client's writes is there
	AfterDecide   Point = "after-decide"   // the row is there, in the open transaction
	BeforePrepare Point = "before-prepare" // and the directory knows, if it must
	DuringPrepare Point = "during-prepare" // the first of several participants has been asked, the others have not
	AfterPrepare  Point = "after-prepare"  // all participants have prepared; COMMIT is the next message
	AfterCommit   Point = "after-commit"   // the deciding shard has answered; nobody has followed
	DuringFollow  Point = "during-follow"  // the first of several participants has been told, the others have not
	AfterFollow   Point = "after-follow"   // all have, and the client has not been told
	BeforeForget  Point = "before-forget"  // the row is about to be deleted
	AfterForget   Point = "after-forget"
)

// AfterPublish comes after AfterFollow if the transaction has changed schemas: all
// proxies know, and the client has not been told.
const AfterPublish Point = "after-publish"

// Points of recovery.
const (
	BeforeArbitrate Point = "before-arbitrate" // a prepared transaction was found
	AfterArbitrate  Point = "after-arbitrate"  // its outcome is known
	AfterResolve    Point = "after-resolve"    // one participant has been made to follow
	BeforeSweep     Point = "before-sweep"     // a decision that all have confirmed was found
	AfterSweep      Point = "after-sweep"      // and is deleted
)

// CommitPoints are those that every commit of several shards comes to, but for
// the ones between two participants, which take a third shard.
var CommitPoints = []Point{
	BeforeDecide, AfterDecide, BeforePrepare, DuringPrepare, AfterPrepare, AfterCommit, DuringFollow, AfterFollow, BeforeForget, AfterForget,
}

// RecoveryPoints are those of a resolver.
var RecoveryPoints = []Point{BeforeArbitrate, AfterArbitrate, AfterResolve, BeforeSweep, AfterSweep}
