# ruby-pg: parameters, binary, pipeline mode, COPY, notifications, single-row mode.
require "pg"
require "securerandom"
require_relative "check"
require_relative "app"

def connect(more = {})
  c = PG.connect(**{ host: ENV["PGHOST"] }.merge(more))
  c.type_map_for_results = PG::BasicTypeMapForResults.new(c)
  c.set_notice_processor { |_| }
  c
end

def rows(sql, args = nil, on: $conn)
  r = args ? on.exec_params(sql, args) : on.exec(sql)
  r.nfields.zero? ? r.cmd_tuples : r.values
end

check("connect") do
  $conn = connect(channel_binding: "require")
  same($conn.ssl_in_use?, true)
  same(rows("select current_user"), [[ENV["PGUSER"]]])
  begin
    connect(password: "wrong")
    raise "no error"
  rescue PG::ConnectionBad => e
    same(e.message.include?("password authentication failed"), true)
  end
end

check("migrate") { $conn.transaction { |c| c.exec(App::SCHEMA) } }
check("declare") { declare(*App::TABLES, "samples=id") }

$orders = []
check("seed") do
  App::PRODUCTS.each { |p| rows("insert into products (name, price) values ($1, $2)", [p[:name], p[:price].to_s("F")]) }
  App::CUSTOMERS.each_with_index { |c, i| same(rows("insert into customers (name, country) values ($1, $2) returning id", [c[:name], c[:country]]), [[i + 1]]) }
  $conn.transaction do
    App::ORDERS.each { |o| $orders << rows("insert into orders (customer_id, status, total) values ($1, $2, $3) returning id", [o[:customer], o[:status], o[:total].to_s("F")])[0][0] }
  end
  enc = PG::TextEncoder::CopyRow.new
  $conn.copy_data("copy items (customer_id, order_id, product_id, quantity, price) from stdin", enc) do
    App::ITEMS.each { |i| $conn.put_copy_data([i[:customer].to_s, $orders[i[:order]].to_s, i[:product].to_s, i[:quantity].to_s, i[:price].to_s("F")]) }
  end
  arrays = [:email, :name].map { |k| PG::TextEncoder::Array.new.encode(App::USERS.map { |u| u[k] }) }
  same(rows("insert into users (email, name) select * from unnest($1::text[], $2::text[])", arrays), 20)
end

check("read and write") do
  same(rows("select name, country from customers where id = $1", [7]), [["customer 7", "fr"]])
  same(rows("select name from users where email = $1", ["user9@example.com"]), [["user 9"]])
  id = rows("insert into customers (name, country) values ('tmp', 'it') returning id")[0][0]
  same(rows("update customers set name = $1, tags = '{a,b}' where id = $2", ["changed", id]), 1)
  same(rows("select name, tags from customers where id = $1", [id]), [["changed", %w[a b]]])
  same(rows("delete from customers where id = $1", [id]), 1)
  same(rows("update customers set tags = '{x}' where country = 'de'"), 10)
  same(rows("update customers set tags = '{}'"), 20)
  up = "insert into users (email, name) values ($1, $2) on conflict (email) do update set name = excluded.name returning name"
  same(rows(up, ["user1@example.com", "renamed"]), [["renamed"]])
  same(rows(up, ["user1@example.com", "user 1"]), [["user 1"]])
end

check("joins, pages, aggregates") do
  same(rows("select i.id from items i join orders o on o.id = i.order_id join products p on p.id = i.product_id").size, App::ITEMS.size)
  same((0..3).flat_map { |p| rows("select id from customers order by id limit $1 offset $2", [6, p * 6]).flatten }, (1..20).to_a)
  same(rows("select count(*), sum(total) from orders"), [[App::ORDERS.size, App::TOTAL]])
  same(rows("select status::text, count(*), sum(total) from orders group by status order by status"), App::BY_STATUS)
  same(rows("select c.id, coalesce(sum(o.total), 0) from customers c left join orders o on o.customer_id = c.id group by c.id order by 2 desc, 1 limit 3"), App::BEST)
end

check("transactions") do
  fails("22012") { $conn.transaction { rows("update customers set country = 'xx' where id in (1, 2, 3)"); rows("select 1/0") } }
  same(rows("select count(*) from customers where country = 'xx'"), [[0]])
  $conn.transaction do
    rows("savepoint a")
    fails("23505") { rows("insert into users (email, name) values ('user1@example.com', 'twice')") }
    same($conn.transaction_status, PG::PQTRANS_INERROR)
    rows("rollback to a")
    rows("update customers set tags = '{t}' where id in (1, 2, 3)")
  end
  same(rows("update customers set tags = '{}' where tags = '{t}'"), 3)
end

check("prepared statements") do
  $conn.prepare("by_id", "select name from customers where id = $1")
  $conn.prepare("count", "select count(*) from orders where customer_id = $1")
  100.times do |n|
    id = n % 20 + 1
    same($conn.exec_prepared("by_id", [id]).values, [["customer #{id}"]])
    same($conn.exec_prepared("count", [id]).values, [[id % 4]])
  end
  d = $conn.describe_prepared("by_id")
  same([d.nparams, d.paramtype(0), d.fname(0)], [1, 20, "name"])
  rows("deallocate all")
end

check("pipeline mode") do
  c = connect
  c.enter_pipeline_mode
  App::CUSTOMERS.each_index { |i| c.send_query_params("select name from customers where id = $1", [i + 1]) }
  c.send_query_params("select count(*) from orders", [])
  c.pipeline_sync
  got = 21.times.map { r = c.get_result; c.get_result; r.values[0][0] }
  same(got, App::CUSTOMERS.map { |x| x[:name] } + [App::ORDERS.size])
  same(c.get_result.result_status, PG::PGRES_PIPELINE_SYNC)
  # An error ends what was sent up to the sync, all of it.
  c.send_query_params("update customers set tags = '{q}' where id = 1", [])
  c.send_query_params("update customers set tags = '{q}' where id = 2", [])
  c.send_query_params("select 1/0", [])
  c.send_query_params("select 1", [])
  c.pipeline_sync
  c.send_query_params("select name from customers where id = 3", [])
  c.pipeline_sync
  states = []
  begin
    loop do
      r = c.get_result or next
      states << r.result_status
      r.check
      break if states.count(PG::PGRES_PIPELINE_SYNC) == 2
    rescue PG::Error
      next # told by its status
    end
  end
  same(states, [PG::PGRES_COMMAND_OK, PG::PGRES_COMMAND_OK, PG::PGRES_FATAL_ERROR, PG::PGRES_PIPELINE_ABORTED, PG::PGRES_PIPELINE_SYNC, PG::PGRES_TUPLES_OK, PG::PGRES_PIPELINE_SYNC])
  c.exit_pipeline_mode
  same(rows("select count(*) from customers where tags = '{q}'"), [[0]])
  c.close
end

check("cursors and single rows") do
  $conn.transaction do
    rows("declare cur scroll cursor for select id from items order by id")
    got = []
    until (r = rows("fetch 7 from cur")).empty? do got += r end
    same(got.size, App::ITEMS.size)
    same(rows("fetch absolute 1 from cur").size, 1)
    rows("close cur")
  end
  $conn.send_query("select id from items order by id")
  $conn.set_single_row_mode
  n = 0
  $conn.get_result.stream_each { n += 1 }
  $conn.get_result
  same(n, App::ITEMS.size)
end

check("types, text and binary") do
  id = SecureRandom.uuid
  cols = {
    "b" => "t", "i2" => "-2", "i4" => "42", "i8" => "9007199254740993", "f8" => "-2.25", "num" => "12345678901234567890.0123456789", "t" => "é 'quote' \\ \n",
    "d" => "2024-02-29", "tstz" => "2024-02-29 12:00:00.123+00", "jb" => '{"k": "v"}', "i4s" => "{1,NULL,3}", "ts_" => '{a,"b,c"}', "st" => "paid", "sts" => "{new,shipped}",
    "addr" => '("Main, St",5,Bern)', "ip" => "10.0.0.1", "r" => "[1,5)",
  }
  rows("insert into samples (id, #{cols.keys.join(", ")}) values ($1, #{(2..cols.size + 1).map { |i| "$#{i}" }.join(", ")})", [id, *cols.values])
  plain = PG.connect
  plain.exec("set time zone 'UTC'")
  ["id = $1", "id in (select id from samples where id = $1)"].each do |where|
    same(plain.exec_params("select #{cols.keys.join(", ")} from samples where #{where}", [id]).values[0], cols.values)
    bin = plain.exec_params("select i4, i8, f8, t, raw, id from samples where #{where}", [id], 1).values[0]
    same([bin[0].unpack1("l>"), bin[1].unpack1("q>"), bin[2].unpack1("G"), bin[3].force_encoding("UTF-8"), bin[5].unpack1("H*")], [42, 9007199254740993, -2.25, cols["t"], id.delete("-")])
  end
  raw = { value: "\x00\x01\xff".b, format: 1 }
  rows("update samples set raw = $1 where id = $2", [raw, id])
  same(plain.exec_params("select raw from samples where id = $1", [id], 1).getvalue(0, 0), "\x00\x01\xff".b)
  same(plain.exec_params("select name from customers where id = $1", [{ value: [3].pack("q>"), type: 20, format: 1 }]).values, [["customer 3"]])
  plain.close
end

check("COPY") do
  $conn.copy_data("copy users (email, name) from stdin (format csv)") { 2000.times { |i| $conn.put_copy_data("copied#{i}@example.com,name #{i}\n") } }
  n = 0
  $conn.copy_data("copy (select email from users where email like 'copied1%') to stdout") { n += 1 while $conn.get_copy_data }
  same(n, 1111)
  n = 0
  $conn.copy_data("copy (select email, name from users order by email) to stdout (format binary)") { n += 1 while $conn.get_copy_data }
  same(n, 2021) # each row is a message, and the end
  fails("23505") { $conn.copy_data("copy users (email, name) from stdin") { $conn.put_copy_data("fresh@example.com\tx\nuser3@example.com\tx\n") } }
  fails("57014") { $conn.copy_data("copy users (email, name) from stdin") { raise "enough" } } rescue same($!.message, "enough")
  same(rows("delete from users where email like 'copied%' or email like 'fresh%'"), 2000)
end

check("errors") do
  e = fails("23505") { rows("insert into users (email, name) values ('user2@example.com', 'x')") }
  same([e.class, e.result.error_field(PG::PG_DIAG_CONSTRAINT_NAME)], [PG::UniqueViolation, "users_email_key"])
  fails("23503") { rows("insert into orders (customer_id) values ($1)", [999999]) }
  fails("23514") { rows("update items set quantity = 0 where customer_id = 3") }
  fails("42P01") { rows("select * from nowhere") }
  fails("42703") { rows("select nothing from customers") }
  fails("22P02") { rows("select * from customers where id = $1", ["abc"]) }
end

check("cancel and timeouts") do
  rows("set statement_timeout = 300")
  fails("57014") { rows("select pg_sleep(5)") }
  fails("57014") { rows("select id, pg_sleep(5) from customers") }
  rows("reset statement_timeout")
  ["select pg_sleep(20)", "select id, pg_sleep(20) from customers"].each do |sql|
    $conn.send_query(sql)
    sleep 0.2 until ($conn.cancel; $conn.block(0.3))
    fails("57014") { $conn.get_last_result }
  end
  eventually(5) { same(rows("select 1"), [[1]]) }
end

check("LISTEN and NOTIFY") do
  c = connect
  c.exec("listen news")
  rows("notify news, 'one'")
  rows("select pg_notify('news', $1)", ["two"])
  got = 2.times.map { c.wait_for_notify(10) { |channel, pid, payload| break [channel, payload, pid == $conn.backend_pid] } }
  same(got, [["news", "one", true], ["news", "two", true]])
  c.close
end

check("threads") do
  wrong = Queue.new
  15.times.map do |k|
    Thread.new do
      c = connect
      10.times do |n|
        id = (n + k) % 20 + 1
        got = c.exec_params("select c.name, count(o.id) from customers c left join orders o on o.customer_id = c.id where c.id = $1 group by c.name", [id]).values
        wrong << got unless got.flatten.map(&:to_s) == ["customer #{id}", (id % 4).to_s]
        c.transaction { |t| [id, id % 20 + 1].sort.each { |i| t.exec_params("update customers set tags = array_append(tags, $2) where id = $1", [i, "t#{k}"]) } } if n == 5
      end
      c.close
    rescue StandardError => e
      wrong << e
    end
  end.each(&:join)
  same(wrong.size.times.map { wrong.pop }, [])
  same(rows("select sum(cardinality(tags)) from customers").flatten.map(&:to_i), [30])
  rows("update customers set tags = '{}'")
end

check("reconnect after a restart") do
  restart
  eventually do
    begin
      (1..20).each { |i| same(rows("select name from customers where id = $1", [i]), [["customer #{i}"]]) }
    rescue PG::Error
      $conn.reset if $conn.status == PG::CONNECTION_BAD
      raise
    end
  end
  same(rows("update customers set tags = '{again}'"), 20)
end

done
