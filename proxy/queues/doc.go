// Package queues keeps the queues of hot keys of this proxy.
//
//	findings of the judge ──Want──┐
//	other proxies ──Figures───────┴─▶ Queues.Second ──▶ queue.Table, which sessions read
//
// Once a second Queues.Second takes the keys that are hot, makes queues for new ones, forgets those that are of no use any
// more, and takes this proxy's part of the slots of each key: half of the slots are split evenly, and half go by demand.
//
// Queues.Run owns its goroutine. Start reading at Queues.Second.
package queues
