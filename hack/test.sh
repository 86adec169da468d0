#!/usr/bin/env bash
# All tests: pure, on a real control plane (level 1), on a real node (level 2). Does its own set-up; two runs at once do
# not disturb each other.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Where packages cannot be installed the level-2 tests say what is missing and are skipped; with CI=true that is a failure.
hack/dependencies.sh || [ "${CI:-}" != true ]
bed=$(tests/testbed/build.sh)

report=$(mktemp)
trap 'rm -f "$report"' EXIT
# A file per run: the tests of several runs may write at once.
CAPTF_TEST_REPORT=$report cargo test "$@"
hack/test-levels.sh "$report"
"$bed/testbed" sweep
