#!/usr/bin/env bash
# From a fresh clone to the library at work.
#
#   ./examples/run.sh [SCENARIO.ini]
#
# Installs what is missing (root or sudo) and says what, builds the release in
# build/, boots a real guest on /dev/kvm with 1, 2 and 4 vCPUs, its interrupt
# controllers all this library's, then runs fio-12x32 on the mock host at pCPU
# to vCPU 1:1 to 1:4, with the library and two rivals in turn; or the scenario
# that is named, once. The last lines are the paths of what it left. Ctrl-C ends
# the part that runs.
set -u
AE_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$AE_TOP/scripts/packages.sh"
. "$AE_TOP/scripts/build.sh"

scenario=${1:-$AE_TOP/examples/scenarios/fio-12x32.ini}
if [ $# -eq 0 ]; then
    table=(--ratios 1:1,1:2,1:3,1:4 --designs spinlock_hash,rcu_hash,library)
else
    table=()
fi
results=$AE_TOP/build/results
bin=$AE_TOP/build/examples
vmm=$bin/kvm_vmm
left=()
rc=0

# The part in front gets Ctrl-C, too, and closes its books; then we end.
interrupted=0
trap 'interrupted=1' INT

need_packages build
if ! release_build; then
    echo "The build failed."
    exit 1
fi
mkdir -p "$results"

guest_with() { # VCPUS: the real guest; tee ignores Ctrl-C to see its end
    local log=$results/guest-$1.log
    printf '\n== A real guest with %d vCPU(s), no irqchip in the kernel\n' "$1"
    "$vmm" --cpus "$1" --timeout 120 "$bin/guest/guest.elf" | tee -i "$log"
    [ "${PIPESTATUS[0]}" -eq 0 ] || rc=1
    left+=("$log")
}

# A character device first: opening for both would make a file of nothing.
if [ -c /dev/kvm ] && (exec 3<>/dev/kvm) 2>/dev/null; then
    for vcpus in 1 2 4; do
        [ $interrupted -eq 0 ] && guest_with $vcpus
    done
else
    printf '\n== /dev/kvm does not open here: the real guest is left out\n'
fi

if [ $interrupted -eq 0 ]; then
    json=$results/$(basename "$scenario" .ini).json
    rm -f "$json"
    printf '\n== The mock host: %s\n' "$(basename "$scenario")"
    "$bin/avicemu-host" "${table[@]}" --json "$json" "$scenario" || rc=1
    [ ! -f "$json" ] || left+=("$json")
fi

[ $interrupted -eq 0 ] || rc=130
printf '\nLeft behind:\n'
[ ${#left[@]} -eq 0 ] || printf '%s\n' "${left[@]}"
exit $rc
