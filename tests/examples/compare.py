#!/usr/bin/env python3
"""An example prints what its first comment says, and README shows it word for
word.

compare.py PROGRAM README SOURCE
"""
import re
import subprocess
import sys


def main(program, readme, source):
    text = open(source, encoding="utf-8").read()
    want = re.search(r"^ \* Prints: (.*)$", text, re.M).group(1)
    got = subprocess.run([program], capture_output=True, text=True, check=True)
    if got.stdout.rstrip("\n") != want:
        sys.exit(f"{source} says it prints {want!r}; it prints {got.stdout!r}")
    code = text[text.index("#include"):]
    if "```c\n" + code + "```" not in open(readme, encoding="utf-8").read():
        sys.exit(f"README does not show {source} word for word")


main(*sys.argv[1:])
