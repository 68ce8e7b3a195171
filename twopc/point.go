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
	AfterPrepare  Point = "after-prepare"  // all participants have prepared; COMMIT is the next message
	AfterCommit   Point = "after-commit"   // the deciding shard has answered; nobody has followed
	AfterFollow   Point = "after-follow"   // all have, and the client has not been told
	BeforeForget  Point = "before-forget"  // the row is about to be deleted
	AfterForget   Point = "after-forget"
)

// Points of recovery.
const (
	BeforeArbitrate Point = "before-arbitrate" // a prepared transaction was found
	AfterArbitrate  Point = "after-arbitrate"  // its outcome is known
	AfterResolve    Point = "after-resolve"    // one participant has been made to follow
)

// Points lists them all.
var Points = []Point{
	BeforeDecide, AfterDecide, BeforePrepare, AfterPrepare, AfterCommit, AfterFollow, BeforeForget, AfterForget,
	BeforeArbitrate, AfterArbitrate, AfterResolve,
}
