# SPDX-License-Identifier: Apache-2.0

"""Recognizes a file by its first bytes. For a file without weights the error names its kind and a remedy."""

from __future__ import annotations

import os
import re
from pathlib import Path

from penstock.weights.tensors import WeightsError
from penstock.weights.torch_views import ANEW
from penstock.weights.zips import SIGNATURE

HEAD_BYTES = 512
LFS = re.compile(rb"version https?://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/")
LFS_SIZE = re.compile(rb"\nsize (\d{1,20})\s")
LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"
PICKLE = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
SPACES = b"\xef\xbb\xbf \t\r\n"  # Blanks, and a byte order mark, as at the start of web pages.
ANOTHER = "name the file of weights itself"

# Kinds of files by their first bytes.
KINDS = (
    (b"GGUF", f"this is a GGUF file, as llama.cpp reads them: {ANOTHER}, as safetensors"),
    (b"GGML", f"this is a GGML file, as llama.cpp once read them: {ANOTHER}, as safetensors"),
    (b"\x89HDF\r\n\x1a\n", "this is an HDF5 file, as Keras writes: load it there, and save its weights as safetensors"),
    (b"\x93NUMPY", "this is an array of numpy: load it with numpy.load"),
    (b"\x1f\x8b", "this is compressed by gzip: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "this is compressed by zstd: unpack it first"),
    (b"BZh", "this is compressed by bzip2: unpack it first"),
    (b"\xfd7zXZ\0", "this is compressed by xz: unpack it first"),
)
PAGES = ((b"<!doctype html", "HTML"), (b"<html", "HTML"), (b"<?xml", "XML"), (b"<error", "XML"))


def is_torch_file(file: Path, fd: int) -> bool:
    """Whether a file begins like a torch.save file, which is a zip archive. Raises WeightsError if its first bytes show
    another kind that is neither that nor safetensors."""
    head = os.pread(fd, HEAD_BYTES, 0)
    if head.startswith(SIGNATURE):
        return True
    # A safetensors file's first 8 bytes are a size, which may look like anything.
    message = None if head[8:9] == b"{" else _told(head)
    if message is not None:
        raise WeightsError(f"{file}: {message}")
    return False


def _told(head: bytes) -> str | None:
    text = head.lstrip(SPACES).lower()
    if head.startswith(LEGACY):
        return f"torch.save wrote this in the form that it had before 1.6: {ANEW}"
    if head.startswith(PICKLE):
        return ("this is a pickle, no file of torch.save: where its origin is trusted, load it with pickle.load and "
                "save its tensors with torch.save")
    if head[257:262] == b"ustar":
        return "this is a tar archive, perhaps of a torch before 0.4 or a NeMo model: unpack it"
    if LFS.match(text):
        size = LFS_SIZE.search(text)
        return (f"this is a pointer of git-lfs{f' to {int(size[1])} bytes' if size else ''}, and not the file itself: "
                "run `git lfs pull` in its folder")
    for begin, name in PAGES:
        if text.startswith(begin):
            return (f"this is a page of {name}, which a server sent in place of the file: look at it for the reason "
                    "(a login, a wrong address), and download the file anew")
    if text.startswith((b"{", b"[")):
        return f"this is text, JSON perhaps: {ANOTHER}"
    return next((what for begin, what in KINDS if head.startswith(begin)), None)
