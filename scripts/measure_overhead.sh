#!/usr/bin/env bash
# What supervisor, journal and metrics cost per training step.
#
#   scripts/measure_overhead.sh [REPEATS=5] [CONFIG=configs/digits.toml] [--set key=value ...]
#
# Two kinds of run take turns: every step recorded (log.every = 1 step), and none recorded. The
# difference of their median time per step is what recording costs; the processor time of the
# supervisor per step is what else is taken from the same cores. Time per step is the journal's, from
# the first to the last step.
set -euo pipefail
repeats=${1:-5}; config=${2:-configs/digits.toml}; shift $(($# < 2 ? $# : 2))
trainer=${TRAINER:-target/release/trainer}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
ticks=$(getconf CLK_TCK)
once() { # RECORD_EVERY: prints microseconds per step, and the supervisor's CPU microseconds per step
  local dir=$work/$RANDOM$RANDOM journal pid cpu=0 now
  "$trainer" run "$config" --runs-dir "$dir" --quiet --set "log.every=\"$1 steps\"" --set 'checkpoint.every="never"' --set 'eval.every="never"' "${@:2}" > "$work/log" 2>&1 &
  pid=$!
  while now=$(awk '{print $14 + $15}' "/proc/$pid/stat" 2>/dev/null) && [ -n "$now" ]; do cpu=$now; sleep 0.05; done
  wait "$pid" || { cat "$work/log" >&2; exit 1; }
  journal=$(echo "$dir"/*/events.jsonl)
  awk -v cpu="$cpu" -v ticks="$ticks" '
    function number(key) { return match($0, "\"" key "\":[0-9.e+-]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0 }
    /"training_began":[{]/ { begin = number("time_ms"); total = number("steps_total") }
    /"step_finished":[{]/ { last = number("time_ms") }
    /"checkpoint_committed":[{]/ { if (!last) last = number("time_ms") }
    END { printf "%.1f %.1f\n", (last - begin) * 1000 / total, cpu * 1e6 / ticks / total }' "$journal"
}
for _ in $(seq "$repeats"); do
  once 1 "$@" >> "$work/recorded"
  once 1000000000 "$@" >> "$work/silent"
done
median() { sort -n "$1" | awk -v c="$2" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }'; }
recorded=$(median "$work/recorded" 1); silent=$(median "$work/silent" 1); cpu=$(sort -n -k 2 "$work/recorded" | median /dev/stdin 2)
awk -v r="$recorded" -v s="$silent" -v c="$cpu" 'BEGIN {
  printf "step recorded %.0f us, not recorded %.0f us: recording costs %.2f %%; supervisor uses %.0f us of processor time per step (%.2f %% of one core)\n",
         r, s, 100 * (r - s) / s, c, 100 * c / r }'
