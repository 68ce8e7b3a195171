package proxy

// dumps reports whether the client is pg_dump, whatever it calls itself: nobody else
// sets this. What is weft's own is hidden from it, for it could not be read, and should
// not be restored.
func (rc *record) dumps() bool {
	v, ok := rc.settings.Get("synchronize_seqscans")
	return ok && v == "off"
}
