# Checks of a suite: each prints `ok <name>` or `not ok <name>: <why>`.
$stdout.sync = true
$failed = 0

# check runs one check. Later ones go on whatever became of it.
def check(name)
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  begin
    yield
    puts "ok #{name}"
  rescue StandardError, NotImplementedError => e
    $failed += 1
    where = e.backtrace.find { |l| l.include?("_suite.rb") }.to_s[/:(\d+)/, 1]
    puts "not ok #{name}: #{sqlstate(e)} #{e.class} #{e.message} (line #{where})".gsub(/\s+/, " ")
    warn e.full_message if ENV["VERBOSE"]
  end
  warn "#{((Process.clock_gettime(Process::CLOCK_MONOTONIC) - start) * 1000).round} ms #{name}" if ENV["VERBOSE"]
end

def same(got, want)
  raise "got #{got.inspect[0, 600]}, want #{want.inspect[0, 600]}" unless got == want
end

# sqlstate finds it wherever the library hides the driver's error.
def sqlstate(e)
  while e
    return e.result.error_field(PG::Result::PG_DIAG_SQLSTATE) if e.respond_to?(:result) && e.result
    e = e.cause
  end
end

# fails expects a SQLSTATE, and returns the error.
def fails(code)
  yield
rescue StandardError => e
  raise unless sqlstate(e) == code
  e
else
  raise "no error, want #{code}"
end

# eventually repeats what may fail while a server comes back.
def eventually(seconds = 30)
  stop = Time.now + seconds
  begin
    yield
  rescue StandardError
    raise if Time.now > stop
    sleep 0.2
    retry
  end
end

def declare(*tables)
  system("#{ENV.fetch("DECLARE", "true")} #{tables.join(" ")}", out: File::NULL) or raise "declare failed"
end

def restart
  system(ENV.fetch("RESTART", "true"), out: File::NULL) or raise "restart failed"
end

def done
  exit($failed.zero? ? 0 : 1)
end
