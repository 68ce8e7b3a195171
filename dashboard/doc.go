// Package dashboard shows people what the console knows, in a browser: pages, numbers that move, a map of what
// is hot, and buttons for operators.
//
//	browser ──GET /dashboard/keys──▶ page.go ──┐
//	        ──GET /api/events──────▶ live.go ──┼─Tables──▶ Proxy (proxy.Desk) ──▶ console.Views
//	        ──GET /api/views/{name}▶ ──────────┘
//	        ──GET /api/heat────────▶ map.go ─────Map─────▶ Proxy (heat.History)
//	        ──POST /dashboard/act──▶ action.go ──Query, Command──▶ Proxy
//
// There is no model of its own: all that is shown is a view of package console, made into text by format.go
// in one place for pages and events alike. Pages are complete without JavaScript; the scripts in static replace
// texts by newer ones, and draw.
//
// What is shown may come from strangers, such as values of keys: it gets into pages by html/template, and into a
// page that is open as text, never as HTML. The policy of Handler lets a browser run the scripts of this package
// and nothing else.
//
// Package http has asked who the user is. The life of a stream of events:
//
//  1. A page opens it for the views that it shows. The first viewer starts the hub's goroutine.
//  2. Once a second the hub reads each view that somebody looks at once, and gives all the same bytes.
//  3. A viewer who does not keep up, or closes the tab, is forgotten. The goroutine ends with the last one.
//
// Start reading at New.
package dashboard
