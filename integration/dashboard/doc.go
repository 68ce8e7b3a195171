// Package dashboard looks at weft's dashboard with a real browser: Chromium, driven by chromedp.
//
//	test ──chromedp──▶ Chromium ──HTTP──▶ weft dev ──▶ shards
//	    └──pgx─────────────────────────────▲
//
// It is a module of its own, because weft itself needs neither chromedp nor what that needs. The cluster is one of weft
// dev, as people start it. make dashboard-test installs the browser and runs the tests. Flags behind -args:
//
//	-shots DIR   write the pictures of docs/dashboard.md there
//	-open 1h     keep a page open for so long, and say what it costs
//
// Start reading at world.
package dashboard
