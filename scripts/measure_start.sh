#!/usr/bin/env bash
# Time from process start to the end of the first optimiser step.
#
#   scripts/measure_start.sh [REPEATS=15] [CONFIG=configs/digits.toml]
#
# The end is the journal's time of the first finished step, which the supervisor takes when the
# worker's report reaches it. The first, cold, repeat is not counted. Prints all values in
# milliseconds, the median and the largest.
set -euo pipefail
repeats=${1:-15}; config=${2:-configs/digits.toml}
trainer=${TRAINER:-target/release/trainer}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
values=()
for i in $(seq 0 "$repeats"); do
  begin=$(($(date +%s%N) / 1000000))
  "$trainer" run "$config" --runs-dir "$work/$i" --quiet --set 'log.every="1 step"' --set 'train.steps=3' > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  end=$(grep -m 1 '"step_finished"' "$work/$i"/*/events.jsonl | sed 's/.*"time_ms":\([0-9]*\).*/\1/')
  [ "$i" -eq 0 ] || values+=($((end - begin)))
done
printf '%s\n' "${values[@]}" | sort -n | awk '{ v[NR] = $1; line = line " " $1 } END { printf "start to first step, ms:%s; median %d, largest %d\n", line, v[int((NR + 1) / 2)], v[NR] }'
