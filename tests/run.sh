#!/usr/bin/env bash
# Builds the release in build/ and runs every test suite.
#
#   ./tests/run.sh [meson test argument]...    e.g. --suite unit
#
# Installs what is missing first (root or sudo) and says what. The last line is
# `N passed, N failed`, where a cmocka test counts by itself and any other test
# program as one; the exit status is not 0 if anything failed or did not build.
set -u
AE_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$AE_TOP/scripts/packages.sh"
. "$AE_TOP/scripts/build.sh"

need_packages build
totals() { python3 "$AE_TOP/scripts/test_totals.py" "$@"; }
log=$AE_TOP/build/meson-logs/testlog.json

if ! release_build; then
    echo "The build failed: no test ran."
    echo "0 passed, 1 failed"
    exit 1
fi

rm -f "$log"
# On Ctrl-C meson ends its tests; what had ended by then is still counted.
interrupted=0
trap 'interrupted=1' INT
# A busy machine is no failure: three times the time that each test asks for.
meson test -C "$AE_TOP/build" --no-rebuild --timeout-multiplier 3 "$@"
tests_rc=$?
trap - INT

# A run that selected nothing, or a log that meson could not write, is no
# success: then meson's exit status is all there is.
totals "$log"
rc=$?
[ "$interrupted" -eq 0 ] || rc=130
[ "$rc" -ne 0 ] || [ "$tests_rc" -eq 0 ] || rc=$tests_rc
exit "$rc"
