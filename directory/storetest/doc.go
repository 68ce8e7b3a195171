// Package storetest is the suite that every directory.Store passes. A store's
// own test calls Run with a function that opens an empty store.
package storetest
