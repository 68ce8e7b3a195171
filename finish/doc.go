// Package finish carries the rows of pieces to one PostgreSQL backend, where
// the remainder of a statement makes the result of them.
//
//	shards ──DataRow──▶ Inputs ──Bind──▶ remainder over arrays       (small)
//	                       └──▶ Stage ──COPY──▶ temporary table      (large)
//
// The life of a gathered statement:
//
//  1. Describe asks the home shard for the types of the statement and of its
//     pieces. Carriable says whether these can travel.
//  2. Tagged makes one statement of all pieces that a shard runs. Its rows say
//     in their first column which piece they are of. Formats are the formats to
//     ask for.
//  3. Inputs takes the rows in. As long as they are few, they stay in memory and
//     become parameters of the remainder: arrays, one for each column.
//  4. When they are many, a Stage takes what the Inputs have and all rows that
//     follow into a temporary table. Rows go from one server to the other as
//     they are: the body of a DataRow is a tuple of COPY BINARY.
//  5. AppendInput of either writes the subquery that the remainder reads a
//     piece's rows from. Its columns have the names, types and collations that
//     the piece's have.
//
// Nothing is decoded on the way, so nothing is lost. A backend is the caller's
// before and after each call; a Stage owns it from OpenStage to Close or Abort,
// and has a goroutine of its own in between. Start reading at Inputs.
package finish
