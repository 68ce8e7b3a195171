// Package own sees to it that databases of shards have weft's own tables, in schema weft.
//
//	sessions, jobs ──Tables.Ensure──┐
//	every three seconds ──Refresh───┴──▶ schema.Install, once per database of a shard
//
// The tables are made when something first needs them. Tables.Ensure remembers what was found, with the key that proves
// calls of weft to the database, so that later calls cost no question. A database that was dropped may come again under
// its name without the tables: Tables.Forget.
//
// A database that another version of weft made is brought up to date in its turn, soon after the proxy has started
// (Tables.Refresh), and not when a session first needs something new: the old version may have a hole.
//
// Tables starts no goroutine. Start reading at Tables.Ensure.
package own
