// Package table goes on with the work on declared tables that proxies which are gone have left unfinished.
//
//	every two seconds ──▶ Keeper.Recover ──┬──▶ moves of tables, forward or back
//	                                       ├──▶ lookups that were being made
//	                                       ├──▶ limits of routed ids that were being raised
//	                                       └──▶ guards of shard keys that are missing
//
// Declaring a table, or making a lookup, is a job of one proxy (package schema). The directory or the schema names the
// proxy. If it is gone, any other proxy finishes the job, or undoes it; each step may be done twice, so two proxies that do the
// same at once do no harm. Guards are missing where another proxy declared a table, or an older weft did.
//
// A Keeper starts no goroutine. Start reading at Keeper.Recover.
package table
