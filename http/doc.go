// Package http answers operators and their tools: may traffic come here, how
// is it going, and where does the time go.
//
//	load balancer ──/readyz──▶ ┐
//	Kubernetes ─────/livez───▶ │ Handler ──Ready()──▶ server
//	Prometheus ─────/metrics─▶ │
//	browser ────────/dashboard/──▶ Config.Dashboard
//	go tool pprof ──/debug/pprof (only if switched on)
//
// Health and metrics are open; for the rest guard.go asks for a user of its own, whom UserOf returns to
// those who serve it.
//
// It takes functions, not the proxy: a process in which the proxy has not
// started yet, or is draining, is the one whose health matters. Server owns
// one goroutine, ended by Close. Start reading at Handler.
package http
