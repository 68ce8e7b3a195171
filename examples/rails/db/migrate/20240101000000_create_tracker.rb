class CreateTracker < ActiveRecord::Migration[6.1]
  def change
    create_table(:tenants) { |t| t.string :name, null: false }
    create_table(:users) do |t|
      t.references :tenant, null: false, foreign_key: { on_delete: :cascade }
      t.string :email, null: false, index: { unique: true }
      t.string :name, null: false
    end
    create_table(:projects) do |t|
      t.references :tenant, null: false, foreign_key: { on_delete: :cascade }
      t.references :owner, foreign_key: { to_table: :users, on_delete: :nullify }
      t.string :title, null: false
      t.timestamps
    end
    create_table(:tasks) do |t|
      t.references :tenant, null: false, foreign_key: { on_delete: :cascade }
      t.references :project, null: false, foreign_key: { on_delete: :cascade }
      t.string :title, null: false
      t.string :state, null: false, default: "open"
      t.decimal :hours, precision: 6, scale: 2, null: false, default: 0
      t.timestamps
    end
  end
end
