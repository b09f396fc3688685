#!/usr/bin/env python3
"""Includes run down the layers, and down the chain inside a layer.

base < hw < hv < api; a source file names its own header first; public headers
name public and C standard headers only; lib/mock and examples name no header
of the layers. A file that is in no chain is a finding: its place in the order
is a decision, taken below. An entry stands for NAME.[ch] and NAME_*.[ch];
NAME_impl.h is thus at NAME's place.
"""
import os
import re

import source

LAYERS = ["base", "hw", "hv", "api"]

# Bottom first. A file may include what stands before it, and its own entry.
CHAINS = {
    "base": ["compiler", "bits", "step", "atomic16", "atomic", "lock", "regs",
             "scale", "text", "alloc", "rcu", "log", "mem", "frame"],
    # memory side, then CPU side, then I/O side (which posts to CPU pages)
    "hw": ["tlb",
           "vapic", "timer", "model", "lapic", "dest", "idtable", "avic",
           "irte", "galog", "intcache", "iommu", "pic", "pit", "ioapic"],
    "hv": ["vmtag", "vmtable", "object", "tables", "apicmap", "posting", "inhibit",
           "irqwin", "deliver", "active", "halt", "nested", "vcpu", "entry",
           "exits", "routing", "vm", "iommu", "bypass", "host", "snapshot", "kvmstate", "inspect"],
}

C_STANDARD = {
    "assert.h", "complex.h", "ctype.h", "errno.h", "fenv.h", "float.h",
    "inttypes.h", "iso646.h", "limits.h", "locale.h", "math.h", "setjmp.h",
    "signal.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h",
    "stdlib.h", "string.h", "time.h", "wchar.h", "wctype.h"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)


def includes(text):
    """(line, '<' or '"', name) of each include outside comments."""
    text = source.blank(text)
    return [(text.count("\n", 0, m.start()) + 1, m.group(1), m.group(2))
            for m in INCLUDE.finditer(text)]


def resolve(tree, path, name):
    """The tree's file that an include names, or None."""
    for base in (os.path.dirname(path), "lib", "include", "", "tests",
                 "bench", "examples"):
        candidate = os.path.normpath(os.path.join(base, name))
        if candidate in tree.texts:
            return candidate
    return None


def layer_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "lib" else None


def place(path):
    """Index in the layer's chain, None where the file is in none."""
    stem = os.path.splitext(os.path.basename(path))[0]
    fits = [(len(entry), index)
            for index, entry in enumerate(CHAINS[layer_of(path)])
            if stem == entry or stem.startswith(entry + "_")]
    return max(fits)[1] if fits else None


def layer_fault(path, target):
    """Why a lib file may not include the target, or None."""
    here, there = layer_of(path), layer_of(target)
    if there not in LAYERS:
        return "is above every layer" if there else None
    if LAYERS.index(there) > LAYERS.index(here):
        return f"runs up from {here} to {there}"
    if here == there and here in CHAINS:
        mine, its = place(path), place(target)
        if mine is not None and its is not None and its > mine:
            return "stands later in the chain"
    return None


def own_header_fault(tree, path, found):
    own = os.path.splitext(path)[0] + ".h"
    if not path.endswith(".c") or own not in tree.texts:
        return None
    if not found or resolve(tree, path, found[0][2]) != own:
        return f"{path}:{found[0][0] if found else 1}: own header is not first"
    return None


def check_lib_file(tree, path, text):
    found = includes(text)
    findings = []
    if layer_of(path) in CHAINS and place(path) is None:
        findings.append(f"{path}:1: in no chain: give it a place in "
                        "tests/style/include_order.py")
    own = own_header_fault(tree, path, found)
    if own:
        findings.append(own)
    for line, _, name in found:
        target = resolve(tree, path, name)
        fault = target and layer_fault(path, target)
        if fault:
            findings.append(f"{path}:{line}: {name} {fault}")
        if name.startswith("urcu") and not path.startswith("lib/base/rcu."):
            findings.append(f"{path}:{line}: liburcu outside lib/base/rcu")
        if name.startswith("ck_"):
            findings.append(f"{path}:{line}: ck outside lib/mock/ring")
    return findings


def check_public_header(tree, path, text):
    findings = []
    for line, kind, name in includes(text):
        public = name.startswith("avicemu/") and f"include/{name}" in tree.texts
        if not (kind == "<" and (name in C_STANDARD or public)):
            findings.append(f"{path}:{line}: {name} is neither a public nor "
                            "a C standard header")
    return findings


def check_client(tree, path, text):
    """lib/mock and examples: no header of the layers, however spelled."""
    findings = []
    found = includes(text)
    for line, _, name in found:
        target = resolve(tree, path, name) or ""
        if layer_of(target) in LAYERS or \
                (path.startswith("examples/") and target.startswith("lib/")):
            findings.append(f"{path}:{line}: {name} is not a public header")
        if name.startswith("ck_") and path.startswith("lib/mock/") and \
                not path.startswith("lib/mock/ring."):
            findings.append(f"{path}:{line}: ck outside lib/mock/ring")
    own = own_header_fault(tree, path, found)
    return findings + ([own] if own else [])


def check(tree):
    findings = []
    for path, text in tree.under("lib"):
        if layer_of(path) in LAYERS:
            findings += check_lib_file(tree, path, text)
        elif layer_of(path) == "mock":
            findings += check_client(tree, path, text)
        else:
            findings.append(f"{path}:1: in no layer of lib/")
    for path, text in tree.under("include"):
        findings += check_public_header(tree, path, text)
    for path, text in tree.under("examples"):
        findings += check_client(tree, path, text)
    return findings


CLEAN = {
    "include/avicemu/common.h": "#include <stdint.h>\n",
    "include/avicemu/vm.h": "#include <avicemu/common.h>\n",
    "lib/base/bits.h": "#include <stdint.h>\n",
    "lib/hw/vapic.h": '#include "base/bits.h"\n',
    "lib/hw/vapic.c": '#include "hw/vapic.h"\n#include <string.h>\n',
    "lib/hw/lapic.h": '#include "vapic.h"\n',
    "lib/hv/vcpu.h": '#include "../hw/lapic.h"\n#include <avicemu/vm.h>\n',
    "lib/mock/pcpu.c": "#include <avicemu/vm.h>\n#include <pthread.h>\n",
    "examples/post.c": "#include <avicemu/vm.h>\n",
}

PLANTS = [
    ("base includes hw", {"lib/base/bits.h": '#include "hw/vapic.h"\n'},
     "runs up from base to hw"),
    ("hw includes hv by a relative path",
     {"lib/hw/vapic.h": '#include "../hv/vcpu.h"\n'}, "runs up from hw to hv"),
    ("an include run up the chain",
     {"lib/hw/vapic.h": '#include "lapic.h"\n'}, "later in the chain"),
    ("a split file run up the chain",
     {"lib/hw/vapic_scan.h": '#include "lapic.h"\n'}, "later in the chain"),
    ("hw includes mock", {"lib/mock/pcpu.h": "",
                          "lib/hw/vapic.h": '#include "mock/pcpu.h"\n'},
     "above every layer"),
    ("a file in no chain", {"lib/hw/gadget.c": ""}, "in no chain"),
    ("own header second",
     {"lib/hw/vapic.c": '#include <string.h>\n#include "hw/vapic.h"\n'},
     "own header is not first"),
    ("a public header with POSIX in it",
     {"include/avicemu/vm.h": "#include <pthread.h>\n"}, "neither a public"),
    ("a public header with a private one",
     {"include/avicemu/vm.h": '#include "base/bits.h"\n'}, "neither a public"),
    ("mock includes hw", {"lib/mock/pcpu.c": '#include "../hw/vapic.h"\n'},
     "not a public header"),
    ("an example includes base",
     {"examples/post.c": '#include "base/bits.h"\n'}, "not a public header"),
    ("liburcu outside its seam",
     {"lib/hv/vcpu.h": "#include <urcu/urcu-bp.h>\n"}, "liburcu outside"),
]

if __name__ == "__main__":
    source.run(check, CLEAN, PLANTS)
