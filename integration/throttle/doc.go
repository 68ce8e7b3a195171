// Package throttle limits what clients of two proxies may do, and looks at what they notice of it.
package throttle
