#!/usr/bin/env bash
# Validates the cuda backend and the simulator on one GPU: builds, calibrates, runs the suites spin
# and gemm, and writes what came out. docs/validation.md says what that shows and what it does not.
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
miss() { missed+=("$*"); say "NOT OK: $*"; }
cannot() { echo "$*" >&2; exit 3; }

mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() {
  for tool in cmake c++; do
    command -v "$tool" >/dev/null || cannot "$tool is missing; TANDEM=PROGRAM needs no build"
  done
  if command -v ninja >/dev/null; then export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}; fi
  (
    cd "$source_dir"
    cmake --preset executor && cmake --build --preset executor -j "$(nproc)"
  ) >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log" >&2; exit 1; }
}

# What tandem doctor says of GPUs, and a first run; exit status 3 where there is none.
examine() {
  "$tandem" doctor >"$work/doctor"
  grep -E '^(backend cuda|NVIDIA driver|NCCL) ' "$work/doctor" || true
  "$tandem" run "$work/smoke.csv" --backend cuda --share-gpu --iterations 2 \
    --trace "$work/smoke.trace" >"$work/smoke.log" 2>&1 || {
    local status=$?
    tail -n 5 "$work/smoke.log" >&2
    exit "$status"
  }
}

# lower SUITE NAME ARGS...: the first of its runs whose name holds that, as a Program.
lower() {
  "$tandem" schedule "$here/$1.toml" --only "$2" --format program "${@:3}"
}

# curve TRANSFERS: sizes and times of a transfer to oneself, as "bytes us GB/s".
curve() {
  local fit=()
  [ "$1" != nccl ] || fit=(--fit "$out/links.toml")
  "$tandem" bench comm --cluster "$here/spin.toml" --ranks 2 --backend cuda --share-gpu \
    --transfers "$1" --op p2p -b 64K -e 256M -f 4 -n 10 -w 2 "${fit[@]}" >"$work/$1.txt"
  awk '!/^#/ && NF >= 8 {print $1, $6, $7}' "$work/$1.txt" >"$work/$1"
}

copy_curve() {
  curve nccl
  curve copy
  {
    echo "bytes,nccl_us,nccl_GBps,copy_us,copy_GBps"
    join <(sort "$work/nccl") <(sort "$work/copy") | sort -n | tr ' ' ','
  } >"$out/copy.csv"
}

# calibrate P: the parts of gemm.toml's model on a P-th of the GPU, all P of them at work.
calibrate() {
  lower gemm "1f1b, on, P=$1" >"$work/gemm-$1.csv"
  "$tandem" calibrate device "$work/gemm-$1.csv" --backend cuda --share-gpu \
    --iterations "$iterations" -o "$out/costs-$1.csv" >"$work/calibrate.log" || {
    local status=$?
    cat "$work/calibrate.log" >&2
    exit "$status"
  }
}

# suite NAME ONLY ARGS...: its runs whose name holds ONLY; appends to $work/NAME.csv and
# $work/NAME.md. A bound that is missed is told.
suite() {
  local name=$1 only=$2 status=0
  shift 2
  "$tandem" validate "$here/$name.toml" --only "$only" --iterations "$iterations" "$@" \
    --set cluster.calibration="$out/links.toml" --csv "$work/rows.csv" --page "$work/page.md" ||
    status=$?
  [ "$status" -le 1 ] || exit "$status"
  [ "$status" -eq 0 ] || miss "suite $name${only:+, $only}"
  [ -e "$work/rows.csv" ] || exit 1
  if [ -e "$work/$name.csv" ]; then
    tail -n +2 "$work/rows.csv" >>"$work/$name.csv"
    grep '^|' "$work/page.md" | tail -n +3 >>"$work/$name.md"
  else
    cp "$work/rows.csv" "$work/$name.csv"
    grep '^|' "$work/page.md" >"$work/$name.md"
  fi
  grep '^- ' "$work/page.md" >>"$work/faults.md" || true
  rm "$work/rows.csv" "$work/page.md"
}

sanitize() {
  if ! command -v compute-sanitizer >/dev/null; then
    sanitized="skipped: compute-sanitizer is not in PATH"
  elif compute-sanitizer --tool memcheck --error-exitcode 99 "$tandem" run "$work/gemm-2.csv" \
    --backend cuda --share-gpu --compute gemm --iterations 1 --timeout 300 \
    >"$work/sanitizer.log" 2>&1; then
    sanitized="clean: $(compute-sanitizer --version | grep -o 'Version [^ ]*' | head -n 1)"
  else
    sanitized="NOT clean"
    tail -n 40 "$work/sanitizer.log" >&2
    miss "compute-sanitizer memcheck"
  fi
}

# worst COLUMN SUITE: the largest amount of a column, in percent or points.
worst() {
  awk -F, -v column="$1" '
    NR == 1 { for (i = 1; i <= NF; ++i) if ($i == column) at = i; next }
    $at != "" { v = 100 * $at; if (v < 0) v = -v; if (v > most) most = v }
    END { printf "%.2f", most }' "$work/$2.csv"
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
  facts=$(sed -n 's/^# real: //p' "$work/smoke.trace" | head -n 1)
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
    if [ -s "$work/faults.md" ]; then cat "$work/faults.md"; fi
  fi
  printf '\n'
  figures
  printf '\nSmall run under compute-sanitizer, memcheck: %s. All took %d s.\n' "$sanitized" "$SECONDS"
  printf '\n## Spin\n\n'; cat "$work/spin.md"
  printf '\n## GEMM\n\n'; cat "$work/gemm.md"
  printf '\n## A transfer to oneself\n\nNCCL, and the copy engine beside it. No bus bandwidth: one '
  printf 'GPU has no bus.\n\n| bytes | NCCL us | GB/s | copy us | GB/s |\n|---:|---:|---:|---:|---:|\n'
  tail -n +2 "$out/copy.csv" | sed 's/,/ | /g; s/^/| /; s/$/ |/'
}

if [ -n "${TANDEM:-}" ]; then
  tandem=$(readlink -f "$TANDEM")
else
  say "build (preset executor)"
  build
  tandem=$source_dir/build/executor/tandem
fi

say "this machine"
lower spin '1f1b, on, P=2' >"$work/smoke.csv"
examine

say "a transfer to oneself, by NCCL and by a copy"
copy_curve

say "suite spin"
suite spin "$only"

for p in "${stages[@]}"; do
  say "what the parts of a model take on 1/$p of the GPU"
  calibrate "$p"
  say "suite gemm, P=$p"
  suite gemm "${only:-P=$p}" --set costs.source=table --set costs.table="$out/costs-$p.csv"
done

say "a small run under compute-sanitizer"
sanitize

cp "$work/spin.csv" "$work/gemm.csv" "$out"
page >"$out/results.md"
say "wrote $out/results.md"
if [ ${#missed[@]} -gt 0 ]; then printf 'missed: %s\n' "${missed[@]}" >&2; exit 1; fi
