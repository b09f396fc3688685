#!/usr/bin/env python3
"""Nothing left over, nothing too long.

C sources: no to-do marks, no tabs, no trailing blanks, 80 columns (270 where
clang-format is off: register tables have one row a register), files of at most
700 lines, functions of at most 60, or 100 where marked table-driven. Every
text file: no path that exists on one machine only.
"""
import re

import source

FOLDERS = ("lib", "include", "tests", "bench", "examples")
CODE = (".c", ".h", ".S")
MARK = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MACHINE = re.compile(r"(?:^|[^\w.~$}])/(?:work|farm|root|home)/", re.M)
COLUMNS, TABLE_COLUMNS = 80, 270
FILE_LINES = 700
FUNCTION_LINES, TABLE_LINES = 60, 100
TABLE_DRIVEN = "table-driven"


def functions(text):
    """(name, first line, line after the last) of each function body.

    Relies on the format: a body's braces stand in column one, and nothing
    else's opening brace does.
    """
    lines = source.blank(text, strings=True).splitlines()
    start = None
    for index, line in enumerate(lines):
        if line == "{":
            start = index
        elif line.startswith("}") and start is not None:
            head = index_of_head(lines, start)
            name = re.match(r"\w*", lines[head]).group(0)
            yield name, head + 1, index + 2
            start = None


def index_of_head(lines, brace):
    """The line with the function's name, above its parameters."""
    head = brace - 1
    while head > 0 and (lines[head].startswith((" ", "\t"))):
        head -= 1
    return max(head, 0)


def check_lines(path, text):
    findings, limit = [], COLUMNS
    for number, line in enumerate(text.splitlines(), 1):
        if "clang-format off" in line:
            limit = TABLE_COLUMNS
        elif "clang-format on" in line:
            limit = COLUMNS
        where = f"{path}:{number}"
        if MARK.search(line):
            findings.append(f"{where}: {MARK.search(line).group(0)} left over")
        if len(line) > limit:
            findings.append(f"{where}: {len(line)} columns, {limit} allowed")
        if "\t" in line and not path.endswith(".S"):
            findings.append(f"{where}: a tab")
        if line != line.rstrip():
            findings.append(f"{where}: trailing blanks")
    return findings


def check_sizes(path, text):
    findings = []
    lines = text.splitlines()
    if len(lines) > FILE_LINES:
        findings.append(f"{path}:1: {len(lines)} lines, "
                        f"{FILE_LINES} allowed")
    if path.endswith(".S"):
        return findings
    for name, first, end in functions(text):
        around = "\n".join(lines[max(first - 6, 0):end - 1])
        limit = TABLE_LINES if TABLE_DRIVEN in around else FUNCTION_LINES
        if end - first > limit:
            findings.append(f"{path}:{first}: {name}() has {end - first} "
                            f"lines, {limit} allowed")
    return findings


def check(tree):
    findings = []
    for path, text in tree.under(*FOLDERS, ext=CODE):
        findings += check_lines(path, text) + check_sizes(path, text)
    for path, text in tree.texts.items():
        for match in MACHINE.finditer(text):
            line = text.count("\n", 0, match.end()) + 1
            findings.append(f"{path}:{line}: a path of one machine")
    return findings


def function(lines, first=""):
    return "int\nf(int a,\n  int b)\n{\n" + first + "    x();\n" * lines + "}\n"


SLASH = "/"

CLEAN = {"lib/hw/a.c": function(56)
         + function(90, first="    /* table-driven */\n")
         + "struct s {\n" + "    int i;\n" * 90 + "};\n",
         "lib/hw/t.h": "/* clang-format off */\n" + "x" * 100
         + "\n/* clang-format on */\n"}

PLANTS = [
    ("a to-do mark", {"lib/hw/b.c": "/* TO" "DO: later */\n"}, "left over"),
    ("a long line", {"lib/hw/b.c": "x" * 81 + "\n"}, "81 columns"),
    ("a long line after a table",
     {"lib/hw/t.h": CLEAN["lib/hw/t.h"] + "x" * 81 + "\n"}, "81 columns"),
    ("a tab", {"lib/hw/b.c": "\tx\n"}, "a tab"),
    ("a long file", {"lib/hw/b.c": "int a;\n" * 701}, "701 lines"),
    ("a long function", {"lib/hw/b.c": function(57)}, "f() has 61 lines"),
    ("a table-driven function without end",
     {"lib/hw/b.c": function(100, first="    /* table-driven */\n")},
     "100 allowed"),
    ("a path of one machine",
     {"README.md": f"see {SLASH}home{SLASH}me{SLASH}x\n"}, "one machine"),
]

if __name__ == "__main__":
    source.run(check, CLEAN, PLANTS)
