# Every target says what it needs when it is missing. `make` alone prints this help.

# Go may be installed without being in PATH.
export PATH := $(PATH):/usr/local/go/bin:/usr/lib/go/bin
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo demo-adopt test test-kumo test-browser check bench build lint fmt fmt-check generated generate rules helm vuln migrate images compose test-containers clean need-go

GO ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# Stamped by hand, because the go command's own stamp fails where git is missing.
REVISION := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
COMMANDS := $(patsubst cmd/%/main.go,%,$(wildcard cmd/*/main.go))
RACE ?= -race
TESTFLAGS ?=
DOCS ?=
BENCH ?=
ARGS ?=

# Tools of the gate: pinned, below .cache, never in the module's own graph.
GOFUMPT := .cache/tools/gofumpt@v0.12.0/gofumpt
GOIMPORTS := .cache/tools/goimports@v0.52.0/goimports
GOLANGCI := .cache/tools/golangci-lint@v2.15.0/golangci-lint
GOVULNCHECK := .cache/tools/govulncheck@v1.9.0/govulncheck
HELM := .cache/tools/helm@v3.20.2/helm

# GOFILES is every Go file of this checkout.
GOFILES = find . -name '*.go' -not -path './.cache/*' -not -path './bin/*'

help: ## this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: build ## the whole story on a throwaway PostgreSQL, under 90 s; DOCS=DIR takes your own PDF and text files
	@scripts/need-postgres --or-docker
	bin/railctl demo $(if $(DOCS),--docs '$(DOCS)') $(ARGS)

demo-adopt: build ## a firm with a worker of its own adopts the rail, bucket by bucket, under two minutes
	@scripts/need-postgres --or-docker
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o bin/legacy ./examples/legacy
	bin/railctl demo-adopt $(ARGS)

test: need-go ## all tests, with the race detector, on a real PostgreSQL; TESTFLAGS='-run NAME' to choose
	@scripts/need-postgres
	@$(if $(RACE),scripts/need-cc,:)
	$(GO) test $(RACE) -shuffle=on -timeout 20m $(TESTFLAGS) ./...

test-kumo: need-go ## the wire and the demo on an emulator that nobody here wrote; listens on 127.0.0.1:4566
	@scripts/need-postgres --or-docker
	cd test/kumo && $(GO) test -count=1 ./...

test-browser: need-go ## the model explorer in a headless Chromium, where one is installed; ARGS='-screenshot /FILE' draws it
	cd test/browser && $(GO) test -count=1 ./... $(ARGS)

test-containers: need-go ## images and the compose stack under Docker, with real faults; RAIL_TEST_LOAD=full runs all of it
	@scripts/test-containers $(ARGS)

test-full: need-go ## the long campaigns at full size; writes docs/evidence/test-full.md
	@scripts/need-postgres
	@scripts/need-cc
	scripts/test-full

check: fmt-check lint vuln generated test ## every gate: format, lint, vulnerabilities, generated files, tests

bench: need-go ## figures beside pgbench on the same throwaway server, some 20 minutes; BENCH=quick for a shorter look; ARGS='-write docs/PERFORMANCE.md'
	@scripts/need-postgres initdb postgres psql pgbench
	@BENCH='$(BENCH)' $(GO) run ./test/bench $(ARGS)

model-peers: need-go ## the ledger's model searched by the checker, by SPIN and in plain Python: counts, speed, memory; ARGS='-write docs/MODEL.md'
	$(GO) test -count=1 ./test/peers
	@$(GO) run ./test/peers $(ARGS)

rules: need-go ## the alert rules with their cases, the boards and the runbook; by promtool where it is found
	@command -v promtool >/dev/null || echo "promtool is missing (Debian: package prometheus): rules are read, and not evaluated"
	$(GO) test -count=1 ./deploy

helm: $(HELM) ## the tool that the chart's tests find; minutes, the first time

build: need-go ## the programs, into bin/
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION) -X briefrail/internal/telemetry.linkedRevision=$(REVISION)' -o bin/ $(COMMANDS:%=./cmd/%)

images: need-go ## container images, FROM scratch, nothing is pulled; ARCH=arm64 for the other processor
	@VERSION='$(VERSION)' REVISION='$(REVISION)' ARCH='$(ARCH)' scripts/images

compose: need-go ## the whole stack under Docker Compose, with a matter that goes stale and heals; ARGS=-d in the background
	@deploy/compose/up $(ARGS)

lint: need-go $(GOLANGCI) ## go vet and golangci-lint
	$(GO) vet ./...
	$(GOLANGCI) run ./...

fmt: $(GOFUMPT) $(GOIMPORTS) ## format every Go file
	$(GOFILES) -exec $(GOIMPORTS) -w {} + -exec $(GOFUMPT) -w {} +

fmt-check: $(GOFUMPT) $(GOIMPORTS)
	@bad=$$($(GOFILES) -exec $(GOIMPORTS) -l {} + -exec $(GOFUMPT) -l {} + | sed 's|^\./||' | sort -u); \
	if [ -n "$$bad" ]; then echo "not formatted (make fmt mends it):"; echo "$$bad"; exit 1; fi

vuln: $(GOVULNCHECK) ## known vulnerabilities that this code reaches
	scripts/vulncheck $(GOVULNCHECK)

migrate: build ## bring the schema of the configured database up to date; ARGS are passed on
	bin/railctl migrate up $(ARGS)

# Files that a program writes about itself must be what it would write now.
generated: build
	@test ! -d cmd/railworker || bin/railworker config reference | diff -u docs/CONFIGURATION.md - || { \
		echo "docs/CONFIGURATION.md is out of date: make generate writes it"; exit 1; }

generate: build ## write docs/CONFIGURATION.md anew
	bin/railworker config reference > docs/CONFIGURATION.md

clean: need-go ## end the tests' PostgreSQL and remove what was built
	-$(GO) run ./internal/pg/pgtest/stop
	rm -rf bin

need-go:
	@command -v $(GO) >/dev/null || { \
		echo "Go is missing: https://go.dev/dl (version 1.26 or newer; an older one from 1.21 on fetches it by itself)."; exit 1; }

# A download may fail once; three times it is a fault.
define install
	@for try in 1 2 3; do \
		GOFLAGS= GOBIN='$(CURDIR)/$(@D)' $(GO) install $(1) && exit 0; \
		echo "try $$try of 3 failed: $(1)"; \
	done; exit 1
endef

$(GOFUMPT): | need-go
	$(call install,mvdan.cc/gofumpt@$(lastword $(subst @, ,$(@D))))
$(GOIMPORTS): | need-go
	$(call install,golang.org/x/tools/cmd/goimports@$(lastword $(subst @, ,$(@D))))
$(GOLANGCI): | need-go
	$(call install,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(lastword $(subst @, ,$(@D))))
$(GOVULNCHECK): | need-go
	$(call install,golang.org/x/vuln/cmd/govulncheck@$(lastword $(subst @, ,$(@D))))
$(HELM): | need-go
	$(call install,helm.sh/helm/v3/cmd/helm@$(lastword $(subst @, ,$(@D))))
