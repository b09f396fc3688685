#!/usr/bin/env python3
"""Each public header compiles alone: C99, C17, C++17, every compiler here.

    headers.py [--need gcc,clang]

Included twice, warnings are errors. A compiler that is not installed is named
and left out, unless --need (or AVICEMU_NEED_COMPILERS) asks for it. No
compiler at all is a failure.
"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.normpath(os.path.join(HERE, "..", "..", "include"))
MODES = [("C99", "c", "-std=c99"), ("C17", "c", "-std=c17"),
         ("C++17", "c++", "-std=c++17")]
COMPILERS = {"gcc": {"c": "gcc", "c++": "g++"},
             "clang": {"c": "clang", "c++": "clang++"}}
WARNINGS = ["-pedantic-errors", "-Wall", "-Wextra", "-Werror",
            "-Wundef", "-fsyntax-only"]


def headers(include):
    for folder, _, names in sorted(os.walk(include)):
        for name in sorted(names):
            if name.endswith(".h"):
                yield os.path.relpath(os.path.join(folder, name), include)


def compile_alone(command, language, std, include, header):
    """The compiler's complaint, or None."""
    text = f"#include <{header}>\n" * 2
    if language == "c":
        # ISO C asks for one declaration in a translation unit.
        text += "extern int avicemu_header_alone;\n"
    done = subprocess.run(
        [command, "-x", language, std, *WARNINGS, "-I", include, "-"],
        input=text, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


def check(include, names):
    findings, count = [], 0
    for name in names:
        for title, language, std in MODES:
            command = COMPILERS[name][language]
            for header in headers(include):
                count += 1
                complaint = compile_alone(command, language, std, include,
                                          header)
                if complaint:
                    findings.append(f"{header} as {title} by {command}:\n"
                                    f"{complaint}")
    return findings, count


def self_test(names):
    """C++ keyword, missing include, C17-only, no guard: all must be caught."""
    plants = {
        "a.h": "#ifndef A\n#define A\nint f(int class);\n#endif\n",
        "b.h": "#ifndef B\n#define B\nuint8_t g(void);\n#endif\n",
        "c.h": "#ifndef C\n#define C\n_Static_assert(1, \"\");\n#endif\n",
        "d.h": "struct d { int i; };\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, text in plants.items():
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        found = check(folder, names)[0]
    for header in plants:
        for name in names:
            caught = any(f.startswith(header) and
                         any(f"by {c}:" in f for c in COMPILERS[name].values())
                         for f in found)
            assert caught, f"{name} let planted {header} through"
    return len(plants)


def main(args):
    need = os.environ.get("AVICEMU_NEED_COMPILERS", "")
    if args[:1] == ["--need"]:
        need = args[1]
    names = []
    for name, commands in COMPILERS.items():
        missing = [c for c in commands.values() if not shutil.which(c)]
        if not missing:
            names.append(name)
        elif name in need.split(","):
            print(f"{name} is needed, but there is no {missing[0]}")
            return 1
        else:
            print(f"left out: {name} ({missing[0]} is not installed)")
    planted = self_test(names)
    findings, count = check(INCLUDE, names)
    print("\n".join(findings))
    print(f"{planted} planted faults caught; {count} compilations by "
          f"{', '.join(names)}; {len(findings)} findings")
    return 1 if findings or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
