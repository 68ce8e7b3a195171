# ruby migrate.rb [VERSION], as bin/rails db:migrate
require_relative "config/environment"

ActiveRecord::Migration.verbose = false
ActiveRecord::MigrationContext.new(File.join(__dir__, "db/migrate"), ActiveRecord::SchemaMigration).migrate(ARGV[0]&.to_i)
