// Package pgerr holds the one error type a client may see.
//
//	any package ──returns──▶ *pgerr.Error ──proxy──▶ wire.AppendError ──▶ client
//
// An Error carries the fields of PostgreSQL's ErrorResponse: a severity, a
// SQLSTATE, a message, and where they help a detail and a hint. Errors that a
// shard raised do not come through here: they reach the client field by field
// as PostgreSQL wrote them. Start reading at Error.
package pgerr
