#!/usr/bin/env bash
# A 30-line client in a clean folder uses the library in every way a VMM may.
#
#   client.sh    (no argument; about half a minute)
#
# Installs a build of its own to a private prefix, then builds tests/abi/client.c
# against it by pkg-config: shared, static (what the linker needs is read back
# from the program), and in C++; last with the library as a meson subproject.
# Each program must print the same line.
set -eu
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/avicemu-client.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
want='the vCPU takes vector 41h'

# A client knows nothing of the caller's build; what meson sets for its tests
# must not leak in.
unset MESON_BUILD_ROOT MESON_SOURCE_ROOT MESON_SUBDIR DESTDIR LD_LIBRARY_PATH
unset MALLOC_PERTURB_ ASAN_OPTIONS UBSAN_OPTIONS

quietly() { # shows a step's output only if it fails
    "$@" >"$tmp/log" 2>&1 || { sed 's/^/| /' "$tmp/log"; return 1; }
}

expect() { # NAME COMMAND...: it prints the line
    local name=$1 have
    shift
    if ! have=$("$@" 2>&1) || [ "$have" != "$want" ]; then
        echo "$name: wanted '$want', got '$have'"
        return 1
    fi
    echo "$name: $have"
}

cp -r "$top/tests/abi/client.c" "$tmp/client.c"
quietly meson setup "$tmp/build" "$top" --buildtype=release \
    --prefix="$tmp/usr" --libdir=lib -Ddefault_library=both \
    -Dtests=false -Dbench=false -Dexamples=false
quietly meson install -C "$tmp/build"
rm -rf "$tmp/build" # whoever still needs it is not installed

export PKG_CONFIG_PATH=$tmp/usr/lib/pkgconfig
pc=avicemu
[ -f "$PKG_CONFIG_PATH/$pc.pc" ] || pc=libavicemu
for file in "$PKG_CONFIG_PATH"/*.pc; do
    pkg-config --exists --print-errors "$(basename "$file" .pc)"
    echo "installed: $(basename "$file") $(pkg-config --modversion \
        "$(basename "$file" .pc)")"
done

cd "$tmp"
read -ra shared <<<"$(pkg-config --cflags --libs $pc)"
cc -std=c11 -Wall -Wextra -Werror client.c "${shared[@]}" -o shared
expect "shared" env LD_LIBRARY_PATH="$tmp/usr/lib" ./shared
# The name a client is bound to is the soname; a wrong or missing one shows.
readelf -d shared | grep -q 'NEEDED.*libavicemu\.so\.[0-9]' || {
    echo "shared: not bound to libavicemu.so.N:"
    readelf -d shared | grep NEEDED
    exit 1
}

# C++ with a designated-initialiser client: C++20.
if command -v c++ >/dev/null; then
    c++ -x c++ -std=c++20 -Wall client.c -x none "${shared[@]}" -o cxx
    expect "C++" env LD_LIBRARY_PATH="$tmp/usr/lib" ./cxx
fi

# Static: with the shared library gone, --static alone must name everything.
# (--cflags too: a static client of a library with an inline seam needs them.)
rm -f "$tmp"/usr/lib/*.so*
read -ra static <<<"$(pkg-config --static --cflags --libs $pc)"
cc -std=c11 -Wall -Wextra -Werror client.c "${static[@]}" -o static
expect "static" ./static
if readelf -d static | grep -q 'NEEDED.*libavicemu'; then
    echo "static: still needs libavicemu.so"
    exit 1
fi
cc -std=c11 -static client.c "${static[@]}" -o all-static
expect "all static" ./all-static

# Subproject: the tree itself below subprojects/, found by dependency().
mkdir -p vmm/subprojects/avicemu
(cd "$top" && tar cf - --exclude=./.git --exclude='./build*' \
    --exclude=__pycache__ .) | tar xf - -C vmm/subprojects/avicemu
cp client.c vmm/
cat >vmm/meson.build <<EOF
project('vmm', 'c', default_options: ['c_std=c11'])
dep = dependency('$pc', fallback: 'avicemu',
    default_options: ['tests=false', 'bench=false', 'examples=false'])
executable('vmm', 'client.c', dependencies: dep)
EOF
unset PKG_CONFIG_PATH
quietly meson setup vmm/build vmm --wrap-mode=nodownload \
    --force-fallback-for="$pc"
quietly meson compile -C vmm/build vmm
expect "subproject" ./vmm/build/vmm
