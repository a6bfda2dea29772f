#!/usr/bin/env bash
# Every GPU check and benchmark in one go, in under 8 minutes, on a machine without network.
#
#   tests/gpu/all.sh [WHEELS] [OUT]
#
# WHEELS: a folder of wheels that the machine's Python lacks (simpy, mpich, ...); unpacked aside, never into it.
# OUT: where results.json, results.txt and a log of each step go; gpu-results unless said.
# PYTHON: the Python to use. ONLY="card speed": these steps alone. DEVICE=cpu: try every step without a GPU, played on the host; its figures mean nothing.
#
# A step that fails is reported, and the rest still run. Status: 0 all done, 1 some step failed, 2 no GPU or bad input.
set -uo pipefail
cd "$(dirname "$0")/../.."

WHEELS=${1:-} OUT=${2:-gpu-results} PYTHON=${PYTHON:-python3} DEVICE=${DEVICE:-gpu}
LIMIT=470 # seconds for all steps together

refuse() {
  echo "all.sh: error: $*" >&2
  exit 2
}

command -v "$PYTHON" > /dev/null || refuse "no Python called $PYTHON: say PYTHON=..."
[ "$DEVICE" = gpu ] || [ "$DEVICE" = cpu ] || refuse "DEVICE is gpu or cpu, got $DEVICE"
[ -z "$WHEELS" ] || [ -d "$WHEELS" ] || refuse "no folder $WHEELS of wheels"
mkdir -p "$OUT" || refuse "$OUT cannot be written"
OUT=$(cd "$OUT" && pwd)

SITE=$(mktemp -d)
trap 'rm -rf "$SITE"' EXIT
if [ -n "$WHEELS" ]; then
  why=$("$PYTHON" tests/gpu/unpack.py "$WHEELS" "$SITE" 2>&1) || refuse "wheels: $(echo "$why" | tail -1)"
fi
export PYTHONPATH="$PWD:$SITE${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 OPENBLAS_NUM_THREADS=1
export HYDRA_LAUNCHER=fork MPIR_CVAR_ENABLE_HEAVY_YIELD=1 # ranks share the cores of one machine
export NUMBA_CACHE_DIR="$SITE/numba" CUPY_CACHE_DIR="$SITE/cupy"
MPIEXEC=$(command -v "$SITE/bin/mpiexec" || command -v "$(dirname "$(command -v "$PYTHON")")/mpiexec" || command -v mpiexec)
for library in "$SITE"/lib/libmpi.so.*; do
  [ -e "$library" ] && export MPI4PY_LIBMPI=$library LD_LIBRARY_PATH="$SITE/lib:${LD_LIBRARY_PATH:-}" && break
done

if [ "$DEVICE" = gpu ]; then
  why=$("$PYTHON" -c 'from executor.gpu.visible import require; require()' 2>&1) ||
    refuse "$(echo "$why" | tail -1 | sed 's/^[A-Za-z_.]*: //')"
  PLAY='' ON='--device gpu'
else
  PLAY=--play ON='--device cpu'
fi

export OUT
exec > >(tee "$OUT/results.txt") 2>&1
echo "ringloom on a GPU: $("$PYTHON" --version), mpiexec ${MPIEXEC:-missing}, device $DEVICE"
: > "$OUT/steps.jsonl"

# step NAME SECONDS STATUS COMMAND...: run one step; STATUS is what it should end with.
step() {
  local name=$1 limit=$2 expected=$3 status begin=$SECONDS left=$((LIMIT - SECONDS))
  shift 3
  [[ -z "${ONLY:-}" || " $ONLY " == *" $name "* ]] || return 0
  [ "$limit" -le "$left" ] || limit=$left
  echo "== $name: $*"
  if [ "$limit" -lt 5 ]; then
    status=skipped
    echo "skipped: $LIMIT seconds are over"
    : > "$OUT/$name.log"
  else
    timeout -k 5 "$limit" "$@" > "$OUT/$name.log" 2>&1
    status=$?
    tail -n 40 "$OUT/$name.log"
  fi
  NAME=$name STATUS=$status EXPECTED=$expected TOOK=$((SECONDS - begin)) WORDS="$*" "$PYTHON" tests/gpu/note.py
}

bench() { step "$1" "$2" 0 "$PYTHON" -m tests.gpu.bench "$1" $PLAY; }
check() { # NAME SECONDS STATUS RANKS WORDS...
  local name=$1 limit=$2 expected=$3 ranks=$4
  shift 4
  step "$name" "$limit" "$expected" "$MPIEXEC" -n "$ranks" "$PYTHON" -m executor.commands check "$@" $ON
}
[ "$DEVICE" = gpu ] && TRANSPORT=(--transport staged) || TRANSPORT=()

bench card 40
bench exact 90
step local 60 0 "$PYTHON" -m executor.commands check all --local 4 --mask causal --layout zigzag $ON
bench speed 70
bench flash 40
if [ -n "$MPIEXEC" ]; then
  for ranks in 1 2 4; do
    check "check-$ranks" 45 0 "$ranks" ring attention2d tree --mask both "${TRANSPORT[@]}"
    step "programs-$ranks" 40 0 "$MPIEXEC" -n "$ranks" "$PYTHON" -m tests.gpu.bench programs $PLAY
  done
  check auto-2 40 0 2 ring --mask causal
  if [ "$DEVICE" = gpu ]; then
    several=$("$PYTHON" -c 'import cupy; print(int(cupy.cuda.runtime.getDeviceCount() > 1))')
    aware=$("$PYTHON" -c 'from executor.gpu.transports.cuda_aware import support; print(int(bool(support())))')
    check nccl-1 40 0 1 ring attention2d --mask causal --transport nccl
    check nccl-2 40 $((several ? 0 : 2)) 2 ring attention2d --mask causal --transport nccl
    check cuda-aware-2 40 $((aware ? 0 : 2)) 2 ring attention2d --mask causal --transport cuda-aware
    check bfloat16-2 40 0 2 ring --mask causal --dtype bf16 --transport staged
    CUPY_TF32=1 check tf32-refused 20 2 1 ring --mask causal
  fi
else
  echo "no mpiexec: ranks are not tried; a wheel of mpich in WHEELS brings one"
fi
step tests 60 0 "$PYTHON" -m pytest -q -n 0 -p no:cacheprovider -m gpu tests/gpu
bench glue 20
bench tiles 60

"$PYTHON" tests/gpu/note.py
