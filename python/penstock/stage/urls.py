# SPDX-License-Identifier: Apache-2.0

"""What is shown and kept of a URL: nothing that opens a door.

User and password, queries (signatures, tokens, keys) and fragments are left out of whatever people, files and logs get
to see, whichever source a URL is of.
"""

from __future__ import annotations

import hashlib
import re
from urllib.parse import unquote

# A quotation mark ends it, but for one that a password, a signature or a name goes on behind.
URL = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*://(?:\S*@)?(?:[^\s'"<>]|['"]+(?=[\w%&=/+~-]))*""")
BEHIND = ":,;.)"  # What ends a sentence's URL, and is none of it.
# What libraries say of a request beside its URL: parameters and headers, and what they are set to.
SECRET = re.compile(r"""(?ix) (?<![a-z]) ( (?: [\w-]*(?:token|signature|password|secret|credential)[\w-]* | sig |
    passwd | pwd | (?:[\w-]+[_-])?key(?:[_-]?id)? | apikey | x-[\w-]+ | authorization ) ['"]? = | (?: x-[\w-]+ |
    (?:proxy-)?authorization | cookie ) ['"]? : ) \s* (?: (?:bearer|basic|digest)\s+ )?
    (?: '[^']*' | "[^"]*" | [^\s&,;'")}\]]+ )""")
# Parts of a signed URL that are others each time it is signed.
OF_SIGNATURES = re.compile(r"(?i)(x-(amz|goog|oss|cos)-.*|signature|sig|expires|se|st|awsaccesskeyid|googleaccessid|"
                           r"policy|key-pair-id)=.*")

IS_ORIGIN = re.compile(r"[^?#@]*\?\.\.\.[0-9a-f]{8}")


def shown_of(said: str) -> str:
    """A URL without what may be secret in it; a path as it is."""
    scheme, mark, rest = said.partition("://")
    if not mark or scheme == "file":
        return said
    host, slash, path = re.split("[?#]", rest, maxsplit=1)[0].partition("/")
    host = host.rpartition("@")[2]
    if not re.fullmatch(r"(\[[^]]*\]|[^:]*)(:\d*)?", host):  # A password that has a slash in it, or a question mark.
        return f"{scheme}://..."
    return f"{scheme}://{host}{slash}{without_secrets(path)}"


def origin_of(said: str) -> str:
    """What tells this URL from others that are shown the same: a checksum of its query, signatures left out."""
    if IS_ORIGIN.fullmatch(said):
        return said
    behind = re.split("[?#]", said, maxsplit=1)[1:] if shown_of(said) != said else []
    words = [word for each in behind for word in re.split("[&#]", each) if word and not OF_SIGNATURES.fullmatch(word)]
    mark = f"?...{hashlib.sha256('&'.join(words).encode(errors='replace')).hexdigest()[:8]}" if words else ""
    return shown_of(said) + mark


def without_secrets(text: str) -> str:
    """The text, with its URLs as they are shown."""
    return URL.sub(lambda found: _shown_within(found[0]), text)


def _shown_within(found: str) -> str:
    body = found.rstrip(BEHIND)
    return shown_of(body) + found[len(body):]


def said_without_secrets(text: str, url: str = "") -> str:
    """What a library says of a request that failed, without the request's secrets, and without those of the URL: it may
    name parts of that by themselves."""
    for part in sorted(_hidden_in(url), key=len, reverse=True):
        text = text.replace(part, "...")
    return SECRET.sub(r"\1...", without_secrets(text))


def _hidden_in(url: str) -> set[str]:
    scheme, mark, rest = url.partition("://")
    if not mark or scheme == "file":
        return set()
    user, _, password = (words := re.split("[?#]", rest))[0].partition("/")[0].rpartition("@")[0].partition(":")
    alone = [each for each in (user, password) if len(each) > 3]  # A shorter one would be found in other words.
    found = {f"{user}:{password}" if password else user, *words[1:], *alone}
    return {each for one in found if one for each in (one, unquote(one))}
