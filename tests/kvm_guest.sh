#!/usr/bin/env bash
# A real guest on /dev/kvm, all its APICs from this library.
#
#   tests/kvm_guest.sh [BUILD_DIR]     default: build/ beside this folder
#
# One line PASS or FAIL for each run, with what the guest said last; a run that
# failed shows the guest's FAIL lines, too. Where /dev/kvm does not open: one
# line that says so, and status 77.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:-$top/build}
vmm=$build/examples/kvm_vmm
guest=$build/examples/guest/guest.elf
. "$top/tests/kvm_guest_runs.sh"

for file in "$vmm" "$guest"; do
    if [ ! -e "$file" ]; then
        echo "FAIL kvm: $file is not built (meson compile -C $build)"
        exit 1
    fi
done
if ! (exec 3<>/dev/kvm) 2>/dev/null; then
    echo "kvm: /dev/kvm does not open here, so the real guest did not run"
    exit 77
fi
guest_runs kvm "$vmm" "$guest"
