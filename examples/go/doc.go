// Command tracker keeps the projects and tasks of many tenants: an application with pgx that knows nothing of shards.
//
//	main.go      its commands: migrate runs files of SQL, demo uses the application
//	tracker.go   what it does with the database
//
// It finds the database in DATABASE_URL.
package main
