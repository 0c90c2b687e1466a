# make without a target lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/sh

GO          ?= go
BENCHTIME   ?= 1s
BENCH       ?= $(if $(BEFORE),,-out . -readme)
FUZZ        ?= 6
CHAOS       ?= ^TestChaos$$
# how often each fault of make chaos is run, and how many are run beside each other
RUNS        ?= 5
BESIDE      ?= 2
SPEC        ?=
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOLANGCI    ?= github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The modules below this one need libraries that users of the runtime do not get.
MODULES := $(patsubst %/go.mod,%,$(wildcard */go.mod */*/go.mod))
# make test runs the tests of these modules. The others have targets of their own: bench has to run alone, interop needs
# Java, the service needs PostgreSQL.
TESTED := $(filter-out bench interop examples/service,$(MODULES))

# The packages that make test runs without the race detector only: the one that cannot run with it, and the generator, the
# simulation, the search for deadlocks, the specification and the scripts, which take three to ten times as long with it. make check runs
# the simulation with it, and what has goroutines in the generator. The others have none.
UNRACED := /lockgen/(api|runtime/internal/(deadlock|sim)|spec|scripts|cmd/lockgen(/.*)?)$$
# The packages that have tests which only run without the race detector, beside those with it.
BOTH := ./runtime/internal/chaos ./runtime/internal/watchdog

# The tests that make test leaves to make check.
LONG := $(shell awk '/^\.\// { print $$2 }' .ci/long | paste -s -d '|' -)

.PHONY: help
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: generate ## generate the wrappers and run the orders example, without and with locks
	$(GO) run ./examples/orders

.PHONY: service
service: ## run three replicas of a shop on PostgreSQL and Redis, kill one, restart Redis, and audit the books
	@.ci/need redis-server postgres
	cd examples/service && $(GO) run .

.PHONY: observed
observed: ## run the shop with metrics, traces and the live page of its locks, and print where to look
	cd examples/observed && $(GO) run .

.PHONY: lockctl
lockctl: ## build lockctl, which shows who holds what and acts on it, into ./bin
	$(GO) build -o bin/lockctl ./cmd/lockctl

.PHONY: test
test: ## run the tests, the runtime's with the race detector, but for those that take long, on a redis-server found or installed
	@.ci/need redis-server cc
	$(GO) test -race -parallel 9 -timeout 15m -skip '$(LONG)' ./runtime # by itself: it keeps the processors busy
	packages=$$($(GO) list ./... | grep -v -E '$(UNRACED)|/lockgen/runtime$$') && $(GO) test -race -parallel 9 -timeout 15m -skip '$(LONG)' $$packages
	packages=$$($(GO) list ./... | grep -E '$(UNRACED)') && $(GO) test -parallel 4 -timeout 15m -skip '$(LONG)' $$packages $(BOTH)
	@if [ -n "$$CI" ]; then .ci/need promtool; fi
	for module in $(TESTED); do $(GO) -C $$module test -race -timeout 10m -skip '^TestBrowser_' ./... || exit 1; done # a test whose programs are not installed is skipped, unless CI is set

.PHONY: check
check: ## run the tests that make test leaves out, which .ci/long lists, and those beside Java programs and PostgreSQL
	@.ci/need redis-server cc
	@GO="$(GO)" .ci/check

.PHONY: picture
picture: ## write the picture of the live page of locks, docs/lockweb.png, with Chromium
	@.ci/need redis-server cc chromium
	$(GO) -C contrib/lockweb test -count=1 -run '^TestBrowser_Picture$$' -args -picture $(CURDIR)/docs/lockweb.png

.PHONY: panels
panels: ## write the picture of the dashboard's panels, docs/dashboard.svg, from what Prometheus says of the shop in 4 minutes
	@.ci/need redis-server cc promtool
	$(GO) -C examples/observed test -count=1 -run '^TestPicture$$' -args -picture $(CURDIR)/docs/dashboard.svg

# go test fuzzes one target of one package per call. The limit is a number of inputs, since one of time makes go test fail by
# chance when it is over: https://go.dev/issue/75804, mended in Go 1.27. Each target has about 5 s of inputs times FUZZ.
fuzzed = $(GO) test -run '^$$' -fuzztime $$(($(FUZZ) * $(1)))x -fuzzminimizetime 20x -timeout 0

.PHONY: fuzz
fuzz: ## give the generator directives, keys and whole files that nobody would write, each for about 5 s times FUZZ (default 6)
	$(call fuzzed,50000) -fuzz '^FuzzCollect$$' ./cmd/lockgen/internal/directive
	$(call fuzzed,20000) -fuzz '^FuzzParse$$' ./cmd/lockgen/internal/key
	$(call fuzzed,10000) -fuzz '^FuzzDirective$$' ./cmd/lockgen/internal/check
	$(call fuzzed,20000) -fuzz '^FuzzFile$$' ./cmd/lockgen/internal/check

.PHONY: chaos
chaos: ## break servers, networks, processes and clocks, RUNS times (5) each, and write the worst to runtime/CHAOS.md: about 3 h
	@.ci/need redis-server cc
	.ci/progress chaos 10800 $(GO) test -count=1 -v -timeout 8h -run '$(CHAOS)' ./runtime/internal/chaos -args -full -write -runs $(RUNS) -beside $(BESIDE)

.PHONY: sim
sim: ## run 10,000 worlds in virtual time and hunt mutants, and write docs/SIMULATION.md
	@.ci/need cc
	dir=$$(mktemp -d) && code=0 && \
	$(GO) test -c -o $$dir/sim.test ./runtime/internal/sim && \
	{ .ci/progress sim-worlds 1800 .ci/worlds $$dir 10000 || code=1; } && \
	{ .ci/progress sim-mutants 3600 $(GO) test ./runtime/internal/sim -count=1 -timeout 5h -run '^TestMutants$$' -args -mutants -results $$dir || code=1; } && \
	$(GO) test ./runtime/internal/sim -count=1 -run '^TestDocument$$' -args -results $$dir && exit $$code

.PHONY: interop
interop: ## share locks with Java programs that use Redisson, and print what was tried as a table
	@.ci/progress interop 270 $(MAKE) --no-print-directory interop-tests

.PHONY: interop-tests
interop-tests:
	@.ci/need redis-server javac mvn
	$(GO) -C interop vet ./...
	cd interop && CI=true $(GO) test -count=1 -timeout 15m

.PHONY: interop-orders
interop-orders: ## a Go and a Java service pay the same orders, without and with locks
	@.ci/need redis-server javac mvn
	cd interop && $(GO) run ./orders

.PHONY: interop-versions
interop-versions: ## the same with older versions of Redisson, and write the table of interop/README.md
	@.ci/need redis-server javac mvn
	cd interop && CI=true ../.ci/progress interop-versions 900 $(GO) test -count=1 -timeout 30m -tags versions -run '^TestVersions$$' -args -contend 2s

.PHONY: interop-contention
interop-contention: ## two Java and two Go programs want the same locks, mutexes for a minute, others for a quarter of it
	@.ci/need redis-server javac mvn
	cd interop && CI=true ../.ci/progress interop-contention 600 $(GO) test -count=1 -timeout 30m -run '^TestInterop$$/^(contention|all_kinds)$$' -args -contend 60s

.PHONY: versions
versions: ## run what locks promise on older and newer servers, Redis and Valkey, which it fetches
	@.ci/progress versions 300 .ci/versions

.PHONY: spec
spec: ## check the specification with TLC and Spin, and write spec/RESULTS.md
	@.ci/need spin cc java pip
	$(GO) run ./spec/check $(SPEC)

.PHONY: spec-deep
spec-deep: ## the same with the deep bounds, which take hours and 20 GB
	@.ci/need spin cc java pip
	$(GO) run ./spec/check -deep $(SPEC)

.PHONY: docs
docs: ## build the site of the documentation into site, with mkdocs-material in .venv, and look at each page in Chromium
	@.ci/need pip venv
	@GO="$(GO)" .ci/docs

.PHONY: release
release: ## build the programs of the last commit into dist, for linux, darwin and windows, with checksums
	.ci/release dist

.PHONY: reproduce
reproduce: ## build the programs of the last commit twice, and compare the files bit for bit
	.ci/reproduce

# The modules with a file that some systems have and others have not. The comparison in bench measures on Unix alone.
SYSTEMS := aix darwin linux unix windows
VARIED = . $(foreach module,$(filter-out bench,$(MODULES)),$(if $(shell \
	grep -rlE --include='*.go' '^//go:build .*($(subst $() ,|,$(SYSTEMS)))' $(module); \
	find $(module) $(foreach system,$(SYSTEMS),-name '*_$(system)*.go' -o) -name '*_386.go'),$(module)))

.PHONY: cross
cross: ## vet the modules that differ between systems for two on which no test runs here
	for platform in windows/386 darwin/arm64; do \
		for module in $(VARIED); do \
			echo "$$platform $$module"; \
			GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) -C $$module vet ./... || exit 1; \
		done; \
	done

.PHONY: lint
lint: vet staticcheck ## check formatting, go vet, staticcheck, in all modules
	@test -z "$$(gofmt -l .)" || { gofmt -l . | sed 's/^/not formatted: /'; exit 1; }

.PHONY: vet
vet:
	for module in . $(MODULES); do $(GO) -C $$module vet ./... || exit 1; done

.PHONY: tidy
tidy: ## check that the go.mod files name what is used, and nothing else
	for module in . $(MODULES); do $(GO) -C $$module mod tidy -diff || exit 1; done

.PHONY: staticcheck
staticcheck:
	for module in . $(MODULES); do (cd $$module && $(GO) run $(STATICCHECK) ./...) || exit 1; done

.PHONY: golangci
golangci: ## check the house rules with golangci-lint, which takes minutes to build
	$(GO) run $(GOLANGCI) run ./...

# The packages with benchmarks.
BENCHED = $(filter-out $(patsubst %,./%,$(MODULES) $(addsuffix /%,$(MODULES))),$(shell \
	grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n 1 dirname | sort -u))

.PHONY: microbench
microbench: ## run the benchmarks of the packages, each for BENCHTIME (default 1s)
	@.ci/need redis-server
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $(BENCHED)

.PHONY: bench
bench: ## run lockgen beside other libraries and write bench/RESULTS.md, its plots and the README's table; with BEFORE=folder, beside lockgen of that tree, and print them
	@.ci/need redis-server
	cd bench && ../.ci/progress bench 3200 $(GO) run . $(if $(BEFORE),-before $(abspath $(BEFORE))) $(BENCH)

.PHONY: fleet
fleet: ## measure fleets of up to 9,000 connections beside a model, and write bench/FLEET.md
	@.ci/need redis-server
	cd bench && ../.ci/progress fleet 110 $(GO) run . -fleet -out .

.PHONY: generate
generate: ## write the lock wrappers of all packages again
	$(GO) run ./cmd/lockgen ./...
	cd examples/service && $(GO) tool lockgen ./...
