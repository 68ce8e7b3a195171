package main

// suite is one application, written with one driver.
type suite struct {
	Name string // language/driver
	Dir  string // the language's folder here
	// Command runs in Dir. A variable of the environment is written $NAME.
	Command []string
	// Install is the language whose install.sh is run in Dir, if Dir has none of its own.
	Install string
}

// suites are all there are, in the order in which they run: the quick ones first.
var suites = []suite{
	{Name: "go/pgx", Dir: "go", Command: []string{"$BUILD/suite", "pgx"}},
	{Name: "go/pgxpool", Dir: "go", Command: []string{"$BUILD/suite", "pgxpool"}},
	{Name: "go/stdlib", Dir: "go", Command: []string{"$BUILD/suite", "stdlib"}},
	{Name: "go/pq", Dir: "go", Command: []string{"$BUILD/suite", "pq"}},
	{Name: "go/gorm", Dir: "go", Command: []string{"$BUILD/suite", "gorm"}},
	{Name: "go/bun", Dir: "go", Command: []string{"$BUILD/suite", "bun"}},
	{Name: "psql/psql", Dir: "psql", Command: []string{"bash", "psql.sh"}},
	{Name: "psql/pgbench", Dir: "psql", Command: []string{"bash", "pgbench.sh"}},
	{Name: "psql/dump", Dir: "psql", Command: []string{"bash", "dump.sh"}},
	{Name: "node/pg", Dir: "node", Command: nodeCommand("pg.js")},
	{Name: "node/postgres.js", Dir: "node", Command: nodeCommand("postgresjs.js")},
	{Name: "node/knex", Dir: "node", Command: nodeCommand("knex.js")},
	{Name: "node/sequelize", Dir: "node", Command: nodeCommand("sequelize.js")},
	{Name: "node/typeorm", Dir: "node", Command: nodeCommand("typeorm.js")},
	{Name: "node/drizzle", Dir: "node", Command: nodeCommand("drizzle.js")},
	{Name: "python/psycopg2", Dir: "python", Command: []string{"/usr/bin/python3", "psycopg2_suite.py"}},
	{Name: "python/psycopg3", Dir: "python", Command: []string{"/usr/bin/python3", "psycopg3_suite.py"}},
	{Name: "python/asyncpg", Dir: "python", Command: []string{"/usr/bin/python3", "asyncpg_suite.py"}},
	{Name: "python/sqlalchemy", Dir: "python", Command: []string{"/usr/bin/python3", "sqlalchemy_suite.py"}},
	{Name: "python/django", Dir: "python", Command: []string{"/usr/bin/python3", "django_suite.py"}},
	{Name: "java/jdbc", Dir: "java", Command: []string{"java", "-cp", "$BUILD:/usr/share/java/postgresql.jar", "Jdbc"}},
	{Name: "ruby/pg", Dir: "ruby", Command: []string{"/usr/bin/ruby", "pg_suite.rb"}},
	{Name: "ruby/activerecord", Dir: "ruby", Command: []string{"/usr/bin/ruby", "active_record_suite.rb"}},
}

// nodeCommand runs a file where install.sh has put the packages beside it.
func nodeCommand(file string) []string {
	return []string{"node", "--preserve-symlinks", "--preserve-symlinks-main", "$BUILD/src/" + file}
}

// examples are the applications of the folder examples. They run if they are asked for.
var examples = []suite{
	{Name: "examples/go", Dir: "../../examples/go", Install: "go", Command: []string{"sh", "demo.sh"}},
	{Name: "examples/node", Dir: "../../examples/node", Install: "node", Command: []string{"sh", "demo.sh"}},
	{Name: "examples/django", Dir: "../../examples/django", Install: "python", Command: []string{"sh", "demo.sh"}},
	{Name: "examples/rails", Dir: "../../examples/rails", Install: "ruby", Command: []string{"sh", "demo.sh"}},
	{Name: "examples/spring", Dir: "../../examples/spring", Command: []string{"sh", "demo.sh"}},
}
