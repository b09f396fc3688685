#!/usr/bin/env python3
"""Exported symbols are the declared ones, both ways.

    exported.py BUILD-FOLDER [LIBRARY]...

Looks at every libavicemu*.so and libavicemu*.a in the build folder; there must
be those that are named, such as libavicemu.so.

What a shared library exports is what the public headers declare AVICEMU_API.
mock*.h and mock/ belong to libavicemu-mock, step.h to libavicemu-step (which
is the library with stops, so it exports the library's names, too), everything
else to libavicemu. An archive's external names begin with avicemu_ or ae_, the
mock host's with avicemu_ or am_: hidden visibility does not help there, and one
program may link both.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "style"))
import source  # noqa: E402

DECLARED = re.compile(r"\bAVICEMU_API\b([^;{]*)[;{]")
# A function's name stands before its parameters, a variable's before the end.
NAME = re.compile(r"(\w+)\s*(?:\(|\[|$)")


def owner(path):
    name = os.path.relpath(path, "include/avicemu")
    if name.startswith("mock"):
        return "mock"
    return "step" if name.startswith("step") else "library"


def declared(tree):
    """owner -> names that the public headers declare."""
    names = {"mock": set(), "step": set(), "library": set()}
    for path, text in tree.under("include", ext=(".h",)):
        code = re.sub(r"^[ \t]*#.*(\\\n.*)*$", "", source.blank(text),
                      flags=re.M)
        for match in DECLARED.finditer(code):
            words = re.sub(r"\b(AVICEMU_\w+|__attribute__)\s*\([^;]*$", "",
                           match.group(1)).strip()
            name = NAME.search(words)
            names[owner(path)].add(name.group(1) if name else words)
    return names


def nm(*args):
    out = subprocess.run(["nm", "--defined-only", *args], check=True,
                         capture_output=True, text=True).stdout
    # "address type name"; an archive's members are lines of their own
    rows = [line.split() for line in out.splitlines()]
    return {row[-1].split("@")[0] for row in rows
            if len(row) == 3 and row[1] not in "aA"}


def check_library(path, names):
    name = os.path.basename(path)
    want = names["library"]
    if "-mock" in name:
        want = names["mock"]
    elif "-step" in name:
        want = names["library"] | names["step"]
    have = nm("-D", path)
    return [f"{name} does not export {n}, which a header declares"
            for n in sorted(want - have)] + \
           [f"{name} exports {n}, which no header declares"
            for n in sorted(have - want)]


def check_archive(path):
    name = os.path.basename(path)
    own = "am_" if "-mock" in name else "ae_"
    bad = [n for n in sorted(nm("-g", path))
           if not n.startswith(("avicemu_", own))]
    return [f"{name} defines {n}, outside avicemu_ and {own}" for n in bad]


def check(tree, paths):
    names, findings = declared(tree), []
    for path in paths:
        findings += check_archive(path) if path.endswith(".a") \
            else check_library(path, names)
    return findings


def self_test():
    """A library with one name too many and one too few, and a bad archive."""
    tree = source.plant({"include/avicemu/a.h": """
        #define AVICEMU_API __attribute__((visibility("default")))
        AVICEMU_API int avicemu_one(void);
        AVICEMU_API enum avicemu_e
        avicemu_two(int (*f)(void), int);
        AVICEMU_API void avicemu_three(const char *, ...)
            AVICEMU_PRINTF(1, 2);
        /* AVICEMU_API int avicemu_comment(void); */
        """})
    have = declared(tree)["library"]
    assert have == {"avicemu_one", "avicemu_two", "avicemu_three"}, have
    with tempfile.TemporaryDirectory() as folder:
        base = os.path.join(folder, "libt")
        with open(base + ".c", "w") as file:
            file.write("int avicemu_one(void){return 1;}"
                       "int avicemu_two(void){return 1;}"
                       "int stray(void){return 1;}")
        for args in (["cc", "-shared", "-fPIC", base + ".c", "-o",
                      base + ".so"],
                     ["cc", "-c", base + ".c", "-o", base + ".o"],
                     ["ar", "rcs", base + ".a", base + ".o"]):
            subprocess.run(args, check=True)
        found = check(tree, [base + ".so", base + ".a"])
        assert found == [
            "libt.so does not export avicemu_three, which a header declares",
            "libt.so exports stray, which no header declares",
            "libt.a defines stray, outside avicemu_ and ae_"], found
    return 3


def libraries(folder):
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if not f.endswith(".p")]
        found += [os.path.join(where, n) for n in names
                  if re.fullmatch(r"libavicemu[\w-]*\.(so|a)", n)]
    return sorted(found)


def main(folder, *wanted):
    planted = self_test()
    paths = libraries(folder)
    found = check(source.Tree(TOP), paths)
    names = {os.path.basename(p) for p in paths}
    found += [f"no {name} in {folder}" for name in wanted
              if name not in names]
    if not paths:
        found.append(f"no library in {folder}")
    for line in found:
        print(line)
    print(f"{planted} planted faults caught; {len(found)} findings in "
          + " ".join(sorted(names)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
