#!/usr/bin/env python3
"""Totals of a meson test run.  test_totals.py [--extra P F] TESTLOG.json

Reads meson's log and counts what it holds: each cmocka test by itself, each
other program as one. A program that dies, times out or exits non-zero without
a failed cmocka test is one failure more; one whose exit status hides failures
(cmocka returns their number, so 77 looks like a skip and 256 like success) is
still counted by what it printed. Output of failed programs follows, indented,
then one line for each skip with its reason. The last line is the total:

    N passed, N failed[, N skipped]

Exit status 0 when something passed and nothing failed.
"""
import json
import os
import re
import sys
import tempfile

OPEN = re.compile(r"^\[==========\] Running \d+ test\(s\)")
CLOSE = re.compile(r"^\[==========\] \d+ test\(s\) run")
ROW = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (.*)")
BAD = {"FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS"}
TAIL_LINES = 60


def cmocka_rows(stdout):
    """(outcome, name, line before it) of each cmocka test in stdout."""
    rows, inside, before = [], False, ""
    for line in stdout.splitlines():
        row = ROW.match(line)
        if OPEN.match(line):
            inside = True
        elif CLOSE.match(line):
            inside = False
        elif row and inside:
            rows.append((row.group(1), row.group(2), before))
        before = "" if line.startswith("[ RUN") else line
    return rows


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


class Totals:
    def __init__(self):
        self.passed = self.failed = 0
        self.skips, self.failures = [], []

    def add(self, test):
        out, err = test.get("stdout") or "", test.get("stderr") or ""
        name, result = test["name"], test["result"]
        rows = cmocka_rows(out)
        broken = [row for row in rows if row[0] == "FAILED"]
        self.passed += sum(row[0] == "OK" for row in rows)
        self.failed += len(broken)
        self.skips += [(f"{name}: {row[1]}", row[2] or "no reason given")
                       for row in rows if row[0] == "SKIPPED"]
        if not rows and result in ("OK", "EXPECTEDFAIL"):
            self.passed += 1
        elif result in BAD and not broken:
            self.failed += 1
        elif result == "SKIP" and not broken:
            self.skips.append((name, last_line(out or err)))
        if broken or result in BAD:
            self.failures.append((name, result, test, broken))

    def report(self):
        for name, result, test, broken in self.failures:
            print(f"\nFailed: {name} ({result.lower()}, "
                  f"exit status {test.get('returncode')})")
            for row in broken:
                print(f"  failed: {row[1]}")
            for stream in ("stdout", "stderr"):
                lines = (test.get(stream) or "").splitlines()
                if len(lines) > TAIL_LINES:
                    print(f"  {stream}: last {TAIL_LINES} of {len(lines)}"
                          " lines")
                for line in lines[-TAIL_LINES:]:
                    print(f"  | {line}")
        if self.skips:
            print()
        for name, reason in self.skips:
            print(f"Skipped: {name}: {reason}")

    def line(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {len(self.skips)} skipped" if self.skips else "")


def totals_of(path):
    totals = Totals()
    with open(path, errors="replace") as log:
        for line in log:
            if line.strip():
                totals.add(json.loads(line))
    return totals


def self_test():
    running, run = "[==========] Running 2 test(s).", "[==========] 2 test(s) run."
    two = f"{running}\n[       OK ] a\n{{}}\n{run}\n[  FAILED  ] b\n"
    cases = [
        ({"result": "OK", "stdout": "3 passed, 0 failed"}, (1, 0, 0)),
        ({"result": "OK", "stdout": two.format("[       OK ] b")}, (2, 0, 0)),
        ({"result": "FAIL", "stdout": two.format("[  FAILED  ] b")}, (1, 1, 0)),
        ({"result": "SKIP", "stdout": two.format("[  FAILED  ] b")}, (1, 1, 0)),
        ({"result": "OK", "stdout": two.format("[  FAILED  ] b")}, (1, 1, 0)),
        ({"result": "OK", "stdout": two.format("[  SKIPPED ] b")}, (1, 0, 1)),
        ({"result": "FAIL", "stdout": two.format("[ RUN      ] b")}, (1, 1, 0)),
        ({"result": "TIMEOUT", "stdout": ""}, (0, 1, 0)),
        ({"result": "SKIP", "stdout": "no /dev/kvm\n"}, (0, 0, 1)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for entry, want in cases:
            path = os.path.join(folder, "log.json")
            with open(path, "w") as log:
                log.write(json.dumps({"name": "t", **entry}) + "\n")
            totals = totals_of(path)
            have = (totals.passed, totals.failed, len(totals.skips))
            assert have == want, f"{entry}: {have}, not {want}"


def main(args):
    extra = (0, 0)
    if args[:1] == ["--self-test"]:
        self_test()
        return 0
    if args[:1] == ["--extra"]:
        extra, args = (int(args[1]), int(args[2])), args[3:]
    try:
        totals = totals_of(args[0])
        totals.report()
    except (OSError, ValueError, KeyError) as error:
        print(f"No test results: {error}")
        totals = Totals()
        totals.failed = 1
    totals.passed += extra[0]
    totals.failed += extra[1]
    print()
    print(totals.line(), flush=True)
    return 0 if totals.passed and not totals.failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
