# shellcheck shell=bash
# Installs what is missing from sections of packages.list. Sourced, never run.
#
#   need_packages SECTION...
#
# Nothing missing: no output, no apt call. Otherwise one line that names the
# packages, then apt as root or through sudo. Without either: the one line that
# installs them, and exit 2.

packages_in() {
    awk -v want=" $* " '
        /^[[:space:]]*(#|$)/ { next }
        /^\[/ { gsub(/[][[:space:]]/, ""); on = index(want, " " $0 " "); next }
        on { print $1 }' "$AE_TOP/scripts/packages.list"
}

packages_missing() {
    local have
    # One query for all; a name that dpkg has never heard of is just absent.
    have=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" \
        2>/dev/null | sed -n 's/^installed //p' | sort -u)
    printf '%s\n' "$@" | sort -u | comm -23 - <(printf '%s\n' "$have")
}

packages_apt() {
    "$@" env DEBIAN_FRONTEND=noninteractive apt-get -q \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "${apt_args[@]}"
}

need_packages() {
    local wanted missing as_root apt_args line

    mapfile -t wanted < <(packages_in "$@")
    if ! command -v dpkg-query >/dev/null; then
        echo "No dpkg here: this needs what Debian 12 calls ${wanted[*]}"
        return 0
    fi
    mapfile -t missing < <(packages_missing "${wanted[@]}")
    [ "${#missing[@]}" -gt 0 ] || return 0

    line="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    if [ "$(id -u)" -eq 0 ]; then
        as_root=()
    elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true; } \
        2>/dev/null; then
        as_root=(sudo)
    else
        echo "Missing packages, and neither root nor sudo. As root, run:" >&2
        echo "$line" >&2
        exit 2
    fi

    echo "Installing: ${missing[*]}"
    # Lists can be stale although a foreign source fails to answer: the install
    # decides, not the update.
    apt_args=(update)
    packages_apt "${as_root[@]}" >/dev/null ||
        echo "apt-get update complained; trying to install anyway"
    apt_args=(install -y --no-install-recommends "${missing[@]}")
    if ! packages_apt "${as_root[@]}" </dev/null; then
        echo "Could not install. As root, run:" >&2
        echo "$line" >&2
        exit 2
    fi
}
