// Package consistency finds anomalies in histories of transactions: what clients
// did, what they saw, and what they were told of it. It runs nothing; whoever kills
// processes under load (integration/crash) hands it what the clients noted.
//
// Keys hold lists, and writing is appending a value that nobody else appends. A
// list that was read then tells its own history: who wrote before whom, and whose
// writes the reader saw. From that follow the dependencies between transactions,
// and cycles in them are anomalies (Adya's, as Elle finds them):
//
//	a list with a value of a transaction that was rolled back   G1a
//	a list that ends in the middle of a transaction's values    G1b
//	writers of several keys, each before the other              G0
//	transactions that each saw, or overwrote, the other         G1c
//	a value that was acknowledged and is not there in the end   lost
//	two lists of one key of which none continues the other      torn
//
// A transaction whose end nobody was told of (08007, a lost connection) may have
// happened or not, but not by half. Start reading at Check.
package consistency
