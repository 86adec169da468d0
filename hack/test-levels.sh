#!/usr/bin/env bash
# Says how many tests ran on which level of the test bed, from the report that the tests wrote:
#   CAPTF_TEST_REPORT=report cargo test; hack/test-levels.sh report
set -euo pipefail
report=${1:?usage: hack/test-levels.sh REPORT}
count() { cut -d' ' -f1,2 "$report" 2>/dev/null | sort -u | grep -c "^$1 " || true; }
echo "level 1 (control plane): $(count level-1) tests"
echo "level 2 (node):          $(count level-2) tests, $(count skipped) skipped"
sed -n 's/^skipped [^ ]* /  missing: /p' "$report" 2>/dev/null | sort -u
