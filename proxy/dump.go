package proxy

// dumps reports whether the client is pg_dump, whatever it calls itself: only pg_dump sets
// synchronize_seqscans. weft's own objects are hidden from pg_dump: it could not read them, and
// they should not be restored.
func (rc *record) dumps() bool {
	v, ok := rc.settings.Get("synchronize_seqscans")
	return ok && v == "off"
}
