class Project < ActiveRecord::Base
  belongs_to :tenant
  belongs_to :owner, class_name: "User", optional: true
  has_many :tasks
end
