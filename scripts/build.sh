# shellcheck shell=bash
# Configures and builds a build folder. Sourced, never run.
#
#   build_in DIR [meson setup option]...   configure where needed, then build
#   release_build                          the one in build/ that users get
#
# A folder that belongs to another copy of the tree, or that another meson
# left half done, is made anew; one that is fine is only brought up to date.

build_usable() {
    [ -f "$1/build.ninja" ] && [ -f "$1/meson-private/coredata.dat" ] &&
        python3 "$AE_TOP/scripts/build_state.py" "$AE_TOP" "$@"
}

build_in() {
    local dir=$1 state=0
    shift

    build_usable "$dir" "$@" || state=$?
    if [ "$state" -eq 3 ]; then
        meson configure "$dir" "$@" || return
    elif [ "$state" -ne 0 ]; then
        # Only ever remove what meson made.
        if [ -e "$dir" ] && [ ! -d "$dir/meson-private" ] &&
            [ -n "$(ls -A "$dir")" ]; then
            echo "$dir exists and is no build folder; move it away" >&2
            return 1
        fi
        rm -rf "$dir"
        meson setup "$dir" "$AE_TOP" "$@" || return
    fi
    # CI wants every error of a build, not the first.
    meson compile -C "$dir" ${AE_KEEP_GOING:+--ninja-args=-k0}
}

release_build() {
    build_in "$AE_TOP/build" --buildtype=release -Db_ndebug=if-release \
        -Dtests=true -Dbench=true -Dexamples=true
}
