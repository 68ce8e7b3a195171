package pgerr

// GatherTooLarge says that a query would bring more bytes together from the
// shards than weft.max_gather_bytes allows.
func GatherTooLarge(limit int64) *Error {
	return New(ConfigurationLimitExceeded, "the query gathers more than %d bytes from the shards", limit).
		WithHint("Make the query need fewer rows or columns, or raise weft.max_gather_bytes.")
}
