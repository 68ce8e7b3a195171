package twopc

// Point is a moment in the life of a transaction at which tests stop or kill a
// process.
type Point string

// Points of a commit, in its order. A "before" point is reached when everything that the step
// before it does is done.
const (
	BeforeDecide  Point = "before-decide"  // the client's writes are done, the commit has not begun
	AfterDecide   Point = "after-decide"   // the decision is entered, in the open transaction
	BeforePrepare Point = "before-prepare" // a change of schemas is in the directory
	DuringPrepare Point = "during-prepare" // the first of several participants has been asked to prepare, the others have not
	AfterPrepare  Point = "after-prepare"  // all participants have prepared; COMMIT is the next message
	AfterCommit   Point = "after-commit"   // the deciding shard has committed; no participant has been told
	DuringFollow  Point = "during-follow"  // the first of several participants has been told to commit, the others have not
	AfterFollow   Point = "after-follow"   // all participants have committed, and the client has not been told
	BeforeForget  Point = "before-forget"  // the decision is about to be deleted
	AfterForget   Point = "after-forget"
)

// AfterPublish comes after AfterFollow if the transaction has changed schemas: all proxies know
// of the change, and the client has not been told.
const AfterPublish Point = "after-publish"

// Points of recovery.
const (
	BeforeArbitrate Point = "before-arbitrate" // a prepared transaction was found
	AfterArbitrate  Point = "after-arbitrate"  // the outcome of a prepared transaction is known
	AfterResolve    Point = "after-resolve"    // one participant has been made to follow the outcome
	BeforeSweep     Point = "before-sweep"     // a decision that all participants have confirmed was found
	AfterSweep      Point = "after-sweep"      // the confirmed decision has been deleted
)

// CommitPoints are the points that every commit of three or more shards passes. With two shards
// there is one participant, and a commit does not pass DuringPrepare and DuringFollow.
var CommitPoints = []Point{
	BeforeDecide, AfterDecide, BeforePrepare, DuringPrepare, AfterPrepare, AfterCommit, DuringFollow, AfterFollow, BeforeForget, AfterForget,
}

// RecoveryPoints are the points that a resolver passes.
var RecoveryPoints = []Point{BeforeArbitrate, AfterArbitrate, AfterResolve, BeforeSweep, AfterSweep}
