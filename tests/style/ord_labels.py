#!/usr/bin/env python3
"""Every ordered access says why, and every edge has two ends and a test.

In lib/ but for mock and base/atomic.h: an ae_ atomic operation with an order
in its name has an `ORD x.A` comment within the eight lines above it; a relaxed
one has an ORD comment there, too, `ORD none:` or its edge's. A read-modify-write
may say `ORD none:`, too: then it is locked, but orders nothing. No other file
may use C11 atomics, fences or compiler builtins. Each edge x has both A and B
among the ORD comments, and a race_x test or a step test that names it. Each
label x.A that stands at a site in lib/ is a stop there, too: AE_STEP(x_a). One
access may be an end of several edges, `ORD x.A, y.A:`; one stop serves them.
"""
import re

import source

REACH = 8  # lines above an access

# Functions that are no atomic operation although an order is in their name.
NOT_OPERATIONS = set()
# Wrappers of one relaxed access that is explained where they are defined, for
# several of them at once: their bodies are not looked at, nor are their calls.
RELAXED_WRAPPERS = {"ae_vapic_read", "ae_vapic_write"}

ORDERED = re.compile(r"\b(ae_\w*_(?:acquire|release|seq_?cst|acq_?rel)\w*)"
                     r"\s*\(")
RELAXED = re.compile(r"\b(ae_\w*_relaxed\w*)\s*\(")
RAW = re.compile(r"\b(atomic_(?:load|store|exchange|fetch|compare|thread|init)"
                 r"\w*|memory_order_\w+|__atomic_\w+|__sync_\w+)\b")
RMW = re.compile(r"_(fetch|test_and|exchange|xchg|swap|cas|cmpxchg|compare)_")
ONE_LABEL = r"[a-z][\w-]*\.[A-Z]\b"
LABEL = re.compile(rf"\bORD\s+({ONE_LABEL}(?:,\s+{ONE_LABEL})*)")
STEP = re.compile(r"\bAE_STEP\s*\(\s*(\w+)\s*\)")
# A definition: the name begins the line, as the style has it.
DEFINITION = re.compile(r"^(\w+)\s*\(")


def exempt(path):
    return path.startswith(("lib/mock/", "lib/base/atomic"))


def ord_comments(text):
    return [c for c in source.comments(text) if re.search(r"\bORD\s", c[2])]


def accesses(text):
    """(line, name, relaxed) of each atomic operation that is called."""
    code = source.blank(text, strings=True).splitlines()
    function = None
    for number, line in enumerate(code, 1):
        definition = DEFINITION.match(line)
        if definition:
            function = definition.group(1)
        if definition or line.lstrip().startswith("#"):
            continue
        for name in ORDERED.findall(line):
            if name not in NOT_OPERATIONS:
                yield number, name, False
        for name in RELAXED.findall(line):
            if function not in RELAXED_WRAPPERS:
                yield number, name, True


def check_sites(path, text):
    findings = []
    notes = ord_comments(text)
    for line, name, relaxed in accesses(text):
        near = [c for c in notes if c[0] <= line and c[1] >= line - REACH]
        if not near:
            kind = "relaxed" if relaxed else "ordered"
            findings.append(f"{path}:{line}: {kind} {name} without ORD within "
                            f"{REACH} lines")
        elif not relaxed and not RMW.search(name) and \
                not any(LABEL.search(c[2]) for c in near):
            findings.append(f"{path}:{line}: ordered {name} has no ORD label, "
                            "only `ORD none`")
    for number, line in enumerate(
            source.blank(text, strings=True).splitlines(), 1):
        for name in RAW.findall(line):
            findings.append(f"{path}:{number}: {name} outside base/atomic.h")
    return findings


def labels(tree):
    """edge -> letter -> (first place, all labels of its comment's list), from
    ORD comments of lib and tests."""
    edges = {}
    for path, text in tree.under("lib", "tests", "include"):
        for first, _, comment in ord_comments(text):
            for match in LABEL.finditer(comment):
                line = first + comment.count("\n", 0, match.start())
                names = re.findall(ONE_LABEL, match.group(1))
                for name in names:
                    edge, letter = name.split(".")
                    edges.setdefault(edge, {}).setdefault(
                        letter, (path, line, names))
    return edges


def has_test(tree, edge):
    race = re.compile(rf"tests/(.*/)?race_{re.escape(edge)}(_\w+)?\.c$")
    names = re.compile(rf"\b{re.escape(edge)}(_|\b)")
    for path, text in tree.under("tests"):
        if race.match(path):
            return True
        if path.startswith("tests/step/") and \
                (edge in path or names.search(text)):
            return True
    return False


def check_edges(tree):
    findings = []
    steps = {name for path, text in tree.under("lib")
             for name in STEP.findall(source.blank(text))}
    for edge, ends in sorted(labels(tree).items()):
        path, line, _ = min(ends.values())
        for letter in "AB":
            if letter not in ends:
                findings.append(f"{path}:{line}: edge {edge} has no "
                                f"{edge}.{letter}")
        if not has_test(tree, edge):
            findings.append(f"{path}:{line}: edge {edge} has no test "
                            f"race_{edge}.c and none in tests/step/")
        for letter, (path, line, names) in sorted(ends.items()):
            stop = f"{edge}_{letter}".lower().replace("-", "_")
            stops = {n.lower().replace("-", "_").replace(".", "_")
                     for n in names}
            if path.startswith("lib/") and not stops & steps:
                findings.append(f"{path}:{line}: label {edge}.{letter} is no "
                                f"AE_STEP({stop})")
    return findings


def check(tree):
    findings = []
    for path, text in tree.under("lib"):
        if not exempt(path):
            findings += check_sites(path, text)
    return findings + check_edges(tree)


A_SITE = """void
ae_a(void)
{
    /* ORD wake.A: IRR bit, then IsRunning. Partner: wake.B in ae_b(). */
    AE_STEP(wake_a);
    ae_fetch_or_seqcst_u32(word, bit);
}
"""
B_SITE = A_SITE.replace("ae_a", "ae_b").replace("wake_a", "wake_b") \
    .replace("wake.A", "wake.C").replace("wake.B", "wake.A") \
    .replace("wake.C", "wake.B").replace("ae_b()", "ae_a()")
COUNTER = """    /* ORD none: statistics only. */
    ae_store_relaxed_u64(&n, ae_load_relaxed_u64(&n) + 1);
"""
FAR = "    x();\n" * 9

WRAPPER = "void\nae_vapic_read(void)\n{\n    ae_load_relaxed_u32(p);\n}\n"
LOCKED = "    /* ORD none: one bit. */\n    ae_fetch_or_seqcst_u32(p, 1);\n"

CLEAN = {"lib/hw/a.c": A_SITE, "lib/hv/b.c": B_SITE + COUNTER,
         "lib/hw/w.h": WRAPPER + LOCKED,
         "tests/race_wake.c": "", "lib/base/atomic.h": "atomic_load(x)\n"
         "ae_load_acquire_u32(x)\n"}

PLANTS = [
    ("an ordered access without ORD",
     {"lib/hw/c.c": "    ae_load_acquire_u32(p);\n"}, "without ORD"),
    ("an ORD nine lines off",
     {"lib/hw/c.c": "/* ORD wake.A: x */\n" + FAR
      + "    ae_load_acquire_u32(p);\n"}, "without ORD"),
    ("a relaxed access without ORD",
     {"lib/hw/c.c": "    ae_load_relaxed_u32(p);\n"}, "without ORD"),
    ("a relaxed access after a wrapper",
     {"lib/hw/c.c": WRAPPER + "int\nf(void)\n{\n    ae_load_relaxed_u32(p);"},
     "c.c:9: relaxed"),
    ("an ordered access that claims none",
     {"lib/hw/c.c": "/* ORD none: hm */\n    ae_load_acquire_u32(p);\n"},
     "has no ORD label"),
    ("ORD in a string only",
     {"lib/hw/c.c": 'f("/* ORD wake.A: x */");\n    ae_load_acquire_u32(p);'},
     "without ORD"),
    ("raw C11 atomics",
     {"lib/hv/c.c": "    atomic_thread_fence(memory_order_seq_cst);\n"},
     "outside base/atomic.h"),
    ("a label without partner",
     {"lib/hw/a.c": A_SITE.replace("wake", "doze").replace(
         "doze.B", "the other"), "tests/race_doze.c": ""},
     "edge doze has no doze.B"),
    ("an edge without test",
     {"lib/hw/a.c": A_SITE.replace("wake", "doze")}, "edge doze has no test"),
    ("a label that is no stop",
     {"lib/hw/a.c": A_SITE.replace("AE_STEP(wake_a);", "")},
     "is no AE_STEP(wake_a)"),
]

if __name__ == "__main__":
    source.run(check, CLEAN, PLANTS)
