// Package flow tells which values in a trigger function are the row that set the trigger off, or a key column of that row,
// and which texts its EXECUTEs run.
//
//	body, Trigger ──Read──▶ Body ──▶ Statements: line, and a tree in which the key is a parameter
//
// Every variable has one value for the whole function: the join of all that is assigned to it (value.go, eval.go). A
// variable that is given anything else than the row, its key, or a known text is unknown. Whether a value may be NULL depends
// on the event and on the place: walk.go goes through the statements in order, knows what TG_OP can be in each branch, and
// which variables have been assigned there.
//
// The package proves nothing about tables: package planner plans the statements. It has no goroutines and no state. Start
// reading at Read.
package flow
