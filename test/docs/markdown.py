# SPDX-License-Identifier: Apache-2.0

"""What the tests of the manual read of a markdown page: its headings, its links, its fenced blocks.

Not a parser of markdown: it knows what our pages use. Fences are three backticks at the start of a line; code in
indented blocks and links by reference are not looked at.
"""

import fnmatch
import os
import re
from pathlib import Path

NOT_OURS = {"build", "node_modules", "__pycache__"}
LINK = re.compile(r"\]\(([^)\s]+)\)")  # The text before may have begun on another line.
CODE_SPAN = re.compile(r"`([^`\n]+)`")


class Block:
    """A fenced block: `kind` is the word behind the fence, `line` that of its first line of text."""

    def __init__(self, kind, line, text):
        self.kind, self.line, self.text = kind, line, text


class Page:
    def __init__(self, root, path):
        self.path = path
        self.name = path.relative_to(root).as_posix()
        self.lines = path.read_text(encoding="utf-8").splitlines()
        self.blocks, self.prose = [], []  # prose: (number, line) outside of blocks
        fence = None
        for number, line in enumerate(self.lines, 1):
            if line.startswith("```"):
                if fence is None:
                    fence = Block(line[3:].strip(), number + 1, "")
                    self.blocks.append(fence)
                else:
                    fence = None
            elif fence is not None:
                fence.text += line + "\n"
            else:
                self.prose.append((number, line))

    def links(self):
        for number, line in self.prose:
            for target in LINK.findall(CODE_SPAN.sub("", line)):
                yield number, target

    def code_spans(self):
        for number, line in self.prose:
            for text in CODE_SPAN.findall(line):
                yield number, text

    def anchors(self):
        """Those that GitHub gives to headings; the second of a name has -1 behind it."""
        seen = {}
        for _, line in self.prose:
            heading = re.match(r"#+\s+(.*)", line)
            if not heading:
                continue
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            yield f"{slug}-{count}" if count else slug


def is_ours(inside):
    return not any(part in NOT_OURS or part.startswith(("build-", ".")) for part in inside.parts)


def files(root, pattern):
    """Files of the checkout at `root`, without build folders, hidden ones and fixtures. The former are not walked
    through: tests that run beside this one make and remove folders there."""
    found = []
    for folder, folders, names in os.walk(root):
        inside = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if is_ours(inside / name) and inside / name != Path("test", "fixtures")]
        found += [Path(folder, name) for name in fnmatch.filter(names, pattern) if is_ours(inside / name)]
    return sorted(found)


def pages(root):
    return [Page(root, path) for path in files(root, "*.md")]
