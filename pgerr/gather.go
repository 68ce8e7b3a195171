package pgerr

// GatherTooLarge says that a statement would bring more bytes together from the
// shards than weft.max_gather_bytes allows.
func GatherTooLarge() *Error {
	return New(ConfigurationLimitExceeded, "this statement gathers more than weft.max_gather_bytes").
		WithHint("Set weft.max_gather_bytes higher, or let the statement need fewer rows or columns.")
}
