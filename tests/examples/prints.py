#!/usr/bin/env python3
"""An example prints what its first comment says; line breaks do not count.

prints.py PROGRAM SOURCE
"""
import re
import subprocess
import sys


def main(program, source):
    text = open(source, encoding="utf-8").read()
    says = re.search(r"^ \* Prints:(.*?)^ \*/", text, re.M | re.S).group(1)
    want = re.sub(r"^ \*", "", says, flags=re.M).split()
    got = subprocess.run([program], capture_output=True, text=True, check=True)
    if got.stdout.split() != want:
        sys.exit(f"{source} says it prints {want!r}; it prints {got.stdout!r}")


main(*sys.argv[1:])
