# make dev runs everything on this machine; make test tests everything. Both need
# Go, a C compiler (for the SQL parser) and PostgreSQL, which they install.

GO       ?= go
ARGS     ?=
PKG      ?= ./...
FUZZTIME ?= 30s
ROUTETIME ?= 10m
WRITETIME ?= 10m
SELECTTIME ?= 10m
COPYTIME ?= 10m
WIRETIME ?= 10m
PROGRAMTIME ?= 10m
MOVETIME ?= 10m
STRESSTIME ?= 2m
# How many packages are tested at once, beside those that tools/test.sh tests one after the other.
AT_ONCE  ?= $(shell nproc 2>/dev/null || echo 2)
export AT_ONCE
ROUNDS   ?= 10
AWAYTIME ?= 1h
MOVECRASHTIME ?= 1h
SCALE    ?= 10
HEATTIME ?= 60s
READS    ?= 1000000
ROWS     ?= 10000000
# Directory of initdb and postgres; found by itself when empty.
PG_BIN   ?=
export PG_BIN
ifneq ($(PG_BIN),)
export PATH := $(PG_BIN):$(PATH)
endif

# Version control is asked for the version that weft prints, unless it cannot
# answer: a checkout without history, or one that belongs to somebody else.
VCS := $(shell git rev-parse --verify -q HEAD >/dev/null 2>&1 && echo auto || echo false)

# The version that weft prints: the tag, with the distance from it. Without a tag
# weft prints the commit, which Go puts into the binary, but in a linked worktree.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty=+changes 2>/dev/null || { test -f .git && git rev-parse --short=12 HEAD | sed s/^/devel-/; })

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  make dev ARGS='--shards 2'    pass flags on to weft dev, or to the benchmark"
	@echo "  make test PKG=./pgserver/...  test only some packages"

.PHONY: dev
dev: build postgresql ## build weft and run a whole cluster here
	@exec bin/weft dev $(if $(PG_BIN),--pg-bin $(PG_BIN)) $(ARGS)

.PHONY: build
build: ## build bin/weft
	$(GO) build -buildvcs=$(VCS) $(if $(VERSION),-ldflags '-X main.version=$(VERSION)' )-o bin/weft ./cmd/weft

.PHONY: test
test: postgresql ## run all tests, against real servers
	@tools/test.sh $(PKG)

.PHONY: check
check: postgresql ## the inner loop: formatting, vet, tests without servers, one cluster
	@tools/check.sh

.PHONY: race
race: postgresql ## the same, with the race detector in every package
	@RACE=all tools/test.sh $(PKG)

.PHONY: lint
lint: ## vet, staticcheck, formatting, go.mod
	@tools/lint.sh

.PHONY: fmt
fmt: ## format the source
	$(GO) tool gofumpt -w .

.PHONY: matrix
matrix: ## run a short suite on servers of versions 14 to 18 (ARGS='15 18': on these), which npm brings
	@tools/matrix.sh $(ARGS)

.PHONY: notice
notice: ## write NOTICE: what is linked into weft, and its licences
	$(GO) run ./tools/notice

.PHONY: release
release: ## write archives, packages and checksums of VERSION into dist
	@tools/release.sh '$(VERSION)'

.PHONY: drivers
drivers: postgresql ## run real drivers, ORMs and psql through weft and beside it; installs what they need
	$(GO) run ./integration/drivers $(ARGS)

.PHONY: examples
examples: postgresql ## run the applications in examples on weft and on one PostgreSQL, and compare; installs what they need
	$(GO) run ./integration/drivers --examples $(ARGS)

.PHONY: dashboard-test
dashboard-test: postgresql ## look at the dashboard with a real browser; installs Chromium if it is missing
	@tools/install-chromium.sh >/dev/null
	cd integration/dashboard && $(GO) test -count=1 ./... $(if $(ARGS),-args $(ARGS))

.PHONY: bench
bench: postgresql ## measure against PgBouncer and PostgreSQL
	$(GO) run ./bench $(ARGS)

.PHONY: bench-analytics
bench-analytics: postgresql ## time the analytical questions at SCALE against one PostgreSQL (minutes)
	$(GO) test -timeout 24h ./integration/analytics -run TestTiming -v -args -scale $(SCALE) $(ARGS)

.PHONY: bench-growth
bench-growth: postgresql ## give four shards with ROWS rows a fifth while clients work, and draw it into growth.svg (minutes)
	$(GO) test -timeout 24h ./integration/growth -v -args -rows $(ROWS) -picture $(CURDIR)/growth.svg $(ARGS)

.PHONY: failover
failover: postgresql ## kill primaries with synchronous standbys under load (ROUNDS times; ARGS=-patroni lets Patroni run them, ARGS="-patroni -freeze" freezes them)
	$(GO) test -timeout 24h ./integration/failover -run TestKills -v -args -rounds $(ROUNDS) $(ARGS)

.PHONY: etcd-away
etcd-away: postgresql ## let etcd be frozen, and another one dead, for AWAYTIME while clients work (an hour)
	$(GO) test -timeout 24h ./integration/crash -run TestEtcdAway -v -args -away $(AWAYTIME)

.PHONY: bench-wide
bench-wide: postgresql ## move buckets of 100 sharded tables behind 20 proxies while clients write (minutes)
	$(GO) test -timeout 24h ./integration/growth -run TestWide -v -args -tables 100 -proxies 20 $(ARGS)

.PHONY: bench-heat
bench-heat: postgresql ## hold what weft finds hot, and how it isolates clients, against bars; HEATTIME for each measurement (half an hour)
	$(GO) test -timeout 24h ./integration/heat -run 'TestBar' -v -args -bars $(HEATTIME) $(ARGS)
	$(GO) test -timeout 24h ./integration/queue -run 'TestBench$$|TestShareBench$$' -v -args -measure $(HEATTIME)
	$(GO) test -timeout 1h ./pool -run XXX -bench 'BenchmarkFair$$'

.PHONY: bench-standbys
bench-standbys: postgresql ## measure reads per second, and processor time for each, with and without standbys (minutes)
	$(GO) test -timeout 1h ./integration/standby -run TestBench -v -args -measure 20s $(ARGS)

.PHONY: stale
stale: postgresql ## look for answers that are older than their question, among READS reads that share executions (many minutes)
	$(GO) test -timeout 24h ./integration/queue -run 'TestNotStale$$' -v -args -reads $(READS)

.PHONY: regress
regress: postgresql ## run PostgreSQL's own regression scripts through weft (minutes, needs the network)
	$(GO) test -tags regress -timeout 60m ./integration/regress -v $(ARGS)

.PHONY: scripts
scripts: postgresql ## play the scripts of statements through every way of the protocol (many minutes)
	$(GO) test -timeout 2h ./integration/routing -run TestScripts -args -modes $(ARGS)

.PHONY: routefuzz
routefuzz: postgresql ## ask weft and PostgreSQL random statements for ROUTETIME
	$(GO) test -timeout 24h ./integration/routing -run TestRandom -v -args -for $(ROUTETIME) -seed $$(date +%s) $(ARGS)

.PHONY: selectfuzz
selectfuzz: postgresql ## ask weft and PostgreSQL random reads over several shards for SELECTTIME
	$(GO) test -timeout 24h ./integration/select -run TestRandom -v -args -for $(SELECTTIME) -seed $$(date +%s) $(ARGS)

.PHONY: writefuzz
writefuzz: postgresql ## make random transactions on weft and PostgreSQL for WRITETIME
	$(GO) test -timeout 24h ./integration/write -run TestRandom -v -args -for $(WRITETIME) -seed $$(date +%s) $(ARGS)

.PHONY: wirefuzz
wirefuzz: postgresql ## have random dialogues with weft and PostgreSQL, message by message, for WIRETIME
	$(GO) test -timeout 24h ./integration/wire -run TestRandomDialogues -v -args -dialogues $(WIRETIME) -seed $$(date +%s) $(ARGS)

.PHONY: copyfuzz
copyfuzz: postgresql ## copy random data into random tables of weft and PostgreSQL for COPYTIME
	$(GO) test -timeout 24h ./integration/copying -run TestRandom -v -args -for $(COPYTIME) -seed $$(date +%s) $(ARGS)

.PHONY: programfuzz
programfuzz: postgresql ## run random PL/pgSQL on weft and PostgreSQL for PROGRAMTIME
	$(GO) test -timeout 24h ./integration/plpgsql -run TestRandom -v -args -for $(PROGRAMTIME) -seed $$(date +%s) $(ARGS)

.PHONY: movefuzz
movefuzz: postgresql ## all of these random statements, each for MOVETIME, while buckets move from shard to shard all the time
	$(GO) test -timeout 24h -p 1 ./integration/routing ./integration/select ./integration/write ./integration/copying -run TestRandom -v -args -moving -for $(MOVETIME) -seed $$(date +%s) $(ARGS)
	$(GO) test -timeout 24h ./integration/wire -run TestRandomDialogues -v -args -moving -dialogues $(MOVETIME) -seed $$(date +%s) $(ARGS)

.PHONY: crash
crash: postgresql ## kill, stop and cut off processes under load for ROUNDS rounds (10 of them: a thousand deaths, two hours)
	$(GO) test -timeout 24h ./integration/crash -v -args -rounds $(ROUNDS) -for 2m -seed $$(date +%s) $(ARGS)

.PHONY: movecrash
movecrash: postgresql ## kill, stop and cut off what moves, drains, isolations, declarations, joins and leaves need, at each of their points, under load for MOVECRASHTIME each
	$(GO) test -timeout 24h ./integration/crash -run 'TestMoveDeaths|TestDeclareDeaths|TestShardDeaths' -v -args -moves $(MOVECRASHTIME) -seed $$(date +%s) $(ARGS)

.PHONY: stress
stress: postgresql ## cancel, time out, kill and leave writes of several shards at random, each mix for STRESSTIME, and commits at every point
	$(GO) test -timeout 24h ./integration/tx -run 'TestStress|TestPoints' -v -args -points -mix each -stress $(STRESSTIME) -seed $$(date +%s) $(ARGS)

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	@tools/fuzz.sh $(FUZZTIME)

.PHONY: postgresql
postgresql: ## install PostgreSQL if it is missing
	@tools/install-postgresql.sh --quiet

.PHONY: clean
clean: ## remove what was built; data in weft-dev stays
	rm -rf bin dist
