#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Fetches a Linux kernel that can do peer-to-peer DMA for user space, and unpacks it into a cache.

    fetch_kernel.py [CACHE [FLAVOUR]]

Prints the path of the kernel image, or one sentence and exit 77 where it cannot be had. The packages come from the
suite `trixie-backports` of the Debian mirror that this machine's apt is configured with, by a private apt directory:
nothing is installed and no setting of the system is changed. apt checks the signatures. What is in the cache is used
without asking anybody. PENSTOCK_GUEST_KERNEL=FILE names a kernel image of your own instead, with its modules below
the same directory.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SUITE = "trixie-backports"
# The cloud flavour has PCI_P2PDMA, NVMe and ext4 built in; md, XFS, loop and virtio-blk are in its package of modules.
CLOUD = "cloud-amd64"
# It has no RDMA made by software, which this one has, in a package of modules of 159 MB.
GENERIC = "amd64"
# What the expectations were measured with; another is taken only where it cannot be had.
PREFERRED = "linux-binary-7.2.12+deb13-"
NAME = re.compile(r"linux-(?:binary|image)(?:-unsigned)?-(\d+)\.(\d+)(?:\.(\d+))?"
                  r"\+deb\d+-(cloud-amd64|amd64)(?:-unsigned)?")
# 6.16 fails transfers of more than a page; before, Debian built kernels without the feature.
OLDEST = (6, 17, 0)
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
APT_SECONDS = 180


class Missing(Exception):
    """What stands in the way, as one sentence for whoever reads why a test was skipped."""


def default_cache():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def version_of(package, flavour=CLOUD):
    match = NAME.fullmatch(package)
    return tuple(int(part or 0) for part in match.groups()[:3]) if match and match[4] == flavour else None


def choose_package(names, flavour=CLOUD):
    """The preferred package where it is among the names, else the newest that fits, else None."""
    fitting = [name for name in names if (version_of(name, flavour) or (0,)) >= OLDEST]
    if PREFERRED + flavour in fitting:
        return PREFERRED + flavour
    # Of one version the signed build, whose name is the shorter one.
    return max(fitting, key=lambda name: (version_of(name, flavour), -len(name)), default=None)


def choose_mirror(index_targets):
    """The Debian archive among lines of `URI ORIGIN LABEL`; the fields are empty before the first `apt-get update`."""
    for line in index_targets.splitlines():
        uri, *who = line.split(" ")
        if "security" not in uri and (who == ["Debian", "Debian"] or uri.rstrip("/").endswith("/debian")):
            return uri
    return None


def run(words, **options):
    try:
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=APT_SECONDS, **options).stdout
    except subprocess.TimeoutExpired:
        raise Missing(f"no kernel could be fetched: {words[0]} did not end within {APT_SECONDS} seconds.") from None
    except subprocess.CalledProcessError as failed:
        said = (failed.stderr.strip() or "nothing").splitlines()[-1]
        raise Missing(f"no kernel could be fetched: {words[0]} ended with {failed.returncode}: {said}") from None


def private_apt(at, mirror, suite=SUITE):
    """The options that make apt work in the directory `at`, with one source."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (at / folder).mkdir(parents=True, exist_ok=True)
    (at / "status").touch()
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    (at / "sources.list").write_text(f"deb {signed}{mirror} {suite} main\n")
    settings = {
        "Dir::Etc::sourcelist": at / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::lists": at / "lists",
        "Dir::State::status": at / "status",
        "Dir::Cache": at / "cache",
        "APT::Architecture": "amd64",
        "APT::Architectures": "amd64",
        "APT::Sandbox::User": "root",  # A user of its own could not write where this user's cache is.
        "APT::Update::Error-Mode": "any",  # Else being offline is only a warning.
        "Acquire::Languages": "none",
        "Acquire::AllowInsecureRepositories": "false",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def start_apt(at, suite=SUITE):
    """Has apt know a suite of the configured mirror in the directory `at`; returns the options that use it."""
    targets = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)"])
    mirror = choose_mirror(targets)
    if mirror is None:
        raise Missing("apt is configured with no Debian mirror: "
                      "set PENSTOCK_GUEST_KERNEL to a kernel image with CONFIG_PCI_P2PDMA.")
    options = private_apt(at, mirror, suite)
    run(["apt-get", *options, "update", "-q"])
    return options


def download(into, flavour):
    """Downloads the package and unpacks it into the empty directory `into`; returns the package's name."""
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if not shutil.which(tool):
            raise Missing(f"the kernel is a Debian package and {tool} is not here: "
                          "set PENSTOCK_GUEST_KERNEL to a kernel image with CONFIG_PCI_P2PDMA.")
    apt = into / "apt"
    options = start_apt(apt)
    names = run(["apt-cache", *options, "pkgnames", "linux-"]).split()
    package = choose_package(names, flavour)
    if package is None:
        raise Missing(f"{SUITE} of the configured mirror has no kernel for {flavour} from 6.17 on.")
    # Older kernels carry their modules in the same package.
    modules = re.sub(r"-(binary|image)(-unsigned)?-", "-modules-", package).removesuffix("-unsigned")
    run(["apt-get", *options, "download", "-q", package, *({modules} & set(names))], cwd=apt)
    for archive in apt.glob("*.deb"):
        run(["dpkg-deb", "-x", str(archive), str(into / "kernel")])
    shutil.rmtree(apt)
    return package


def cached_kernels(cache, flavour=CLOUD):
    """Kernel images in the cache, the preferred one first, then the newest."""
    found = {path.name: image for path in cache.glob("linux-*") for image in sorted(path.glob("kernel/**/vmlinuz*"))}
    names = list(found)
    while names:
        name = choose_package(names, flavour)
        if name is None:
            return
        names.remove(name)
        yield found[name]


def fetch(cache, flavour=CLOUD):
    """The path of a kernel image; raises Missing."""
    own = os.environ.get("PENSTOCK_GUEST_KERNEL")
    if own:
        if not Path(own).is_file():
            raise Missing(f"PENSTOCK_GUEST_KERNEL names {own}, which is no file.")
        return Path(own)
    for image in cached_kernels(cache, flavour):
        return image
    cache.mkdir(parents=True, exist_ok=True)
    # Made aside and renamed, so that a download that was cut short is never taken for a kernel.
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetching.") as aside:
        fresh = Path(aside) / "package"
        fresh.mkdir()
        package = download(fresh, flavour)
        try:
            fresh.rename(cache / package)
        except OSError:
            if not (cache / package).exists():  # Else another run was faster.
                raise
    for image in cached_kernels(cache, flavour):
        return image
    raise Missing(f"the package {package} holds no kernel image.")


def main(arguments):
    try:
        print(fetch(Path(arguments[1]) if len(arguments) > 1 else default_cache(), *arguments[2:3]))
    except Missing as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
