// Package growth measures a cluster that gets another shard while clients work: what the clients
// notice, how fast rows move beside a plain COPY of them, and that every row is there afterwards.
// `make bench-growth` runs it with ten million rows and draws a picture.
//
//   - growth_test.go grows the cluster and compares
//   - clients_test.go is the clients and what they have seen, progress_test.go how far the job was
//   - picture_test.go draws seconds as SVG
package growth
