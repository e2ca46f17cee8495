#!/usr/bin/env bash
# break.sh PROGRAM: with one mode's reductions changed on purpose, the search must fail, name the mode, and cut the program down.
set -euo pipefail
said=$("$1" --seeds 1..20 --break reduction) && { echo "nothing was found"; exit 1; }
grep -q 'mode "blocks"' <<<"$said" || { echo "$said"; exit 1; }
grep -q 'reduction [0-9] of v' <<<"$said" || { echo "$said"; exit 1; }
lines=$(sed -n '/What still fails/,/What still fails/p' <<<"$said" | grep -c 'bt_array \*v' || true)
[ "$lines" -le 6 ] || { echo "still $lines instructions:"; echo "$said"; exit 1; }

said=$("$1" --loops --seeds 1..6 --break scan) && { echo "nothing was found among loops"; exit 1; }
grep -q 'mode "blocks"' <<<"$said" || { echo "$said"; exit 1; }
first=$(sed -n '/What still fails/,/^seed/p' <<<"$said" | sed '1d; /^seed/,$d')
grep -q 'scan.* of [1-9] steps' <<<"$first" || { echo "$said"; exit 1; }
lines=$(grep -c ' of v' <<<"$first" || true)
[ "$lines" -le 2 ] || { echo "still $lines operations:"; echo "$said"; exit 1; }
