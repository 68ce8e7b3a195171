class Tenant < ActiveRecord::Base
  has_many :users
  has_many :projects
  has_many :tasks

  def self.sign_up(name, email, user)
    transaction { create!(name: name).tap { |tenant| tenant.users.create!(email: email, name: user) } }
  end

  def start_project(title, *titles)
    transaction do
      project = projects.create!(title: title, owner: users.order(:id).first)
      titles.each { |t| tasks.create!(project: project, title: t) }
    end
  end
end
