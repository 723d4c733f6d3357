#!/usr/bin/env bash
# Validates the cuda backend and the simulator on one GPU: builds, tries every way to play a small
# run, calibrates, runs the suites spin and gemm, compares graphs with gated launches. A step that
# fails or takes longer than it may stops no other. docs/validation.md says what that shows and what
# it does not.
#
#   validation/gpu/run.sh [OPTIONS] [ARCHIVE...]
#
#   -o FOLDER   for the results; default validation/gpu/results
#   -s STEPS    of try, spin, gemm, whole, graph and sanitize; default all of them; page: none, the
#               page alone, of what FOLDER and the ARCHIVEs hold
#   -p STAGES   of "2 4 8", default all of them
#   -q          quick: 1F1B on two stages, layers of one width, three iterations: whether all works
#               here
#   -l SECONDS  for all steps together: what does not fit is cut off or left out; default no limit
#   -c COMMIT   that this is, where there is no git
#   -d DATE     of the page; default today
#
# FOLDER has three files, each written anew before and after every step: results.md, the page;
# results.tar.gz, all that was measured, a measured trace for each number of stages, logs of steps
# that failed, NCCL's messages; log, what all steps print. What FOLDER or an ARCHIVE (results.tar.gz
# of an earlier call) already has stays, but for the steps that are played now.
#
# TANDEM=PROGRAM takes that one and builds nothing; so does a folder of no sources but with
# build/executor/tandem. Exit status: 0 all bounds hold, 1 one does not or a step failed, 2 wrong
# usage, 3 this machine cannot.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source_dir=$(cd "$here/../.." && pwd)

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d'
}
wrong() {
  echo "validation/gpu/run.sh: $*" >&2
  exit 2
}
# words OPTION ALLOWED GIVEN: prints the given words, one a line. A word that is not allowed ends
# the script.
words() {
  local word
  for word in ${3//,/ }; do
    [[ " $2 " = *" $word "* ]] || wrong "$1: found '$word', expected some of: $2"
    echo "$word"
  done
}

out=$here/results iterations=20 only='' limit=0 today=$(date -u +%F)
commit=$(git -C "$source_dir" rev-parse --short HEAD 2>/dev/null) || commit=unknown
all_steps="try spin gemm whole graph sanitize" all_stages="2 4 8"
steps=$all_steps stages=$all_stages widths="2048 4096 8192"
while getopts o:s:p:ql:c:d:h option; do
  case $option in
    o) out=$OPTARG ;;
    s) steps=$(words -s "$all_steps page" "$OPTARG") || exit ;;
    p) stages=$(words -p "$all_stages" "$OPTARG") || exit ;;
    q) iterations=3 stages=2 widths=2048 only='1f1b, on, P=2' ;;
    l) limit=$OPTARG
      [[ $limit =~ ^[1-9][0-9]*$ ]] || wrong "-l: found '$limit', expected whole seconds" ;;
    c) commit=$OPTARG ;;
    d) today=$OPTARG ;;
    h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ -n "${stages// /}" ] || wrong "-p: found no stages, expected some of: $all_stages"

is_asked() { [[ " ${steps//$'\n'/ } " = *" $1 "* ]]; }
say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }
cannot() { echo "$*" >&2; exit 3; }

for archive in "$@"; do
  tar -tzf "$archive" >/dev/null 2>&1 ||
    wrong "$archive: found no archive, expected results.tar.gz of an earlier call"
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
data=$work/results
mkdir "$data"
: >"$data/steps.csv"
for archive in "$@" "$out/results.tar.gz"; do
  [ -e "$archive" ] || continue
  cp "$data/steps.csv" "$work/before"
  tar -xzf "$archive" -C "$data"
  # Keeps the steps of all archives; of a step that two of them have, the later one's line.
  cat "$work/before" "$data/steps.csv" | tac | awk -F'|' '!seen[$1]++' | tac >"$work/both"
  cp "$work/both" "$data/steps.csv"
done
: >"$out/log"

# --- steps

# record TITLE RESULT SECONDS: writes the step's line of steps.csv anew:
# title|result|seconds|date|commit.
record() {
  awk -F'|' -v title="$1" '$1 != title' "$data/steps.csv" >"$work/others"
  { cat "$work/others"; echo "$1|$2|$3|$today|$commit"; } >"$data/steps.csv"
}

# Puts the archive, then the page in place, each by a rename. If the script is killed, both are
# whole, and the archive has all figures of the page.
publish() {
  local messages
  for messages in "$work"/nccl.*; do
    [ -e "$messages" ] || continue
    head -c 100000 "$messages" >>"$data/nccl.log"
    : >"$messages"  # emptied, not removed: a process may still write to it
  done
  tar -czf "$out/results.tar.gz.new" -C "$data" .
  mv "$out/results.tar.gz.new" "$out/results.tar.gz"
  page >"$out/results.md.new"
  mv "$out/results.md.new" "$out/results.md"
}

# step SECONDS TITLE COMMAND...: runs the command, and prints and logs its output. If it fails, the
# step is recorded as missed, and the script goes on. within() ends its programs after SECONDS.
missed=() deadline=0
step() {
  local most=$1 title=$2 began=$SECONDS status log
  shift 2
  log=$data/failed-$(tr -cs 'a-zA-Z0-9=\n' - <<<"$title").log
  deadline=$((SECONDS + most))
  if [ "$limit" -gt 0 ] && [ "$deadline" -gt "$limit" ]; then deadline=$limit; fi
  rm -f "$log"
  if [ "$deadline" -le "$SECONDS" ]; then
    missed+=("$title")
    record "$title" "left out: no time" 0
    say "left out: $title" | tee -a "$out/log"
    publish
    return
  fi
  say "$title" | tee -a "$out/log"
  record "$title" "under way" 0
  publish
  set +e
  (set -e; "$@") 2>&1 | tee "$work/step" | tee -a "$out/log"
  status=${PIPESTATUS[0]}
  set -e
  if [ "$status" -eq 0 ]; then
    record "$title" ok $((SECONDS - began))
  else
    missed+=("$title")
    cp "$work/step" "$log"
    record "$title" "NOT OK, exit status $status" $((SECONDS - began))
    say "NOT OK: $title (exit status $status)" | tee -a "$out/log"
  fi
  publish
}

# within SECONDS COMMAND...: runs the command, and ends it after SECONDS, or when its step's time is
# over.
within() {
  local most=$1
  shift
  if [ $((deadline - SECONDS)) -lt "$most" ]; then most=$((deadline - SECONDS)); fi
  if [ "$most" -le 0 ]; then
    echo "the step's time is over" >&2
    return 124
  fi
  timeout -k 5 "$most" "$@"
}

# --- the program

# wheels PATTERN: lists the matching files in the Python packages of NVIDIA's libraries.
wheels() {
  python3 -c 'import glob, nvidia, sys
for folder in nvidia.__path__: print(*glob.glob(folder + "/" + sys.argv[1]), sep="\n")' "$1" 2>/dev/null
}

# Builds tandem. If something is missing, stops with one line before anything is compiled.
build() {
  local tool
  for tool in cmake c++; do
    command -v "$tool" >/dev/null || cannot "$tool is missing; TANDEM=PROGRAM needs no build"
  done
  say "build (preset executor)" | tee -a "$out/log"
  cd "$source_dir"
  cmake/executor -DTANDEM_CUDA=REQUIRED >"$work/build" 2>&1 || {
    cat "$work/build" >>"$out/log"
    grep -m 1 'cuda backend: not built' "$work/build" >&2 && exit 3
    grep -m 1 -A 1 'Could not find\|^found neither' "$work/build" >&2 ||
      tail -n 30 "$work/build" >&2
    exit 3
  }
  cmake --build --preset executor -j "$(nproc)" >>"$work/build" 2>&1 || {
    cat "$work/build" >>"$out/log"
    tail -n 30 "$work/build" >&2
    exit 1
  }
  grep -h 'cuda backend' "$work/build" | tee -a "$out/log"
}

find_program() {
  if [ -n "${TANDEM:-}" ]; then
    tandem=$(readlink -f "$TANDEM")
    return
  fi
  tandem=$source_dir/build/executor/tandem
  if [ -e "$source_dir/CMakeLists.txt" ] || [ ! -x "$tandem" ]; then build; fi
}

# Adds the libraries of Python packages to the search path if the system lacks NCCL or cuBLASLt.
find_libraries() {
  if "$tandem" doctor 2>/dev/null | grep -qE '^backend cuda .*lib(nccl|cublasLt)'; then
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(wheels '*/lib' | paste -sd:) || true
    export LD_LIBRARY_PATH
  fi
}

# --- what the steps do

# lower SUITE NAME ARGS...: prints the Program of the suite's first run whose name contains NAME.
lower() {
  "$tandem" schedule "$here/$1.toml" --only "$2" --format program "${@:3}"
}

# Describes the machine and tries a first run; exit status 3 if there is no GPU. If transfers by
# NCCL do not work, all further steps use copies.
examine() {
  local transfers status=0
  echo "$(uname -s) $(uname -r | cut -d- -f1), $(nproc) cores" >"$data/machine"
  nvidia-smi >"$data/nvidia-smi.txt" 2>&1 || true
  "$tandem" doctor --wide >"$data/doctor.txt"
  grep -E '^(backend cuda|NVIDIA driver|CUDA|NCCL|cuBLASLt|GPU [0-9]+) ' "$data/doctor.txt" || true
  for transfers in nccl copy; do
    status=0
    try "$work/smoke.csv" --transfers "$transfers" --launch gated || status=$?
    if [ "$status" -eq 0 ]; then echo "$transfers" >"$data/transfers"; fi
    if [ "$status" -eq 0 ] || [ "$status" -eq 3 ]; then break; fi
  done
  cp "$work/try.trace" "$data/smoke.trace.csv" 2>/dev/null || true
  return "$status"
}

# try PROGRAM ARGS...: plays the Program shortly, and prints whether that works.
try() {
  local status=0
  rm -f "$work/try.trace"
  within 60 "$tandem" run "$1" --backend cuda --share-gpu --iterations 2 --timeout 20 \
    --trace "$work/try.trace" "${@:2}" >"$work/try.log" 2>&1 || status=$?
  if [ "$status" -eq 0 ]; then
    echo "ok: ${*:2}"
  else
    echo "NOT OK, exit status $status: ${*:2}"
    tail -n 5 "$work/try.log"
  fi
  return "$status"
}

# Tries every kind of transfer, launch and precision, the simplest first, and checks each byte of
# each message. The file `failed` names those that do not work.
try_all() {
  local transfers launch precision
  rm -f "$data/failed"
  for transfers in priced copy nccl; do
    for launch in direct gated graph; do
      try "$work/smoke.csv" --transfers "$transfers" --launch "$launch" --payload full ||
        echo "$transfers $launch" >>"$data/failed"
    done
  done
  for precision in fp32 fp16 bf16 fp8; do
    try "$work/gemm-2.csv" --compute gemm --precision "$precision" ||
      echo "$precision" >>"$data/failed"
  done
  [ ! -e "$data/failed" ]
}

# curve TRANSFERS: measures transfers of a rank to itself; writes lines "bytes us GB/s".
curve() {
  local fit=()
  [ "$1" != "$transfers" ] || fit=(--fit "$data/links.toml")
  within 120 "$tandem" bench comm --cluster "$here/spin.toml" --ranks 2 --backend cuda --share-gpu \
    --transfers "$1" --op p2p -b 64K -e 256M -f 4 -n 10 -w 2 "${fit[@]}" >"$work/$1.txt"
  awk '!/^#/ && NF >= 8 {print $1, $6, $7}' "$work/$1.txt" >"$work/$1"
}

copy_curve() {
  rm -f "$data/links.toml" "$data/copy.csv"
  curve copy
  [ "$transfers" = nccl ] || return 0
  curve nccl
  {
    echo "bytes,nccl_us,nccl_GBps,copy_us,copy_GBps"
    join <(sort "$work/nccl") <(sort "$work/copy") | sort -n | tr ' ' ','
  } >"$data/copy.csv"
}

# calibrate P: measures the parts of gemm.toml's model on a P-th of the GPU, while all P parts work.
calibrate() {
  rm -f "$data/costs-$1.csv"
  lower gemm "1f1b, on, P=$1" >"$work/gemm-$1.csv"
  within 120 "$tandem" calibrate device "$work/gemm-$1.csv" --backend cuda --share-gpu \
    --transfers "$transfers" --iterations "$iterations" -o "$data/costs-$1.csv"
}

# calibrate_whole WIDTH PRECISION: measures the parts of whole.toml's layers on all SMs.
calibrate_whole() {
  rm -f "$data/whole-$1-$2.csv"
  lower whole "$1, $2" >"$work/whole.csv"
  within 60 "$tandem" calibrate device "$work/whole.csv" --backend cuda --precision "$2" \
    --iterations "$iterations" -o "$data/whole-$1-$2.csv"
}

# suite FILE NAME ONLY TRANSFERS ARGS...: validates the runs of suite NAME whose names contain ONLY.
# Writes FILE.csv, FILE.md and FILE.faults. Exit status 1 if a bound is missed.
suite() {
  local file=$data/$1 status=0 links=()
  rm -f "$file".{csv,md,faults}
  [ ! -e "$data/links.toml" ] || links=(--set cluster.calibration="$data/links.toml")
  within 240 "$tandem" validate "$here/$2.toml" --only "$3" --iterations "$iterations" \
    --set validate.transfers="$4" "${@:5}" "${links[@]}" --csv "$work/rows.csv" \
    --page "$work/rows.md" || status=$?
  [ -e "$work/rows.csv" ] || return "$((status > 0 ? status : 1))"
  mv "$work/rows.csv" "$file.csv"
  grep '^|' "$work/rows.md" >"$file.md"
  grep '^- ' "$work/rows.md" >"$file.faults" || true
  rm "$work/rows.md"
  return "$status"
}

# suite_gemm P: validates suite gemm, with the prices that `calibrate P` measured if there are any.
suite_gemm() {
  local table=()
  [ ! -e "$data/costs-$1.csv" ] ||
    table=(--set costs.source=table --set costs.table="$data/costs-$1.csv")
  suite "gemm-$1" gemm "${only:-P=$1}" "$transfers" "${table[@]}"
}

# measured P ARGS...: plays 1F1B of suite spin on P stages; prints JSON.
measured() {
  within 60 "$tandem" run "$here/spin.toml" --only "1f1b, on, P=$1" --backend cuda --share-gpu \
    --transfers "$transfers" --iterations "$iterations" --json "${@:2}"
}

measured_trace() {
  measured "$1" --trace "$data/spin-$1.trace.csv" >"$data/spin-$1.json"
}

# launches P: measures the same iteration by each way to launch it.
launches() {
  local launch failed=0
  echo "launch,p5_ms,p50_ms,p95_ms" >"$data/graph-$1.csv"
  for launch in gated graph direct; do
    if measured "$1" --launch "$launch" >"$work/launch.json"; then
      awk -v launch="$launch" -F'[:,]' '
        /"spread"/ { inside = 1 }
        inside && /"p(5|50|95)"/ { line = line sprintf(",%.3f", 1000 * $2); if (++n == 3) exit }
        END { print launch line }' "$work/launch.json" | tee -a "$data/graph-$1.csv"
    else
      failed=1
    fi
  done
  return "$failed"
}

# Plays a small run under compute-sanitizer. Launches are direct, since under the sanitizer a launch
# may wait for kernels that a gate holds. Transfers are copies, since the sanitizer does not know
# which memory NCCL's kernels may read. Errors that CUDA's API returns to its own libraries do not
# count.
sanitize() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "left out: compute-sanitizer is not in PATH" | tee "$data/sanitized"
    return
  fi
  echo "NOT clean" >"$data/sanitized"
  within 200 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 99 \
    "$tandem" run "$work/gemm-2.csv" --backend cuda --share-gpu --compute gemm --launch direct \
    --transfers copy --iterations 1 --timeout 150 >"$work/sanitizer.log" 2>&1 || {
    tail -n 40 "$work/sanitizer.log"
    return 1
  }
  echo "clean: $(compute-sanitizer --version | grep -o 'Version [^ ]*' || true)" |
    tee "$data/sanitized"
}

# --- the page

# files NAME ENDING: lists the files NAME-P.ENDING that exist, by number of stages P.
files() {
  local p
  for p in $all_stages; do
    if [ -e "$data/$1-$p.$2" ]; then echo "$data/$1-$p.$2"; fi
  done
}

# worst COLUMN SUITE: prints the column's largest absolute value, in percent or points, over the
# runs that have bounds.
worst() {
  # shellcheck disable=SC2046
  set -- "$1" $(files "$2" csv)
  [ $# -gt 1 ] || { echo none; return; }
  awk -F, -v column="$1" '
    FNR == 1 {
      for (i = 1; i <= NF; ++i) {
        if ($i == column) at = i
        if ($i == "is_bounded") bounded = i
      }
      next
    }
    $bounded == "true" && $at != "" {
      v = 100 * $at
      if (v < 0) v = -v
      if (v > most) most = v
      ++n
    }
    END { if (n > 0) printf "%.2f", most; else printf "none" }' "${@:2}"
}

figures() {
  echo "| largest difference over all runs with bounds | bound | spin | gemm |"
  echo "|---|---:|---:|---:|"
  local row title bound column
  for row in \
    "makespan and critical path of its own op times, %|2|own_iteration_error" \
    "simulated with measured op times: iteration, %|3|own_iteration_error" \
    "bubble, points|2|own_bubble_difference" \
    "overlap, points|3|own_overlap_difference" \
    "simulated with calibrated prices: iteration, %|10|iteration_error" \
    "bubble, points|5|bubble_difference" \
    "overlap, points|15|overlap_difference"; do
    IFS='|' read -r title bound column <<<"$row"
    echo "| $title | $bound | $(worst "$column" spin) | $(worst "$column" gemm) |"
  done
}

# table SUITE: prints one table of the rows for all numbers of stages.
table() {
  local file titles=''
  for file in $(files "$1" md); do
    if [ -z "$titles" ]; then cat "$file"; else tail -n +3 "$file"; fi
    titles=there
  done
  [ -n "$titles" ] || echo "None."
}

# Says which bounds and steps were missed and which results are not there, or that all bounds hold.
verdict() {
  local bad file left p
  bad=$(awk -F'|' '$2 != "ok" { print "- " $1 ": " $2 }' "$data/steps.csv")
  for file in $(files spin faults) $(files gemm faults); do bad+=$'\n'$(cat "$file"); done
  if [ -s "$data/failed" ]; then bad+=$'\n'$(sed 's/^/- small run: /' "$data/failed"); fi
  bad=$(grep . <<<"$bad" || true)
  left=$(for p in $all_stages; do
    for file in "spin-$p.csv" "gemm-$p.csv"; do [ -e "$data/$file" ] || echo "$file"; done
  done | paste -sd' ' | sed 's/ /, /g')
  if [ -n "$bad" ]; then
    printf '**Missed:**\n\n%s\n' "$bad"
  elif [ -n "$left" ]; then
    echo "**All bounds hold** of what was run."
  else
    echo "**All bounds hold.**"
  fi
  if [ -n "$left" ]; then printf '\nNot there: %s.\n' "$left"; fi
}

launch_table() {
  local p
  echo "| P | launch | p5 ms | p50 ms | p95 ms |"
  echo "|---:|---|---:|---:|---:|"
  for p in $all_stages; do
    [ ! -e "$data/graph-$p.csv" ] ||
      tail -n +2 "$data/graph-$p.csv" | sed "s/,/ | /g; s/^/| $p | /; s/\$/ |/"
  done
}

whole_table() {
  local width precision
  for width in 2048 4096 8192; do
    for precision in bf16 fp8; do
      [ ! -e "$data/whole-$width-$precision.csv" ] ||
        awk -F, -v row="| $width | $precision | " '
          $1 == "kernel" { printf "%s%s | %.1f | %.0f TFLOP/s |\n", row, $2, $11 / 1000, $13 / 1e12 }
          $1 == "memory" { line = sprintf("%soptimizer | %.1f | %.0f GB/s |", row, $11 / 1000, $13 / 1e9) }
          END { print line }' "$data/whole-$width-$precision.csv"
    done
  done
}

page() {
  local facts="nothing: no run ended well"
  [ ! -e "$data/smoke.trace.csv" ] ||
    facts=$(sed -n 's/^# real: //p' "$data/smoke.trace.csv" | head -n 1)
  cat <<END
# One GPU, $today

Written by \`validation/gpu/run.sh\`; [validation.md](../../../docs/validation.md#on-a-gpu)
says what it shows. Commit: $commit. $(cat "$data/machine" 2>/dev/null || echo "Machine unknown").
Iterations a run: $iterations.

Played by: $facts

$(verdict)

$(figures)

Where ok is "-" a run has more streams, NCCL's among them, than the device has hardware queues (32):
they may hold each other up, so no bound is claimed of it.

Small run under compute-sanitizer, memcheck: $(cat "$data/sanitized" 2>/dev/null || echo "not run").

## Spin

$(table spin)

On 8 stages by copies, which need no streams of NCCL's:

$(table copies)

## GEMM

$(table gemm)

## Graph, gated, direct

1F1B of the suite spin: the same iteration, launched as one CUDA graph, from behind a gate, call by
call.

$(launch_table)

## Layers on the whole GPU

Each part alone, back to back, as \`tandem calibrate device\` measures it; rates of tables
\`whole-WIDTH-PRECISION.csv\`. A training framework's own kernels and pauses are not in them.

| width | precision | part | p50 us | rate |
|---:|---|---|---:|---|
$(whole_table)

## A transfer to oneself

NCCL, and the copy engine beside it. No bus bandwidth: one GPU has no bus.

| bytes | NCCL us | GB/s | copy us | GB/s |
|---:|---:|---:|---:|---:|
$([ ! -e "$data/copy.csv" ] || tail -n +2 "$data/copy.csv" | sed 's/,/ | /g; s/^/| /; s/$/ |/')

## Steps

| step | result | s | date | commit |
|---|---|---:|---|---|
$(sed 's/|/ | /g; s/^/| /; s/$/ |/' "$data/steps.csv")
END
}

# --- what is asked for

if ! is_asked page; then
  find_program
  find_libraries
  lower spin '1f1b, on, P=2' >"$work/smoke.csv"
  lower gemm '1f1b, on, P=2' >"$work/gemm-2.csv"
  export NCCL_DEBUG=${NCCL_DEBUG:-WARN} NCCL_DEBUG_FILE=$work/nccl.%h.%p
  rm -f "$data/nccl.log"
  step 100 "this machine, and a small run" examine
  ! grep -qs '^NOT OK, exit status 3' "$out/log" || exit 3
  transfers=$(cat "$data/transfers" 2>/dev/null) || transfers=nccl

  if is_asked try; then step 240 "small runs in every way" try_all; fi
  if is_asked spin; then
    step 120 "a transfer to oneself, by NCCL and by a copy" copy_curve
    for p in $stages; do
      step 180 "suite spin, P=$p" suite "spin-$p" spin "${only:-P=$p}" "$transfers"
      step 60 "a measured trace, P=$p" measured_trace "$p"
    done
    if [[ " $stages " = *8* ]]; then
      step 180 "beside it: suite spin, P=8, by copies" suite copies-8 spin P=8 copy
    fi
  fi
  if is_asked gemm; then
    if [ ! -e "$data/links.toml" ]; then
      step 120 "a transfer to oneself, by NCCL and by a copy" copy_curve
    fi
    for p in $stages; do
      step 120 "what the parts of a model take on 1/$p of the GPU" calibrate "$p"
      step 180 "suite gemm, P=$p" suite_gemm "$p"
    done
  fi
  if is_asked whole; then
    for width in $widths; do
      for precision in bf16 fp8; do
        step 60 "layers of width $width in $precision on the whole GPU" \
          calibrate_whole "$width" "$precision"
      done
    done
  fi
  if is_asked graph; then
    for p in $stages; do step 120 "graph, gated and direct, P=$p" launches "$p"; done
  fi
  if is_asked sanitize; then step 220 "a small run under compute-sanitizer" sanitize; fi
fi
publish
say "wrote $out/results.md"
if [ ${#missed[@]} -gt 0 ]; then printf 'missed: %s\n' "${missed[@]}" >&2; exit 1; fi
