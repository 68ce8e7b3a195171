// Package finish carries the rows of pieces to one PostgreSQL backend, where the
// remainder of a statement computes the result from them.
//
//	shards ──DataRow──▶ Inputs ──Bind──▶ remainder over arrays       (small)
//	                       └──▶ Stage ──COPY──▶ temporary table      (large)
//
// The life of a gathered statement:
//
//  1. Describe asks the home shard for the types of the statement and of its
//     pieces. Carriable says whether values of these types can travel.
//  2. Tagged makes one statement of all pieces that a shard runs. The first column
//     of a row says which piece the row belongs to. Formats returns the result
//     formats to ask for.
//  3. Inputs takes in the rows. As long as the rows are few, they stay in memory and
//     become parameters of the remainder: arrays, one for each column.
//  4. When the rows are many, a Stage takes those of the Inputs and all later ones
//     into a temporary table. Rows go from one server to the other unchanged: the
//     body of a DataRow is a tuple of COPY BINARY.
//  5. AppendInput, of Inputs or Stage, writes the subquery from which the remainder
//     reads a piece's rows. The columns of the subquery have the names, types and
//     collations of the piece's.
//
// No value is decoded on the way, so none can be changed. A backend belongs to the
// caller before and after each call; a Stage owns its backend from OpenStage to Close
// or Abort, and runs a goroutine in between. Start reading at Inputs.
package finish
