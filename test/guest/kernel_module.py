#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Compiles a kernel module of the tests for the kernel that fetch_kernel.py fetched.

    kernel_module.py SOURCE INTO

Prints the path of the module, or one sentence and exit 77 where it cannot be had. The kernel's headers, and the tools
that its build brings, are packages of the same mirror, unpacked beside the kernel in the cache: nothing is installed.
The compiler is this system's. Where the tools want a newer C library than this system has, the library that they were
built with is unpacked beside them.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import fetch_kernel
from fetch_kernel import Missing, run

# What the tools want of trixie: bookworm's libraries are older.
LIBRARIES = ("libc6", "libelf1t64", "zlib1g")
# Settings of Debian's kernel that an older compiler does not know, and that a module does without.
UNKNOWN_TO_OLDER_COMPILERS = ("-fmin-function-alignment=16", "-fstrict-flex-arrays=3")
TOOLS = ("scripts/mod/modpost.real-lsb-64", "tools/objtool/objtool.real-x86")


def release_of(image):
    """The kernel's name of itself, which is the name of the folder that the package puts it into."""
    release = Path(image).parent.name
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?\+deb\d+-cloud-amd64", release):
        raise Missing(f"the stand-in is compiled with Debian's headers for the kernel, and {image} is not in a folder "
                      "that is named like Debian's kernels for clouds.")
    return release


def packages_of(release):
    version = release.removesuffix("-cloud-amd64")
    return (f"linux-headers-{release}", f"linux-headers-{version}-common", f"linux-kbuild-{version}")


def write_wrapper(path, words):
    path.write_text("#!/bin/sh\nexec " + " ".join(words) + ' "$@"\n')
    path.chmod(0o755)


def runs(tool):
    said = subprocess.run(["ldd", str(tool)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "not found" not in said.stdout


def use_libraries(tools, libraries):
    """Has the tools start with libraries of their own."""
    for tool in tools:
        program = tool.with_name(tool.name + ".program")
        tool.rename(program)
        # By its place from the tool's, so that the folder can be renamed.
        up = "/".join([".."] * (len(tool.parent.relative_to(libraries.parent).parts)))
        folder = f'"$(dirname "$0")/{up}/{libraries.name}/usr/lib/x86_64-linux-gnu"'
        write_wrapper(tool, [f"{folder}/ld-linux-x86-64.so.2", "--library-path", folder, f'"$0.program"'])


def download(release, into):
    """Unpacks the packages into the empty folder `into`."""
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise Missing(f"the kernel's headers are Debian packages and {tool} is not here.")
    apt = into / "apt"
    options = fetch_kernel.start_apt(apt)
    run(["apt-get", *options, "download", "-q", *packages_of(release)], cwd=apt)
    unpack(apt, into / "headers")
    kbuild = next((into / "headers/usr/lib").glob("linux-kbuild-*"))
    foreign = [kbuild / tool for tool in TOOLS if not runs(kbuild / tool)]
    if foreign:
        options = fetch_kernel.start_apt(apt, "trixie")
        run(["apt-get", *options, "download", "-q", *LIBRARIES], cwd=apt)
        unpack(apt, into / "libraries")
        use_libraries(foreign, into / "libraries")
    shutil.rmtree(apt)


def unpack(apt, into):
    for archive in apt.glob("*.deb"):
        run(["dpkg-deb", "-x", str(archive), str(into)])
        archive.unlink()


def fetch_headers(image, cache):
    """The folder that holds headers/ of the kernel; raises Missing."""
    release = release_of(image)
    folder = cache / f"headers-{release}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache, prefix="fetching.") as aside:
            fresh = Path(aside) / "headers"
            fresh.mkdir()
            download(release, fresh)
            try:
                fresh.rename(folder)
            except OSError:
                if not folder.exists():  # Else another run was faster.
                    raise
    return folder


def write_compiler(path, compiler):
    """A compiler that leaves out what it does not know."""
    known = [word for word in UNKNOWN_TO_OLDER_COMPILERS if subprocess.run(
        [compiler, word, "-E", "-x", "c", "/dev/null"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        check=False).returncode == 0]
    unknown = [word for word in UNKNOWN_TO_OLDER_COMPILERS if word not in known]
    leave_out = f'case $word in {" | ".join(unknown)}) ;; *) set -- "$@" "$word" ;; esac' if unknown else \
        'set -- "$@" "$word"'
    path.write_text(f'#!/bin/sh\nfor word; do shift; {leave_out}; done\nexec {compiler} "$@"\n')
    path.chmod(0o755)


def make_words(headers, release, work, compiler):
    source = headers / "headers/usr/src"
    common = next(source.glob("linux-headers-*-common"))
    kernel = source / f"linux-headers-{release}"
    # Signing and type information want tools that nobody needs here.
    return ["make", "-C", str(kernel), "-f", str(common / "Makefile"), f"KBUILD_OUTPUT={kernel}", f"M={work}",
            f"CC={compiler}", "CONFIG_DEBUG_INFO_BTF_MODULES=", "CROSS_COMPILE=", "modules"]


def build(image, source, into, cache):
    """Compiles the module in the folder `source`; returns its path below `into`."""
    for tool, package in (("make", "make"), ("gcc", "gcc")):
        if not shutil.which(tool):
            raise Missing(f"compiling the stand-in needs {tool} (package {package}).")
    release = release_of(image)
    headers = fetch_headers(image, cache)
    work = into / release
    work.mkdir(parents=True, exist_ok=True)
    for file in (*source.glob("*.[ch]"), source / "Makefile"):
        if not (work / file.name).exists() or (work / file.name).read_bytes() != file.read_bytes():
            shutil.copyfile(file, work / file.name)  # What is as it was is not compiled again.
    compiler = work / "compiler"
    if not compiler.exists():
        write_compiler(compiler, "gcc")
    done = subprocess.run(make_words(headers, release, work.resolve(), compiler.resolve()), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    modules = sorted(work.glob("*.ko"))
    if done.returncode != 0 or len(modules) != 1:
        wrong = [line for line in done.stdout.splitlines() if "error" in line.lower()][:3] or ["make said nothing"]
        raise Missing(f"the stand-in does not compile for the kernel {release} with this compiler: {'; '.join(wrong)}")
    return modules[0]


def main(arguments):
    if len(arguments) != 3:
        print("usage: kernel_module.py SOURCE INTO", file=sys.stderr)
        return 2
    cache = fetch_kernel.default_cache()
    try:
        print(build(fetch_kernel.fetch(cache), Path(arguments[1]), Path(arguments[2]), cache))
    except Missing as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
