#!/usr/bin/env bash
# One whole check of the engine target on one machine, in under eight minutes: smoke, overhead, the rollback audit, a short hunt
# inside the engine, and the corpus's confirmed cases again. Writes one JSON file; each part has its own limit, and a part that the
# time doesn't suffice for is `skipped`, not passed.
#
#   scripts/gpu_check.sh --device cuda --out gpu_check.json
#   scripts/gpu_check.sh --device cpu                          proves the script itself where there is no GPU
#
# PYTHON=   the interpreter of an environment with fuzzkv and its engine (default: .venv's, else python3)
set -uo pipefail
from=$PWD
cd "$(dirname "$0")/.."

device=cuda out=gpu_check.json budget=470
while [ $# -gt 0 ]; do
  case $1 in
    --device | --out | --seconds)
      [ $# -gt 1 ] || { echo "FKV030: $1: it needs a value." >&2; exit 2; }
      case $1 in --device) device=$2 ;; --out) out=$2 ;; --seconds) budget=$2 ;; esac
      shift 2 ;;
    *) echo "FKV030: $1: no such option. Use --device cpu|cuda, --out FILE, --seconds N." >&2; exit 2 ;;
  esac
done
case $device in cpu | cuda) ;; *) echo "FKV056: $device: choose cpu or cuda." >&2; exit 2 ;; esac
case $out in /*) ;; *) out=$from/$out ;; esac
python=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
begin=$SECONDS
: > "$work/parts"

# part NAME LIMIT EXPECTED-EXITS COMMAND...: run it for at most so many seconds, keep its last lines.
part() {
  local name=$1 limit=$2 expected=$3 left=$((budget - (SECONDS - begin))) start=$SECONDS code verdict
  shift 3
  if [ "$left" -lt 20 ]; then
    verdict=skipped code=-1
    : > "$work/$name.log"
  else
    echo "== $name: $*"
    timeout --kill-after=5 "$((left < limit ? left : limit))" "$@" > "$work/$name.log" 2>&1
    code=$?
    verdict=failed
    case " $expected " in *" $code "*) verdict=passed ;; esac
    case $code in 124 | 137) verdict=late ;; esac  # 137: it had to be killed
    tail -4 "$work/$name.log"
  fi
  echo "   $verdict (exit $code, $((SECONDS - start)) s)"
  printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$verdict" "$code" "$((SECONDS - start))" "$*" >> "$work/parts"
}

fuzzkv=("$python" -m fuzzkv)
part doctor 60 "0" "${fuzzkv[@]}" doctor --no-color
part overhead 120 "0" "$python" -m bench.engine --device "$device" --quick --json "$work/overhead.json"
part smoke 90 "0 1" "${fuzzkv[@]}" hunt --target vllm --device "$device" --policies vllm:offload-lru,vllm:prefix-cache \
  --max-time 40s --corpus "$work/corpus" --no-color
part rollback 60 "0" "${fuzzkv[@]}" audit rollback --engine vllm --model tiny --max-time 50s --no-color
# Exit 1: the case still fails on this engine, which is what confirms it.
for label in S2 S1 S7; do
  part "confirm-$label" 150 "1" "${fuzzkv[@]}" replay "$label" --target vllm --device "$device" --no-color
done

"$python" - "$work" "$out" "$device" "$((SECONDS - begin))" <<'END'
import json, platform, sys
from pathlib import Path

from fuzzkv.core.files import atomic_write
from fuzzkv.targets.vllm.replay.engine import installed

work, out, device, seconds = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
parts = []
for line in (work / "parts").read_text().splitlines():
    name, verdict, code, took, command = line.split("\t")
    said = (work / f"{name}.log").read_text(errors="replace").replace(str(work), "WORK")
    said = said.replace(str(Path.home()), "~").splitlines()
    parts.append({"name": name, "verdict": verdict, "exit": int(code), "seconds": int(took),
                  "command": command.replace(str(work), "WORK").replace(sys.executable, "python"), "said": said[-12:]})
name = "cpu"
if device == "cuda":
    import torch

    name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"
overhead = work / "overhead.json"
result = {"device": device, "device_name": name, "engine": installed(), "python": platform.python_version(), "seconds": seconds,
          "overhead": json.loads(overhead.read_text()) if overhead.exists() else None, "parts": parts}
atomic_write(out, (json.dumps(result, indent=1) + "\n").encode())
bad = [p["name"] for p in parts if p["verdict"] != "passed"]
print(f"{len(parts) - len(bad)} of {len(parts)} parts passed in {seconds} s; written to {out}" + (f"; not passed: {', '.join(bad)}" if bad else ""))
sys.exit(1 if any(p["verdict"] == "failed" for p in parts) else 3 if bad else 0)
END
