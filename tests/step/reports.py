#!/usr/bin/env python3
"""A program, run in a child, ends in an address sanitizer's report, or well.

reports.py WORDS PROGRAM [ARGUMENT]...

WORDS must be in what the child writes to its standard error, and it must fail;
with "-" it must end with 0 and write nothing there.
"""
import subprocess
import sys


def main(words, *command):
    child = subprocess.run(command, capture_output=True, text=True)
    if words == "-":
        good = child.returncode == 0 and child.stderr == ""
    else:
        good = child.returncode != 0 and words in child.stderr
    print(child.stdout, end="")
    if not good:
        print(child.stderr, end="")
        sys.exit(f"{' '.join(command)}: exit status {child.returncode}, "
                 f"wanted {words!r}")


main(*sys.argv[1:])
