#!/usr/bin/env bash
# The real guest on real kvm_amd, nested in an emulator: works without /dev/kvm.
#
#   tests/nested.sh [BUILD_DIR]     default: build/ beside this folder
#
# An initramfs holds the static VMM, the guest and the modules of Debian's
# cloud kernel, which is downloaded and unpacked, never installed; all of it
# stays in BUILD_DIR/nested for the next run. QEMU without acceleration boots
# it on ONE processor that has SVM: with more, its SVM is not reliable.
#
# Prints the kernel's version, then PASS or FAIL for each run. Status 77 with a
# last line that says what is missing, if something is.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:-$top/build}
if ! build=$(cd "$build" 2>/dev/null && pwd); then
    echo "FAIL nested: no build folder ${1:-$top/build} (meson setup makes one)"
    exit 1
fi
vmm=$build/examples/kvm_vmm_static
guest=$build/examples/guest/guest.elf
cache=$build/nested
meta=linux-image-cloud-amd64
seconds=600 # for all runs together, on a busy machine

skip() {
    echo "nested: did not run: $*"
    exit 77
}

fail() {
    echo "FAIL nested: $*"
    exit 1
}

tools_check() {
    local pair missing=()
    for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static \
        cpio:cpio apt-get:apt dpkg-deb:dpkg; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
    done
    [ ${#missing[@]} -eq 0 ] ||
        skip "missing packages: ${missing[*]} (apt-get install them)"
    # A dynamic busybox would look for its libraries in the initramfs.
    if ldd "$(command -v busybox)" >/dev/null 2>&1; then
        skip "busybox is not the static one: apt-get install busybox-static"
    fi
}

# The package that the meta package stands for today: linux-image-6.1.0-N-...
kernel_package() {
    apt-cache depends "$meta" 2>/dev/null |
        sed -n 's/^ *Depends: *\(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1
}

kernel_get() {
    local package
    if [ -e "$cache/kernel/complete" ]; then
        return
    fi
    package=$(kernel_package)
    if [ -z "$package" ] && [ "$(id -u)" -eq 0 ]; then
        apt-get -q update >/dev/null 2>&1
        package=$(kernel_package)
    fi
    [ -n "$package" ] ||
        skip "apt knows no $meta: run apt-get update as root, with network"
    rm -rf "$cache/kernel" "$cache/download"
    mkdir -p "$cache/kernel" "$cache/download"
    (cd "$cache/download" &&
        apt-get -q -o APT::Sandbox::User=root download "$package") \
        >"$cache/download.log" 2>&1 ||
        skip "cannot download $package: $(tail -n 1 "$cache/download.log")"
    dpkg-deb -x "$cache"/download/*.deb "$cache/kernel" ||
        fail "cannot unpack $package"
    rm -rf "$cache/download"
    touch "$cache/kernel/complete"
}

# A module of the unpacked kernel, plain, in the initramfs, behind those that
# it needs; its place in the order goes to etc/modules. The package has no
# modules.dep, so the module's own "depends=" is read.
module_add() { # NAME
    local name=${1//-/_} path needs need
    grep -qx "$name" "$cache/root/etc/modules" && return
    path=$(find "$cache/kernel" -name "${name//_/[-_]}.ko*" | head -n 1)
    [ -n "$path" ] || fail "the kernel has no module $name"
    case $path in
    *.xz) xz -dc "$path" ;;
    *.zst) zstd -dc "$path" ;;
    *) cat "$path" ;;
    esac >"$cache/root/lib/$name.ko" || fail "cannot unpack module $name"
    needs=$(tr '\0' '\n' <"$cache/root/lib/$name.ko" | sed -n 's/^depends=//p')
    for need in ${needs//,/ }; do
        module_add "$need"
    done
    echo "$name" >>"$cache/root/etc/modules"
}

initramfs_make() {
    local root=$cache/root
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,etc,lib,proc,sys,tmp}
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$vmm" "$root/bin/kvm_vmm"
    cp "$guest" "$root/guest.elf"
    cp "$top/tests/kvm_guest_runs.sh" "$root/runs.sh"
    : >"$root/etc/modules"
    module_add kvm-amd # irqbypass, kvm and, in some kernels, ccp before it
    cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /etc/modules); do
    insmod /lib/$module.ko || echo "nested: insmod $module failed"
done
echo "nested: Linux $(uname -r), kvm_amd $([ -c /dev/kvm ] && echo up || echo DOWN)"
. /runs.sh
guest_runs nested /bin/kvm_vmm /guest.elf
echo "nested: status $?"
poweroff -f
INIT
    chmod +x "$root/init"
    (cd "$root" && find . | cpio --quiet -o -H newc) >"$cache/initramfs" ||
        fail "cannot make the initramfs"
}

boot() {
    timeout --foreground "$seconds" qemu-system-x86_64 -accel tcg -smp 1 \
        -cpu max,+svm -m 1024 -kernel "$1" -initrd "$cache/initramfs" \
        -append "console=ttyS0 quiet loglevel=1 panic=-1" \
        -nodefaults -display none -serial stdio -no-reboot </dev/null |
        tr -d '\r' | tee "$cache/console.log" | grep -e '^nested' -e '^PASS' \
        -e '^FAIL' -e '^    '
}

tools_check
for file in "$vmm" "$guest"; do
    [ -e "$file" ] || fail "$file is not built (meson compile -C $build)"
done
mkdir -p "$cache"
kernel_get
initramfs_make
kernel=$(find "$cache/kernel/boot" -name 'vmlinuz-*' | head -n 1)
[ -n "$kernel" ] || fail "the kernel package has no vmlinuz"
boot "$kernel"
if ! grep -q '^nested: status' "$cache/console.log"; then
    fail "the emulated machine did not finish; see $cache/console.log"
fi
grep -q '^nested: status 0$' "$cache/console.log"
