# What every part of the benchmark uses. Sourced by hack/bench.sh.

# Seconds that anything waited for may take.
LIMIT=${CAPTF_BENCH_LIMIT:-180}
started=$SECONDS

# Progress goes to stderr, so that stdout holds the table alone.
step() { printf '%4ds  %s\n' $((SECONDS - started)) "$*" >&2; }
fail() { printf 'bench: %s\n' "$*" >&2; exit 1; }

# wait_for WHAT COMMAND...: until the command succeeds; says what it saw last.
wait_for() {
  local what=$1 until=$((SECONDS + LIMIT)) seen
  shift
  until seen=$("$@" 2>&1); do
    [ $SECONDS -lt $until ] || fail "$what did not happen within ${LIMIT}s; last seen: ${seen:-nothing}"
    sleep 0.1
  done
}

# quiet WHAT SECONDS COMMAND...: until the command has printed the same for so long.
quiet() {
  local what=$1 calm=$2 until=$((SECONDS + LIMIT)) before now since=$EPOCHREALTIME
  shift 2
  before=$("$@") now=$before
  while awk "BEGIN { exit !($EPOCHREALTIME - $since < $calm) }"; do
    [ $SECONDS -lt $until ] || fail "$what did not come to rest within ${LIMIT}s; last seen: $now"
    sleep 0.2
    now=$("$@")
    [ "$now" = "$before" ] || { before=$now since=$EPOCHREALTIME; }
  done
}

median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
maximum() { sort -n | tail -n 1; }
mebibytes() { awk "BEGIN { printf \"%.1f MiB\", $1 / 1024 }"; }       # of KiB
milliseconds() { awk "BEGIN { printf \"%.0f ms\", $1 * 1000 }"; }     # of seconds

# The table: rows of what was measured, the value, and what stands beside it.
rows=()
row() { rows+=("$1"$'\t'"$2"$'\t'"${3:-}"); }
table() {
  { printf 'measured\tkubectl-captf\tbeside it\n'; printf '%s\n' "${rows[@]}"; } | awk -F '\t' '
    { for (i = 1; i <= 3; i++) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } }
    END {
      for (r = 1; r <= NR; r++) {
        line = sprintf("%-" width[1] "s  %-" width[2] "s  %s", cell[r, 1], cell[r, 2], cell[r, 3])
        sub(/ +$/, "", line); print line
        if (r == 1) { dashes = sprintf("%" width[1] + width[2] + width[3] + 4 "s", ""); gsub(/ /, "-", dashes); print dashes }
      }
    }'
}

# peak_rss COMMAND...: median of three peaks in KiB.
peak_rss() {
  local i
  for i in 1 2 3; do /usr/bin/time -f %M -o "$work/rss" "$@" >/dev/null 2>&1; cat "$work/rss"; done | median
}

# clock NAME RUNS COMMAND: runs the command line (no shell) and leaves the median, in seconds, in medians[NAME].
declare -A medians
clock() {
  hyperfine --shell=none --style none --warmup 2 --runs "$2" --export-json "$work/hyperfine.json" "$3" >"$work/hyperfine.log" 2>&1 ||
    fail "$3 failed: $(tail -n 3 "$work/hyperfine.log")"
  medians[$1]=$(jq '.results[0].median' "$work/hyperfine.json")
}
