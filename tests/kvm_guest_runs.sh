# Runs of the real guest. Sourced by kvm_guest.sh and, in an initramfs, by the
# init of nested.sh: plain POSIX sh, as busybox has it.
#
#   guest_runs LABEL VMM GUEST     status 0 if every run passed

guest_run() { # LABEL VMM GUEST OPTION...: one run, one line
    _label=$1 _vmm=$2 _guest=$3
    shift 3
    _log=${TMPDIR:-/tmp}/guest.$$.log
    "$_vmm" --timeout 120 "$@" "$_guest" >"$_log" 2>&1
    _rc=$?
    _said=$(grep '^guest: .* passed' "$_log")
    if [ $_rc -eq 0 ] && [ -n "$_said" ]; then
        echo "PASS $_label: $*: $_said"
    else
        echo "FAIL $_label: $*: status $_rc, ${_said:-the guest did not finish}"
        # Indented: these are its tests, not ours.
        grep -v -e '^PASS' -e '^SKIP' "$_log" | sed 's/^/    /'
    fi
    rm -f "$_log"
    [ $_rc -eq 0 ] && [ -n "$_said" ]
}

guest_runs() {
    _bad=0
    for _cpus in 1 2 4; do
        guest_run "$@" --cpus $_cpus || _bad=1
    done
    guest_run "$@" --cpus 4 --id-step 16 || _bad=1
    guest_run "$@" --cpus 2 --personality intel || _bad=1
    guest_run "$@" --cpus 2 --personality kvm || _bad=1
    guest_run "$@" --cpus 2 --bus-hz 1000000000 || _bad=1
    return $_bad
}
