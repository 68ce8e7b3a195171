class User < ActiveRecord::Base
  belongs_to :tenant
end
