package proxy

// conf is the configuration in effect. Fields that Reconfigure never changes are also in
// cfg.
func (s *Server) conf() *Config { return s.now.Load() }

// Reconfigure replaces the configuration, except what a running proxy cannot change: the
// directory, its own name, the sizes of caches. Sessions go on; settings for logging in
// apply to new clients.
func (s *Server) Reconfigure(next Config) error {
	old := &s.cfg
	next.Snapshot, next.Directory, next.Keeps, next.Current, next.Proxy = old.Snapshot, old.Directory, old.Keeps, old.Current, old.Proxy
	next.Peers = old.Peers
	next.ServiceUser, next.AdminDatabase, next.Version = old.ServiceUser, old.AdminDatabase, old.Version
	next.FactsBytes, next.PlanBytes = old.FactsBytes, old.PlanBytes
	next.Settings, next.Reload, next.StopAt, next.Log, next.Metrics, next.Tracer = old.Settings, old.Reload, old.StopAt, old.Log, old.Metrics, old.Tracer
	s.hook(&next.Pool)
	next = next.withDefaults()
	if err := next.Validate(); err != nil {
		return err
	}
	if err := s.pool.Reconfigure(next.Pool); err != nil {
		return err
	}
	s.counts.statements.Resize(next.Statements.Bytes)
	s.now.Store(&next)
	return nil
}
