class Task < ActiveRecord::Base
  belongs_to :tenant
  belongs_to :project
  scope :open, -> { where(state: "open") }
end
