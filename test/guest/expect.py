# SPDX-License-Identifier: Apache-2.0

"""What can come of an operation on device memory, and whether a result is that.

A case is a line of cases.py. Three witnesses have their say in an outcome: contents (seen in the guest, and in the
image from outside), the data pointers that the emulator logged, and the page cache with the kernel's own mappings.
"""

import json
from collections import Counter
from dataclasses import dataclass, field

MARKS_PER_CASE = 32
PAGE = 4096


@dataclass(frozen=True)
class Outcome:
    name: str
    errors: tuple = ("",)  # Any of these; "" is success.
    arrives: bool = True  # All bytes, and the right ones.
    by_dma: bool | None = True  # Every byte had a data pointer in the device's memory; else none had. None: some.


DIRECT = Outcome("direct")
# Success, right bytes, and the CPU moved them: what must never be called direct.
COPIED = Outcome("copied by the CPU", by_dma=False)
# Success, and wrong bytes: why success proves nothing.
LOST = Outcome("lost in silence", arrives=False)
# An error, and a part of it was done: what a retry must not trust.
HALF_DONE = Outcome("half done", ("EINVAL", "EREMOTEIO"), arrives=False, by_dma=None)


def refused(*errors):
    return Outcome("refused", errors, arrives=False, by_dma=False)


OPERATIONS = ("read", "read_page", "read_large", "read_ring", "write", "write_large", "write_ring")


def every(outcome, **others):
    """The outcome for each operation that asks for direct I/O; the two that never are direct stay what they are."""
    return {**dict.fromkeys(OPERATIONS, outcome), "read_buffered": COPIED, "register": refused("EFAULT"), **others}


@dataclass(frozen=True)
class Probe:
    """All operations of a probe on one target."""
    name: str
    target: str
    expect: dict
    prepare: str = ""
    program: str = "peer_probe"

    def script(self, mark):
        return f"probe {self.name} {mark} {self.target} {self.program}"


@dataclass(frozen=True)
class Answers:
    """A command that prints a word for each of its steps: an error's name, or what it found."""
    name: str
    command: str
    expect: dict  # {step: word}
    prepare: str = ""

    def script(self, _mark):
        return self.command


def unbind(name, target, expect):
    """What is left of a mapping whose device lost its driver. The last case of its machine."""
    return Answers(name, f'peer_probe unbind {name} "$PEER" {target}', expect)


@dataclass(frozen=True)
class Tool:
    """A command line in the guest, with $PEER set; `dma` is what it must move into or out of the device, in bytes."""
    name: str
    command: str
    status: int = 0
    says: tuple = ()
    facts: dict = field(default_factory=dict)  # {"keys.of.the.json": value}, of what it prints.
    dma: int | None = 0  # None where it depends on when, but is no less than `dma_min`.
    dma_min: int = 0
    total: dict = field(default_factory=dict)  # {"key": bytes}: the sum of all figures below it.
    file: str = ""  # Of which no page may get into the page cache.
    prepare: str = ""

    def script(self, mark):
        return f"tool {self.name} {mark} '{self.command}' {self.file}"

    def wrong_with(self, result, said, dma):
        if result["exit"] != self.status:
            yield f"ended with {result['exit']} instead of {self.status}"
        for words in self.says:
            if words not in said:
                yield f"does not say {words!r}"
        found = parsed(said)
        if (self.facts or self.total) and found is None:
            yield "prints no JSON document"
            return
        for keys, value in self.facts.items():
            if look_up(found, keys) != value:
                yield f"{keys} is {look_up(found, keys)!r} instead of {value!r}"
        for keys, value in self.total.items():
            if (sum_of := total_of(look_up(found, keys))) != value:
                yield f"{keys} has {sum_of} in all instead of {value}"
        if self.dma is not None and dma != self.dma:
            yield f"the emulator saw {dma} bytes of DMA to the device instead of {self.dma}"
        if dma < self.dma_min:
            yield f"the emulator saw {dma} bytes of DMA to the device instead of {self.dma_min} and more"
        if self.file and result["cached"] > 0:
            yield f"the page cache grew by {result['cached']} pages"


@dataclass(frozen=True)
class Written:
    """What cufile_client's word number `seed` wrote is in the image of the drive."""
    name: str
    drive: str
    at: int
    size: int
    seed: int

    def wrong_with(self, folder):
        with open(folder / f"{self.drive}.img", "rb") as image:
            image.seek(self.at)
            found = image.read(self.size)
        expected = bytes((i * 31 + i // 257 + self.seed * 7 + 1) & 255 for i in range(self.size))
        if found != expected:
            yield f"seen from outside, the image of {self.drive} lacks what was written"


@dataclass(frozen=True)
class InBar:
    """Each page of a piece of the drive is in the memory behind the BAR so often: once, where the drive put it, if
    nothing copied it and nothing else has read it."""
    name: str
    drive: str
    at: int
    size: int
    times: int = 1

    def wrong_with(self, folder):
        with open(folder / f"{self.drive}.img", "rb") as image:
            image.seek(self.at)
            wanted = image.read(self.size)
        memory = (folder / "bar").read_bytes()
        counts = Counter(memory[at:at + PAGE] for at in range(0, len(memory), PAGE))
        least = min(counts[wanted[at:at + PAGE]] for at in range(0, self.size, PAGE))
        if least != self.times:
            yield f"seen from outside, a page of {self.drive} is {least} times behind the BAR instead of {self.times}"


def parsed(said):
    """The JSON document in what a tool said; other lines may come before it."""
    try:
        return json.loads(said[said.index("{"):])
    except ValueError:
        return None


def look_up(document, keys):
    """What a.b.0.c names in a document; None where nothing is there."""
    for key in keys.split("."):
        if isinstance(document, list) and key.isdigit() and int(key) < len(document):
            document = document[int(key)]
        else:
            document = document.get(key) if isinstance(document, dict) else None
    return document


def total_of(document):
    """The sum of all figures in a document."""
    if isinstance(document, dict):
        return sum(total_of(each) for each in document.values())
    return document or 0


def wrong_with(result, outcome, dma):
    """Each way in which the result of a probe's operation is not the outcome, as words."""
    error, size, succeeded = result["error"], result["size"], "" in outcome.errors
    if error not in outcome.errors:
        yield f"gave {error or 'success'} instead of {' or '.join(outcome.errors) or 'success'}"
    if succeeded and not error and result["bytes"] != size:
        yield f"moved {result['bytes']} of {size} bytes"
    if result["equal"] != outcome.arrives:
        yield "the bytes are right" if result["equal"] else "the bytes are wrong"
    if outcome.by_dma is None and not 0 < dma < size:
        yield f"the emulator saw {dma} bytes of DMA to the device instead of a part of {size}"
    if outcome.by_dma is not None and dma != (size if outcome.by_dma else 0):
        yield f"the emulator saw {dma} bytes of DMA to the device instead of {size if outcome.by_dma else 0}"
    if result["mappings"] >= 0 and not error and (result["mappings"] > 0) != outcome.by_dma:
        yield f"the kernel mapped device memory {result['mappings']} times"
    if outcome.by_dma and result["cached"] != 0:
        yield f"the page cache grew by {result['cached']} pages"


def wrong_outside(result, outcome, content, pattern):
    """Whether a write's bytes are in the image, or the old ones where it was refused."""
    at, size = result["offset"], result["size"]
    is_new = content[at:at + size] == pattern(size, at, result["salt"])
    if is_new != outcome.arrives:
        yield "seen from outside, the image " + ("has the bytes" if is_new else "lacks the bytes")
    is_old = content[at:at + size] == pattern(size, at)
    if outcome.by_dma is False and not outcome.arrives and not is_old:
        yield "seen from outside, a refused write changed the image"
