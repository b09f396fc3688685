#!/usr/bin/env python3
"""A rule with a tag in lib/ has the same tag in a test.

A tag is [APM2 16.6.4 short title], [SDM3 Table 10-3], [IOMMU x] or [KVM x];
document and section count, the title does not; one bracket may hold several
sections between commas (what has no dot in it continues the one before). Lists the tags of lib/ that no file in tests/ names. Fails when
they are more than the number in spec_tags.ratchet; when they are fewer, lower
that number with the change that made it so: it only goes down.
"""
import re

import source

TAG = re.compile(r"\[(APM2|SDM3|IOMMU|KVM)\b([^\]]{0,160})\]")
SECTION = re.compile(r"(?:(?:Fig|Table)s? )?[\w.\-]+")
RATCHET = "tests/style/spec_tags.ratchet"


def sections(match):
    """(document, section) of each section that one tag names."""
    body = re.sub(r"\s*\n\s*(\*|//)?\s*", " ", match.group(2))
    for index, part in enumerate(body.split(",")):
        section = SECTION.match(part.strip())
        if section and (index == 0 or "." in section.group(0)):
            yield match.group(1), section.group(0).rstrip(".")


def tags(text):
    """(line, (document, section)) of each tag in the comments."""
    for first, _, comment in source.comments(text):
        for match in TAG.finditer(comment):
            line = first + comment.count("\n", 0, match.start())
            for tag in sections(match):
                yield line, tag


def tested(tree):
    # In a test a tag may be a string, a row's column.
    return {tag for _, text in tree.under("tests", ext=(".c", ".h", ".S",
                                                        ".sh"))
            for match in TAG.finditer(text) for tag in sections(match)}


def untested(tree):
    have, missing = tested(tree), {}
    for path, text in tree.under("lib"):
        for line, tag in tags(text):
            if tag not in have:
                missing.setdefault(tag, (path, line))
    return missing


def check(tree):
    missing = untested(tree)
    limit = int(tree.texts.get(RATCHET, "0").split()[0])
    lines = [f"{path}:{line}: [{document} {section}] is in no test"
             for (document, section), (path, line) in sorted(missing.items())]
    if len(missing) > limit:
        return lines + [f"{RATCHET}:1: {len(missing)} tags without a test, "
                        f"at most {limit} allowed"]
    if tree.root:
        for line in lines:
            print(line)
        if len(missing) < limit:
            print(f"{RATCHET}: lower {limit} to {len(missing)}")
    return []


CLEAN = {
    "lib/hw/a.c": "/* As [APM2 16.6.4 a title] and [APM2 15.29, 15.30] say */",
    "tests/test_a.c": '{ "row", "[APM2 16.6.4]" },\n/* [APM2 15.29 doorbell],'
                      "\n * [APM2\n * 15.30] */\n",
    RATCHET: "0\n",
}

PLANTS = [
    ("a tag without a test", {"lib/hw/b.c": "/* [SDM3 10.5.1] */"},
     "[SDM3 10.5.1] is in no test"),
    ("the second of two sections", {"lib/hw/b.c": "/* [APM2 15.29, 9.9] */"},
     "[APM2 9.9] is in no test"),
    ("the same section of another manual",
     {"lib/hw/b.c": "/* [SDM3 15.29] */"}, "[SDM3 15.29] is in no test"),
    ("a table", {"lib/hw/b.c": "/* [APM2 Table 16-4], [SDM3 10 T 1, 4] */"},
     "[APM2 Table 16-4]"),
    ("a tag broken over two lines",
     {"lib/hw/b.c": "/* as in [IOMMU\n * 2.2.5] */"},
     "lib/hw/b.c:1: [IOMMU 2.2.5]"),
]

if __name__ == "__main__":
    source.run(check, CLEAN, PLANTS)
