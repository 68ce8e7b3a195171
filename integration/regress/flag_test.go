//go:build regress

package regress

import "flag"

var (
	cacheFlag = flag.String("cache", "", "where the scripts are kept (default: the user's cache directory)")
	outFlag   = flag.String("out", "", "keep the outputs in this directory")
	churnFlag = flag.Bool("churn", false, "let other clients take weft's server connections all the time")
	limitFlag = flag.Duration("limit", 0, "how long one script may take (default 1m)")
)
