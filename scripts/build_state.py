#!/usr/bin/env python3
"""Is a build folder fit for use?  build_state.py TOP DIR [OPTION]...

Exit status 0: yes, with these options. 3: yes, but options differ.
1: no, it belongs to another tree or cannot be read.
"""
import json
import os
import sys


def wanted_options(args):
    for arg in args:
        name, _, value = arg.removeprefix("-D").removeprefix("--").partition("=")
        yield name, value


def main(top, folder, *args):
    try:
        with open(os.path.join(folder, "meson-info", "meson-info.json")) as f:
            info = json.load(f)
        with open(os.path.join(folder, "meson-info",
                               "intro-buildoptions.json")) as f:
            options = {o["name"]: o["value"] for o in json.load(f)}
        if info.get("error"):
            return 1
        if os.path.realpath(info["directories"]["source"]) \
                != os.path.realpath(top):
            return 1
    except (OSError, ValueError, KeyError):
        return 1
    for name, value in wanted_options(args):
        have = options.get(name)
        if isinstance(have, bool):
            have = "true" if have else "false"
        if str(have) != value:
            return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
