#!/usr/bin/env bash
# Validates the cuda backend and the simulator on one GPU: builds, tries every way to play a small
# run, calibrates, runs the suites spin and gemm, and writes what came out. A step that fails stops
# no other; all that they print is in FOLDER/log. docs/validation.md says what that shows and what
# it does not.
#
#   validation/gpu/run.sh [-o FOLDER] [-q]
#
#   -o FOLDER   for the results; default validation/gpu/results
#   -q          quick: 1F1B on two stages, three iterations: whether all works here
#
# TANDEM=PROGRAM takes that one and builds nothing. Exit status: 0 all bounds hold, 1 one does not
# or a step failed, 2 wrong usage, 3 this machine cannot.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source_dir=$(cd "$here/../.." && pwd)

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
}

out=$here/results iterations=20 stages=(2 4 8) only=
while getopts o:qh option; do
  case $option in
    o) out=$OPTARG ;;
    q) iterations=3 stages=(2) only='1f1b, on, P=2' ;;
    h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || { usage >&2; exit 2; }

missed=()
say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }
cannot() { echo "$*" >&2; exit 3; }

mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -f "$out"/{log,links.toml,copy.csv,spin.csv,gemm.csv} "$out"/costs-*.csv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# step TITLE COMMAND...: tells and logs what it prints; its failure is told, and the next goes on.
step() {
  local title=$1 status
  shift
  say "$title" | tee -a "$out/log"
  set +e
  (set -e; "$@") 2>&1 | tee -a "$out/log"
  status=${PIPESTATUS[0]}
  set -e
  if [ "$status" -ne 0 ]; then
    missed+=("$title")
    say "NOT OK: $title (exit status $status)" | tee -a "$out/log"
  fi
}

# within SECONDS COMMAND...: what hangs is ended, with all that it started.
within() { timeout -k 5 "$@"; }

# wheels PATTERN: what Python's packages of NVIDIA's libraries have there.
wheels() {
  python3 -c 'import glob, nvidia, sys
for folder in nvidia.__path__: print(*glob.glob(folder + "/" + sys.argv[1]), sep="\n")' "$1" 2>/dev/null
}

build() {
  for tool in cmake c++; do
    command -v "$tool" >/dev/null || cannot "$tool is missing; TANDEM=PROGRAM needs no build"
  done
  (
    cd "$source_dir"
    nccl=$(wheels nccl | head -n 1) || nccl=
    if [ -n "$nccl" ]; then export NCCL_ROOT=${NCCL_ROOT:-$nccl}; fi
    cmake/executor && cmake --build --preset executor -j "$(nproc)"
  ) >"$out/log" 2>&1 || { tail -n 30 "$out/log" >&2; exit 1; }
  grep 'cuda backend is not built' "$out/log" >&2 || true
}

# What tandem doctor says of GPUs, and a first run; exit status 3 where there is none.
examine() {
  "$tandem" doctor >"$work/doctor"
  grep -E '^(backend cuda|NVIDIA driver|NCCL) ' "$work/doctor" || true
  try "$work/smoke.csv" --transfers nccl --launch gated
}

# try PROGRAM ARGS...: a short run.
try() {
  local status=0
  within 60 "$tandem" run "$1" --backend cuda --share-gpu --iterations 2 --timeout 20 \
    --trace "$work/try.trace" "${@:2}" >"$work/try.log" 2>&1 || status=$?
  if [ "$status" -eq 0 ]; then
    [ -e "$work/smoke.trace" ] || cp "$work/try.trace" "$work/smoke.trace"
    echo "ok: ${*:2}"
  else
    echo "NOT OK, exit status $status: ${*:2}"
    tail -n 5 "$work/try.log"
  fi
  return "$status"
}

# Every kind of transfer, launch and precision, each byte of each message checked: the simplest
# first. $work/failed names those that do not work.
try_all() {
  local transfers launch precision
  for transfers in priced copy nccl; do
    for launch in direct gated graph; do
      try "$work/smoke.csv" --transfers "$transfers" --launch "$launch" --payload full ||
        echo "$transfers $launch" >>"$work/failed"
    done
  done
  for precision in fp32 fp16 bf16 fp8; do
    try "$work/gemm-2.csv" --compute gemm --precision "$precision" ||
      echo "$precision" >>"$work/failed"
  done
  [ ! -e "$work/failed" ]
}

# lower SUITE NAME ARGS...: the first of its runs whose name holds that, as a Program.
lower() {
  "$tandem" schedule "$here/$1.toml" --only "$2" --format program "${@:3}"
}

# curve TRANSFERS: sizes and times of a transfer to oneself, as "bytes us GB/s".
curve() {
  local fit=()
  [ "$1" != "$transfers" ] || fit=(--fit "$out/links.toml")
  within 120 "$tandem" bench comm --cluster "$here/spin.toml" --ranks 2 --backend cuda --share-gpu \
    --transfers "$1" --op p2p -b 64K -e 256M -f 4 -n 10 -w 2 "${fit[@]}" >"$work/$1.txt"
  awk '!/^#/ && NF >= 8 {print $1, $6, $7}' "$work/$1.txt" >"$work/$1"
}

copy_curve() {
  curve copy
  [ "$transfers" = nccl ] || return 0
  curve nccl
  {
    echo "bytes,nccl_us,nccl_GBps,copy_us,copy_GBps"
    join <(sort "$work/nccl") <(sort "$work/copy") | sort -n | tr ' ' ','
  } >"$out/copy.csv"
}

# calibrate P: the parts of gemm.toml's model on a P-th of the GPU, all P of them at work.
calibrate() {
  lower gemm "1f1b, on, P=$1" >"$work/gemm-$1.csv"
  within 120 "$tandem" calibrate device "$work/gemm-$1.csv" --backend cuda --share-gpu \
    --transfers "$transfers" --iterations "$iterations" -o "$out/costs-$1.csv"
}

# suite NAME ONLY ARGS...: its runs whose name holds ONLY; appends to $out/NAME.csv and
# $work/NAME.md. Exit status 1 where a bound is missed.
suite() {
  local name=$1 only=$2 status=0 links=()
  shift 2
  [ ! -e "$out/links.toml" ] || links=(--set cluster.calibration="$out/links.toml")
  within 240 "$tandem" validate "$here/$name.toml" --only "$only" --iterations "$iterations" "$@" \
    --set validate.transfers="$transfers" "${links[@]}" --csv "$work/rows.csv" \
    --page "$work/page.md" || status=$?
  [ -e "$work/rows.csv" ] || return "$((status > 0 ? status : 1))"
  if [ -e "$out/$name.csv" ]; then
    tail -n +2 "$work/rows.csv" >>"$out/$name.csv"
    grep '^|' "$work/page.md" | tail -n +3 >>"$work/$name.md"
  else
    cp "$work/rows.csv" "$out/$name.csv"
    grep '^|' "$work/page.md" >"$work/$name.md"
  fi
  grep '^- ' "$work/page.md" >>"$work/faults.md" || true
  rm "$work/rows.csv" "$work/page.md"
  return "$status"
}

# suite_gemm P: with what its calibration has measured, if it has.
suite_gemm() {
  local table=()
  [ ! -e "$out/costs-$1.csv" ] ||
    table=(--set costs.source=table --set costs.table="$out/costs-$1.csv")
  suite gemm "${only:-P=$1}" "${table[@]}"
}

# The most streams, without NCCL's: they share queues of the device, and may hold each other up.
compare_copies() {
  within 240 "$tandem" validate "$here/spin.toml" --only P=8 --iterations "$iterations" \
    --set validate.transfers=copy || echo "(no bound is meant to hold here)"
}

# Launched directly: under the sanitizer a launch may wait for kernels that a gate holds. What CUDA's
# libraries ask for and do not get is no error of ours.
sanitize() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "left out: compute-sanitizer is not in PATH" | tee "$work/sanitized"
    return
  fi
  echo "NOT clean" >"$work/sanitized"
  within 200 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 99 \
    "$tandem" run "$work/gemm-2.csv" --backend cuda --share-gpu --compute gemm --launch direct \
    --iterations 1 --timeout 150 >"$work/sanitizer.log" 2>&1 || {
    tail -n 40 "$work/sanitizer.log"
    return 1
  }
  echo "clean: $(compute-sanitizer --version | grep -o 'Version [^ ]*' || true)" |
    tee "$work/sanitized"
}

# worst COLUMN SUITE: the largest amount of a column, in percent or points.
worst() {
  [ -e "$out/$2.csv" ] || { echo none; return; }
  awk -F, -v column="$1" '
    NR == 1 { for (i = 1; i <= NF; ++i) if ($i == column) at = i; next }
    $at != "" { v = 100 * $at; if (v < 0) v = -v; if (v > most) most = v }
    END { if (NR > 1) printf "%.2f", most; else printf "none" }' "$out/$2.csv"
}

figures() {
  echo "| largest difference over all runs | bound | spin | gemm |"
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

page() {
  local facts
  facts="nothing: no run ended well"
  [ ! -e "$work/smoke.trace" ] || facts=$(sed -n 's/^# real: //p' "$work/smoke.trace" | head -n 1)
  echo "# One GPU, $(date -u +%F)"
  echo
  echo "Written by \`validation/gpu/run.sh\`; [validation.md](../../../docs/validation.md#on-a-gpu)"
  echo "says what it shows. Commit: $(git -C "$source_dir" rev-parse --short HEAD 2>/dev/null ||
    echo unknown). $(uname -sr), $(nproc) cores. Iterations a run: $iterations."
  echo
  echo "Played by: $facts"
  echo
  if [ ${#missed[@]} -eq 0 ]; then echo "**All bounds hold.**"; else
    printf '**Missed:**\n\n'
    printf -- '- %s\n' "${missed[@]}"
    if [ -s "$work/failed" ]; then sed 's/^/- small run: /' "$work/failed"; fi
    if [ -s "$work/faults.md" ]; then cat "$work/faults.md"; fi
  fi
  printf '\n'
  figures
  printf '\nSmall run under compute-sanitizer, memcheck: %s. All took %d s.\n' \
    "$(cat "$work/sanitized")" "$SECONDS"
  printf '\n## Spin\n\n'; cat "$work/spin.md" 2>/dev/null || echo "None."
  printf '\n## GEMM\n\n'; cat "$work/gemm.md" 2>/dev/null || echo "None."
  printf '\n## A transfer to oneself\n\nNCCL, and the copy engine beside it. No bus bandwidth: one '
  printf 'GPU has no bus.\n\n| bytes | NCCL us | GB/s | copy us | GB/s |\n|---:|---:|---:|---:|---:|\n'
  [ ! -e "$out/copy.csv" ] || tail -n +2 "$out/copy.csv" | sed 's/,/ | /g; s/^/| /; s/$/ |/'
}

if [ -n "${TANDEM:-}" ]; then
  tandem=$(readlink -f "$TANDEM")
else
  say "build (preset executor)"
  build
  tandem=$source_dir/build/executor/tandem
fi

# The system's libraries first.
if "$tandem" doctor | grep -qE '^backend cuda .*lib(nccl|cublasLt)'; then
  LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(wheels '*/lib' | paste -sd:) || true
  export LD_LIBRARY_PATH
fi
lower spin '1f1b, on, P=2' >"$work/smoke.csv"
lower gemm '1f1b, on, P=2' >"$work/gemm-2.csv"
step "this machine, and a small run" examine
! grep -qs '^NOT OK, exit status 3' "$out/log" || exit 3
step "small runs in every way" try_all
transfers=nccl
if grep -qs '^nccl gated' "$work/failed" && ! grep -qs '^copy gated' "$work/failed"; then
  transfers=copy
fi
step "a transfer to oneself, by NCCL and by a copy" copy_curve
for p in "${stages[@]}"; do
  step "suite spin, P=$p" suite spin "${only:-P=$p}"
  step "what the parts of a model take on 1/$p of the GPU" calibrate "$p"
  step "suite gemm, P=$p" suite_gemm "$p"
done
step "a small run under compute-sanitizer" sanitize
[ -n "$only" ] || step "to compare: suite spin, P=8, by copies" compare_copies
page >"$out/results.md"
say "wrote $out/results.md"
if [ ${#missed[@]} -gt 0 ]; then printf 'missed: %s\n' "${missed[@]}" >&2; exit 1; fi
