# The application's rows. Customer i of 20 has i mod 4 orders, order k of them 1 + k items.
require "bigdecimal"
require "bigdecimal/util"

module App
  SCHEMA = File.read("../schema.sql")
  # The unique email gets a lookup by itself.
  TABLES = %w[products=reference customers=id orders=customer_id items=customer_id users=id].freeze
  PRODUCTS = (1..10).map { |i| { name: "product #{i}", price: "#{i}.50".to_d } }
  CUSTOMERS = (1..20).map { |i| { name: "customer #{i}", country: i.odd? ? "fr" : "de" } }
  USERS = (1..20).map { |i| { email: "user#{i}@example.com", name: "user #{i}" } }
  ORDERS = []
  ITEMS = []
  (1..20).each do |c|
    (c % 4).times do |k|
      total = 0.to_d
      (k + 1).times do |n|
        product = (c + n) % 10 + 1
        ITEMS << { customer: c, order: ORDERS.size, product: product, quantity: n + 1, price: "#{product}.50".to_d }
        total += (n + 1) * "#{product}.50".to_d
      end
      ORDERS << { customer: c, status: %w[new paid shipped][k], total: total }
    end
  end
  TOTAL = ORDERS.sum { |o| o[:total] }
  BY_STATUS = %w[new paid shipped].map { |s| of = ORDERS.select { |o| o[:status] == s }; [s, of.size, of.sum { |o| o[:total] }] }
  BEST = (1..20).map { |c| [c, ORDERS.select { |o| o[:customer] == c }.sum(0.to_d) { |o| o[:total] }] }.min_by(3) { |c, t| [-t, c] }
end
