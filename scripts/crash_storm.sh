#!/usr/bin/env bash
# Kills supervisor or worker of a run again and again, resumes it, and holds the end against an
# undisturbed run.
#
#   scripts/crash_storm.sh [SEED=1] [KILLS=50] [CONFIG=configs/digits.toml] [--set key=value ...]
#
# Checks: every kill -9 is survived; the final model has the SHA-256 of the undisturbed run; the
# journal has no gap; every checkpoint that was ever reported as committed is still there and
# verifies; no process is left behind. Three kills in four strike at a random step, one strikes a
# process that is just starting. Prints one summary line and exits 1 if anything is wrong.
#
# TRAINER names the binary (default target/release/trainer), WORK the scratch folder (a new one).
set -euo pipefail
seed=${1:-1}; kills=${2:-50}; config=${3:-configs/digits.toml}; shift $(($# < 3 ? $# : 3))
trainer=${TRAINER:-target/release/trainer}
work=${WORK:-$(mktemp -d)}; mkdir -p "$work"
RANDOM=$seed
# Nothing is removed by the keep-policy, so that a missing checkpoint is a lost one; restarts are
# not limited, because that limit is meant for workers that die by themselves.
settings=(--set 'log.every="1 step"' --set 'checkpoint.every="20 steps"' --set checkpoint.keep.latest=100000
          --set recovery.max_restarts=100000 "$@")
problems=()
problem() { problems+=("$1"); echo "PROBLEM: $1" >&2; }

now_ms() { echo $(($(date +%s%N) / 1000000)); }
# The last number behind "KEY": in the events named EVENT at the end of the journal.
last() { { tail -c 65536 "$journal" 2>/dev/null || true; } | { grep -a "\"$1\":{" || true; } | sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p" | tail -n 1; }
step() { local s; s=$(last step_finished step); echo "${s:-0}"; }
alive() { [ -n "$1" ] && [ -e "/proc/$1" ] && ! grep -qs '^State:.Z' "/proc/$1/status"; }
model_sha() { "$trainer" show "$1" --runs-dir "$2" --json | grep -o '"model_sha256": *"[0-9a-f]*"' | tail -n 1 | grep -o '[0-9a-f]\{64\}'; }
sleep_ms() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }

echo "undisturbed run ..."
begin=$(now_ms)
"$trainer" run "$config" --runs-dir "$work/calm" --quiet "${settings[@]}" > "$work/calm.log" 2>&1 || { cat "$work/calm.log" >&2; exit 1; }
calm_ms=$(($(now_ms) - begin))
calm=$(basename "$work"/calm/*/)
journal=$work/calm/$calm/events.jsonl
total=$(step)
expected=$(model_sha "$calm" "$work/calm")
echo "  $total steps in $calm_ms ms, model $expected"

# Where the kills strike: random steps of the run, in order.
mapfile -t targets < <(for _ in $(seq "$kills"); do echo $((RANDOM * 32768 + RANDOM)); done | awk -v t="$total" '{print $1 % (t - 1) + 1}' | sort -n)

storm=$work/storm
start() { # runs or resumes in the background; sets `supervisor`
  if [ -z "${run:-}" ]; then
    "$trainer" run "$config" --runs-dir "$storm" --quiet "${settings[@]}" >> "$work/storm.log" 2>&1 &
  else
    "$trainer" resume "$run" --runs-dir "$storm" --quiet >> "$work/storm.log" 2>&1 &
  fi
  supervisor=$!
}
start
until compgen -G "$storm/*/events.jsonl" > /dev/null; do sleep 0.01; alive "$supervisor" || { cat "$work/storm.log" >&2; exit 1; }; done
run=$(basename "$storm"/*/)
journal=$storm/$run/events.jsonl

killed_workers=0 killed_supervisors=0 early=0 orphans=0 done_kills=0 seen_worker=0
begin=$(now_ms)
for target in "${targets[@]}"; do
  # A worker must have started since the last kill, else the same process would count twice.
  limit=$(($(now_ms) + 60000))
  while :; do
    worker=$(last worker_started pid)
    [ "${worker:-0}" != "$seen_worker" ] && alive "$worker" && break
    alive "$supervisor" || break
    [ "$(now_ms)" -gt "$limit" ] && { problem "no new worker within 60 s"; break 2; }
    sleep 0.01
  done
  if ((RANDOM % 4 == 0)); then
    early=$((early + 1)); sleep_ms $((RANDOM % 250))
  else
    while alive "$supervisor" && [ "$(step)" -lt "$target" ]; do sleep 0.01; done
    sleep_ms $((RANDOM % 30))
  fi
  alive "$supervisor" || break
  worker=$(last worker_started pid); seen_worker=$worker
  if ((RANDOM % 2)); then
    kill -9 "$supervisor" 2>/dev/null || true
    wait "$supervisor" 2>/dev/null || true
    killed_supervisors=$((killed_supervisors + 1))
    # The worker must follow by itself.
    for _ in $(seq 200); do alive "$worker" || break; sleep 0.01; done
    alive "$worker" && { orphans=$((orphans + 1)); problem "worker $worker outlived its supervisor by 2 s"; }
    start
  else
    alive "$worker" && kill -9 "$worker" 2>/dev/null && killed_workers=$((killed_workers + 1)) || continue
  fi
  done_kills=$((done_kills + 1))
done
status=0; wait "$supervisor" || status=$?
storm_ms=$(($(now_ms) - begin))
[ "$status" -eq 0 ] || { problem "the last process ended with exit code $status"; tail -n 20 "$work/storm.log" >&2; }
[ "$done_kills" -ge "$kills" ] || problem "only $done_kills of $kills kills took place"

actual=$(model_sha "$run" "$storm" || true)
[ "$actual" = "$expected" ] || problem "the model is $actual, undisturbed it is $expected"
awk -F'[:,]' '{ if ($0 !~ /^\{"seq":[0-9]+,.*\}$/ || $2 != NR - 1) { print NR; exit 1 } }' "$journal" > "$work/gap" || problem "journal line $(cat "$work/gap") is out of order or damaged"
entries=$(wc -l < "$journal")
# Both sides without duplicates: a step may be committed again after a resume from before it.
committed=$({ grep -a '"checkpoint_committed":{' "$journal" || true; } | sed -n 's/.*"directory":"\([^"]*\)".*/\1/p' | sort -u)
lost=0; for c in $committed; do [ -e "$storm/$run/checkpoints/$c/MANIFEST.json" ] || { lost=$((lost + 1)); problem "checkpoint $c is gone"; }; done
"$trainer" checkpoints verify "$run" --runs-dir "$storm" > "$work/verify.log" 2>&1 || { problem "a checkpoint does not verify"; cat "$work/verify.log" >&2; }
temporary=$(find "$storm/$run/checkpoints" -mindepth 1 -maxdepth 1 ! -name 'step-*' | wc -l)
left=$(pgrep -cf -- "$storm" || true)
[ "$left" -eq 0 ] || problem "$left processes are left"
attempts=$("$trainer" show "$run" --runs-dir "$storm" --json | sed -n 's/.*"attempts": *\([0-9]*\).*/\1/p' | head -n 1)

verdict=passed; [ ${#problems[@]} -eq 0 ] || verdict="FAILED (${#problems[@]} problems)"
echo "crash storm $verdict: seed $seed, $done_kills kills ($killed_supervisors supervisor, $killed_workers worker; $early early), $attempts attempts," \
     "$total steps in $storm_ms ms (undisturbed $calm_ms ms), $entries journal entries without gap, $(wc -w <<< "$committed") checkpoints committed, $lost lost," \
     "$temporary unfinished files, $orphans orphans, model $([ "$actual" = "$expected" ] && echo identical || echo DIFFERENT)"
[ -n "${WORK:-}" ] || rm -rf "$work"
[ ${#problems[@]} -eq 0 ]
