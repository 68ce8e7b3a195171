// Package peer is what proxies of one cluster say to each other.
//
// Sessions and statements are known to the proxy that has them. A client that reads
// weft.sessions wants the sessions of all proxies, and behind one address it cannot
// choose. So a proxy asks the others, at the address where clients connect:
//
//	asker                          asked
//	wire.AppendAsk            →
//	                          ←    challenge
//	MAC, question             →           MAC = HMAC(secret of the asked, channel, challenge, question)
//	                          ←    MAC, answer
//
// The secret is in the directory, which only proxies and their operators read. It never
// goes over the wire. Where the asked proxy has TLS the channel is bound to the
// connection, so that a relay in between can neither ask nor answer.
//
// Ask and Cancel talk to one proxy, Circle to all others. Asked answers. Start reading at
// Asked.Serve, which shows both halves of the dialogue.
package peer
