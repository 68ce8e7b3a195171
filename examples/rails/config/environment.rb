require "active_record"

# What is not said here libpq reads: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGSSLMODE.
ActiveRecord::Base.establish_connection(adapter: "postgresql", database: ENV.fetch("PGDATABASE", "app"), pool: 5, min_messages: "warning")

Dir[File.join(__dir__, "../app/models/*.rb")].sort.each { |file| require file }
