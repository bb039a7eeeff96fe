# SPDX-License-Identifier: Apache-2.0

"""Packs programs of this machine, kernel modules and a scenario into the memory file system that a kernel starts from.

A program comes with the shared libraries that ldd names, the system's at the places where they are here.
"""

import lzma
import re
import shutil
import subprocess
from pathlib import Path


class Unreadable(Exception):
    """A program or module that cannot be packed, as a sentence."""


def libraries_in(ldd_output):
    """The files that ldd names; raises for one that it did not find."""
    for line in ldd_output.splitlines():
        if "not found" in line:
            raise Unreadable(f"a shared library is missing: {line.strip()}.")
        match = re.search(r"(?:=> )?(/\S+) \(0x", line)
        if match:
            yield match[1]


def libraries_of(program):
    said = subprocess.run(["ldd", str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return list(libraries_in(said.stdout))  # A static program prints none and exits with 1.


def place_of_library(library):
    """Where it is here, if that is the system's; else where the loader looks by itself: in the machine something may be
    mounted over the folder that it was built in, as /tmp."""
    return library if library.startswith(("/lib", "/usr")) else f"/usr/lib/{Path(library).name}"


def module_bytes(path):
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dc", str(path)], stdout=subprocess.PIPE, check=True).stdout
    return path.read_bytes()


def dependencies(module):
    """The names of the modules that a module, given as bytes, wants loaded before it."""
    match = re.search(rb"\0depends=([^\0]*)\0", module)
    return [name.decode().replace("-", "_") for name in match[1].split(b",") if name] if match else []


def files_of_modules(root):
    return {path.name.split(".ko")[0].replace("-", "_"): path for path in Path(root).rglob("*.ko*")}


def lacking(root, wanted):
    """Those of the wanted modules that are neither below `root` nor, as far as it tells, built into the kernel."""
    built_in = {line.rsplit("/")[-1].split(".ko")[0].replace("-", "_")
                for path in Path(root).glob("modules.builtin") for line in path.read_text().splitlines()}
    found = built_in | files_of_modules(root).keys()
    return [name for name in wanted if name.replace("-", "_") not in found]


def modules_in_order(root, wanted):
    """(name, bytes) of the wanted modules and what they need, in loading order.

    What is not among the files below `root` is built into the kernel, or loading what needs it will tell.
    """
    files = files_of_modules(root)
    ordered = {}

    def add(name):
        if name in ordered or name not in files:
            return
        module = module_bytes(files[name])
        for needed in dependencies(module):
            add(needed)
        ordered[name] = module

    for name in wanted:
        add(name.replace("-", "_"))
    return list(ordered.items())


def place(tree, source, target, strip=False):
    target = tree / str(target).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if strip and shutil.which("strip"):
        subprocess.run(["strip", "--strip-debug", "-o", str(target), str(source)], check=True)
    else:
        shutil.copyfile(source, target)
    target.chmod(0o755)


def pack(archive, tree, programs, modules, texts):
    """Writes the cpio `archive`, using the empty directory `tree`.

    programs: {place in the guest: file here}; modules: as modules_in_order() returns them; texts: {place: content}.
    """
    for folder in ("bin", "dev", "proc", "sys", "tmp", "mnt", "drives", "modules"):
        (tree / folder).mkdir(parents=True)
    for target, source in programs.items():
        place(tree, source, target, strip=True)
        for library in libraries_of(source):
            target = place_of_library(library)
            if not (tree / target.lstrip("/")).exists():
                place(tree, Path(library).resolve(), target, strip=True)
    for number, (name, content) in enumerate(modules):
        (tree / "modules" / f"{number:02}-{name}.ko").write_bytes(content)
    for target, content in texts.items():
        path = tree / target.lstrip("/")
        path.write_text(content)
        path.chmod(0o755)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with open(archive, "wb") as out:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"], input=names.encode(), stdout=out,
                       cwd=tree, check=True)
