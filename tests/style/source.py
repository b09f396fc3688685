"""What the check scripts share: the tree's files, C without its comments, and
the runner that first proves that a check can fail.

A check is a function tree -> list of findings, "path:line: what". It comes
with plants: small trees that it must find fault with, and one that it must
pass. A check that lets a plant through is itself the finding.
"""
import os
import re
import sys

SKIP_FOLDERS = {".git", "__pycache__", "subprojects"}
TOKEN = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)


class Tree:
    """A folder's text files, by path relative to it, read once."""

    def __init__(self, root):
        self.root = root
        self.texts = {}
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if f not in SKIP_FOLDERS
                                and not is_build(os.path.join(folder, f)))
            if folder == root:  # as .gitignore has it
                folders[:] = [f for f in folders if not f.startswith("build")]
            for name in sorted(names):
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    continue
                with open(path, "rb") as file:
                    data = file.read()
                if b"\0" not in data[:4096]:
                    self.texts[os.path.relpath(path, root)] = \
                        data.decode(errors="replace")

    def under(self, *folders, ext=(".c", ".h")):
        """(path, text) of files below the folders, by extension."""
        for path, text in self.texts.items():
            if path.endswith(tuple(ext)) and \
                    any(path.startswith(f + "/") for f in folders):
                yield path, text


def is_build(folder):
    return os.path.isdir(os.path.join(folder, "meson-private"))


def blank(text, comments=True, strings=False):
    """The text with comments (and strings) blanked, line numbers kept."""
    def repl(match):
        token = match.group(0)
        is_comment = token.startswith("/")
        if (is_comment and comments) or (not is_comment and strings):
            return re.sub(r"[^\n]", " ", token)
        return token
    return TOKEN.sub(repl, text)


def comments(text):
    """(first line, last line, text) of each comment; // lines are joined."""
    found = []
    for match in TOKEN.finditer(text):
        token = match.group(0)
        if not token.startswith("/"):
            continue
        first = text.count("\n", 0, match.start()) + 1
        last = first + token.count("\n")
        if token.startswith("//") and found and found[-1][1] == first - 1 \
                and found[-1][2].startswith("//"):
            found[-1] = (found[-1][0], last, found[-1][2] + "\n" + token)
        else:
            found.append((first, last, token))
    return found


def plant(files):
    """A Tree of the given {path: text}, held in memory only."""
    tree = Tree.__new__(Tree)
    tree.root, tree.texts = None, dict(files)
    return tree


def run(check, clean, plants):
    """Prove the check on its plants, then run it; the process exits.

    plants: (what it is, files, words that the finding must hold).
    """
    broken = [f"self-test: the clean tree is refused: {f}"
              for f in check(plant(clean))]
    for what, files, words in plants:
        found = check(plant({**clean, **files}))
        if not any(words in f for f in found):
            broken.append(f"self-test: let through: {what} (found {found})")
    for line in broken:
        print(line)
    if broken:
        sys.exit(2)
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "..")
    findings = check(Tree(os.path.realpath(root)))
    for line in findings:
        print(line)
    print(f"{len(plants)} planted faults caught; "
          f"{len(findings)} findings in the tree")
    sys.exit(1 if findings else 0)
