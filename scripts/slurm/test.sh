#!/usr/bin/env bash
# Trains under a real SLURM: a cluster of four nodes on this machine, and scripts/slurm/train.sbatch.
#
#   sudo scripts/slurm/test.sh
#
# Checks: a job on two nodes and one on four end with the weights of a run on one node; so does one
# that is put back into the queue in the middle (`scontrol requeue`, all processes get TERM), and one
# that is told that its time limit is near (USR1 to the script alone), which must pause with a
# checkpoint before it goes on; and one that loses a node, without being started again; the secret is in no file and on no command line; no process is left.
# Prints one line per job; exits 1 if anything is wrong.
#
# TRAINER names the binary (default target/release/trainer), EPOCHS the length of the runs (default 20),
# WORK a scratch folder that is kept (default: a new one that is removed), LIMIT the seconds for all of it.
# Needs root. Installs Debian's slurm-wlm and munge if they are missing, without starting a service.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
fail() { echo "FAILED: $*" >&2; exit 1; }

# ---- Outside: packages, and a place of its own for the cluster. ----

install_packages() {
  command -v apt-get > /dev/null || fail "slurmctld, slurmd, sbatch or munged is missing, and there is no apt-get to install them"
  # Debian's way to say that packages are not to start their services.
  local policy=/usr/sbin/policy-rc.d own=
  if [ ! -e "$policy" ]; then
    own=yes
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod +x "$policy"
  fi
  local log=$work/install.log good=yes
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update && timeout 600 apt-get install -y --no-install-recommends slurm-wlm munge; } > "$log" 2>&1 || good=
  [ -z "$own" ] || rm -f "$policy"
  [ -n "$good" ] || { tail -n 20 "$log" >&2; fail "cannot install slurm-wlm and munge"; }
}

outside() {
  [ "$(id -u)" -eq 0 ] || fail "needs root: it installs packages and makes namespaces"
  trainer=$(realpath -e "${TRAINER:-$root/target/release/trainer}" 2> /dev/null) || fail "no binary at ${TRAINER:-target/release/trainer}; build it or set TRAINER"
  for tool in unshare setpriv ip; do command -v "$tool" > /dev/null || fail "$tool is missing"; done
  work=${WORK:-$(mktemp -d)}; mkdir -p "$work"; work=$(realpath "$work")
  cluster=
  # Whatever happens: the first process of the namespace ends all others with it.
  trap '[ -z "$cluster" ] || kill -KILL "$cluster" 2> /dev/null || true; wait; [ -n "${WORK:-}" ] || rm -rf "$work"' EXIT
  trap 'exit 1' INT TERM HUP
  for tool in slurmctld slurmd sbatch munged; do command -v "$tool" > /dev/null || { install_packages; break; }; done
  # Own processes (nothing can be left), mounts (for /etc/hosts), host name, and network (ports are
  # free, and nobody outside can reach the cluster). The kernel ends it when this script is killed.
  TRAINER=$trainer WORK_INSIDE=$work setpriv --pdeathsig KILL \
    unshare --mount --pid --fork --kill-child --mount-proc --uts --net \
    timeout --kill-after=10 "${LIMIT:-900}" bash "${BASH_SOURCE[0]}" &
  cluster=$!
  local code=0; wait "$cluster" || code=$?
  cluster=
  [ "$code" -ne 124 ] || echo "FAILED: not done within ${LIMIT:-900} s" >&2
  local left; left=$(pgrep -fc -- "$work" || true)
  [ "$left" -eq 0 ] || fail "$left processes are left"
  exit "$code"
}

# ---- Inside: the cluster. ----

nodes=4
start_cluster() {
  # An address for each node. SLURM does not even look up where to listen on a machine that has
  # nothing but 127.0.0.1 (AI_ADDRCONFIG).
  ip link set lo up
  ip link add nodes type bridge
  ip link set nodes up
  for k in $(seq "$nodes"); do ip addr add "10.77.1.$k/24" dev nodes; done
  # The names of nodes lead to them, as on a real cluster.
  hostname slurmtest
  mkdir -p "$work/etc"
  { echo "127.0.0.1 localhost"; echo "10.77.1.1 slurmtest"; for k in $(seq "$nodes"); do echo "10.77.1.$k n$k"; done; } > "$work/etc/hosts"
  mount --bind "$work/etc/hosts" /etc/hosts
  # A key of this cluster's own: the machine's, if it has one, stays its own.
  (umask 077; head -c 128 /dev/urandom > "$work/etc/munge.key")
  munged --force --key-file="$work/etc/munge.key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" \
    --log-file="$work/munged.log" --seed-file="$work/munged.seed" 2> "$work/munged.err" || { cat "$work/munged.err" >&2; fail "munged does not start"; }
  # cred_expire is also how long SLURM holds back a job that was put back (120 s by default). CPUs are
  # what is said here, not what the machine has (config_overrides).
  cat > "$work/etc/slurm.conf" <<EOF
ClusterName=test
SlurmctldHost=slurmtest(10.77.1.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.%n.log
SlurmdParameters=config_overrides
$(for k in $(seq "$nodes"); do echo "NodeName=n$k NodeHostname=slurmtest NodeAddr=10.77.1.$k Port=$((17000 + k)) CPUs=2 RealMemory=1000 State=UNKNOWN"; done)
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
EOF
  export SLURM_CONF=$work/etc/slurm.conf
  mkdir -p "$work/state"
  slurmctld
  for k in $(seq "$nodes"); do
    mkdir -p "$work/spool.n$k"
    slurmd -N "n$k"
  done
  local until=$((SECONDS + 30))
  while [ "$SECONDS" -lt "$until" ]; do
    [ "$(timeout 5 sinfo -h -t idle -o %D 2> /dev/null)" != "$nodes" ] || return 0
    sleep 0.2
  done
  for daemon in slurmctld slurmd.n1; do tail -v -n 5 "$work/$daemon.log" >&2; done
  fail "the nodes of the cluster do not come up"
}

good=yes
problem() { good=; echo "PROBLEM: $*" >&2; }

# submit NAME NODES: sets `job`, `runs` and `log`.
submit() {
  job=$(sbatch --parsable --job-name="$1" --nodes="$2" --cpus-per-task=1 --time=30 --output="$work/%x.log" \
    scripts/slurm/train.sbatch configs/digits.toml "${settings[@]}")
  runs=$RUNS/$1-$job log=$work/$1.log
}

job_state() { scontrol show job "$job" -o | grep -o 'JobState=[A-Z_]*' | cut -d= -f2; }

# await SECONDS STATE...: until the job is in one of the states.
await() {
  local until=$((SECONDS + $1)) state; shift
  while :; do
    state=$(job_state)
    for wanted in "$@"; do [ "$state" != "$wanted" ] || return 0; done
    if [ "$SECONDS" -ge "$until" ]; then
      tail -n 20 "$log" >&2 || true
      fail "job $job is $state, not $*"
    fi
    sleep 0.3
  done
}

journal() { cat "$runs"/*/events.jsonl 2> /dev/null || true; }
step() { local s; s=$(journal | sed -n 's/.*"step_finished":{.*"step":\([0-9]*\).*/\1/p' | tail -n 1); echo "${s:-0}"; }
await_step() {
  local until=$((SECONDS + 120))
  while [ "$(step)" -lt "$1" ]; do
    [ "$SECONDS" -lt "$until" ] || { tail -n 20 "$log" >&2 || true; fail "job $job: step $1 is not reached"; }
    sleep 0.05
  done
}
shown() { "$trainer" show latest --runs-dir "$1" --json | sed -n 's/^  "'"$2"'": "\{0,1\}\([^",]*\).*/\1/p'; }

# finish NAME: waits for the end of the job and holds its weights against the run alone.
finish() {
  await 240 COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL
  local ended run weights=DIFFERENT restarts
  ended=$(job_state); run=$(shown "$runs" state || true)
  [ "$(shown "$runs" model_sha256 || true)" != "$expected" ] || weights=identical
  restarts=$(scontrol show job "$job" -o | grep -o 'Restarts=[0-9]*')
  echo "$1: job $ended, run ${run:-missing}, $restarts, attempts $(shown "$runs" attempts), weights $weights"
  journal | sed -n 's/.*"state_changed":{\(.*\)}.*/    \1/p' | grep -a '"paused"' || true
  if [ "$ended" != COMPLETED ] || [ "$run" != completed ] || [ "$weights" != identical ]; then
    problem "$1"
    tail -n 30 "$log" >&2
  fi
}

# The token of the job that runs is in no file of the cluster or the run, and on no command line.
look_for_token() {
  local pid token places
  pid=$(pgrep -f -o -- "run configs/digits.toml .*--runs-dir $runs")
  token=$(tr '\0' '\n' < "/proc/$pid/environ" | sed -n 's/^TRAINER_TOKEN=//p')
  [ "${#token}" -eq 64 ] || { problem "the token of process $pid has ${#token} characters"; return; }
  # Given to grep as a file, so that grep's own command line does not hold it.
  places=$(grep -rlasF -f <(printf '%s\n' "$token") "$work" /proc/[0-9]*/cmdline || true)
  [ -z "$places" ] || problem "the token is in $places"
}

inside() {
  work=$WORK_INSIDE trainer=$TRAINER
  export RUNS=$work/runs TRAINER
  cd "$root"
  start_cluster
  echo "$(slurmd -V), nodes $(sinfo -h -N -o %N | sort | tr '\n' ' ')"
  settings=(--set train.shards=4 --set "train.epochs=${EPOCHS:-20}" --set 'log.every="1 step"' --slots 1 --quiet)
  "$trainer" run configs/digits.toml "${settings[@]}" --runs-dir "$work/alone"
  expected=$(shown "$work/alone" model_sha256)
  echo "alone: $(shown "$work/alone" steps_total) steps, model $expected"

  submit two-nodes 2
  await_step 1
  look_for_token
  finish two-nodes

  submit four-nodes 4
  finish four-nodes

  submit requeued 2
  await_step 30
  scontrol requeue "$job"
  await 60 PENDING
  finish requeued
  [ "$(shown "$runs" attempts)" -ge 2 ] || problem "requeued: it was over before it was put back; raise EPOCHS"

  # What SLURM does before the time limit.
  submit near-its-limit 4
  await_step 30
  scancel --batch --signal=USR1 "$job"
  await 90 PENDING
  [ "$(shown "$runs" state)" = paused ] || problem "near-its-limit: the run is $(shown "$runs" state) when the job is put back"
  finish near-its-limit
  journal | grep -aq 'paused with a checkpoint' || problem "near-its-limit: it did not pause with a checkpoint"
  [ "$(shown "$runs" attempts)" -eq 2 ] || problem "near-its-limit: $(shown "$runs" attempts) attempts"

  submit node-lost 4
  await_step 30
  # All that runs on the node, its SLURM too; the workers go with their agent.
  for pid in $(pgrep -f -- "--runs-dir $runs"); do
    if { tr '\0' '\n' < "/proc/$pid/environ"; } 2> /dev/null | grep -qx SLURMD_NODENAME=n4; then kill -KILL "$pid"; fi
  done
  kill -KILL "$(cat "$work/slurmd.n4.pid")"
  scontrol update nodename=n4 state=down reason=test
  finish node-lost
  journal | grep -aq '"recovered":{.*"world_size":3' || problem "node-lost: it did not go on with three workers"
  [ "$(shown "$runs" attempts)" -eq 1 ] || problem "node-lost: $(shown "$runs" attempts) attempts"

  sleep 2
  local left; left=$(pgrep -fc -- "--runs-dir $RUNS" || true)
  [ "$left" -eq 0 ] || problem "$left processes of trainer are left"
  if [ -n "$good" ]; then echo passed; else echo FAILED; exit 1; fi
}

if [ -n "${WORK_INSIDE:-}" ]; then inside; else outside; fi
