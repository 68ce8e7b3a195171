// Package password looks up the stored passwords of users who have none in weft.yaml.
//
//	client logs in ──▶ auth ──Stored──▶ Cache ──auth_query──▶ home shard, or another one while it is down
//
// A shard is asked as the service user, and its answers are kept for a while. After that time, and if no shard answers,
// no user is let in with an old answer: a password may have been removed to keep its user out. Clients that log in as the
// same user at once wait for one answer, and only a few questions are under way at a time.
//
// A Cache has a goroutine per question, started by Config.Spawn, which waits for it. Start reading at Cache.By.
package password
