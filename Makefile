# make test       every test, on a real control plane and a real node; does its own set-up
# make demo       the main job, from nothing to infrastructure that Cluster API calls ready
# make demo-down  removes every trace of the demo
# make check      formatting, lints, licences
# make bench      measures and prints tables
# make generate   rewrites the generated files (CRDs, completions, snapshots)
# make image      the static release binary that images hold

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
TARGET := $(shell uname -m)-unknown-linux-musl
STATIC := target/$(TARGET)/release/kubectl-captf

.PHONY: build test check demo demo-down bench generate image dependencies

build:
	cargo build

dependencies:
	hack/dependencies.sh

image:
	CAPTF_COMMIT=$$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown) cargo build --release --target $(TARGET)
	@echo $(STATIC)

check:
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	cargo deny check licenses bans sources

test:
	hack/test.sh

demo:
	hack/demo.sh up

demo-down:
	hack/demo.sh down

bench:
	hack/bench.sh

generate:
	UPDATE=1 cargo test --test it -- api::manifests plugin::packaging
