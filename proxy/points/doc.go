// Package points knows which backup points the directory has.
//
//	directory ──Points──▶ Board ──Newest──▶ metrics
//	shards ──last archived──▶  └──List──▶ weft.backups, SHOW BACKUPS
//
// Points are made by commands and by sessions, anywhere. The board of each proxy looks at the list now and then, for metrics, and whenever a
// client asks for it. A point is usable when every shard has archived its part: the board asks the shards about points of which that is not
// known yet, and enters what it finds.
//
// Board starts no goroutine; Board.Run is for one of the caller's. Start reading at Board.List.
package points
