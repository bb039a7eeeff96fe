# SPDX-License-Identifier: Apache-2.0

"""Removes secrets from URLs before they are shown or stored.

User and password, queries (signatures, tokens, keys) and fragments are removed from messages, files and logs, for every
kind of source.
"""

from __future__ import annotations

import hashlib
import re
from urllib.parse import unquote

# A quotation mark ends a URL, unless a password, a signature or a name continues after it.
URL = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*://(?:\S*@)?(?:[^\s'"<>]|['"]+(?=[\w%&=/+~-]))*""")
BEHIND = ":,;.)"  # Punctuation after a URL in a sentence.
# Parameters and headers with their values in libraries' messages.
SECRET = re.compile(r"""(?ix) (?<![a-z]) ( (?: [\w-]*(?:token|signature|password|secret|credential)[\w-]* | sig |
    passwd | pwd | (?:[\w-]+[_-])?key(?:[_-]?id)? | apikey | x-[\w-]+ | authorization ) ['"]? = | (?: x-[\w-]+ |
    (?:proxy-)?authorization | cookie ) ['"]? : ) \s* (?: (?:bearer|basic|digest)\s+ )?
    (?: '[^']*' | "[^"]*" | [^\s&,;'")}\]]+ )""")
# Parts of a signed URL that differ with each signature.
OF_SIGNATURES = re.compile(r"(?i)(x-(amz|goog|oss|cos)-.*|signature|sig|expires|se|st|awsaccesskeyid|googleaccessid|"
                           r"policy|key-pair-id)=.*")

IS_ORIGIN = re.compile(r"[^?#@]*\?\.\.\.[0-9a-f]{8}")


def shown_of(said: str) -> str:
    """A URL without secrets; a path unchanged."""
    scheme, mark, rest = said.partition("://")
    if not mark or scheme == "file":
        return said
    host, slash, path = re.split("[?#]", rest, maxsplit=1)[0].partition("/")
    host = host.rpartition("@")[2]
    if not re.fullmatch(r"(\[[^]]*\]|[^:]*)(:\d*)?", host):  # A password may contain a slash or a question mark.
        return f"{scheme}://..."
    return f"{scheme}://{host}{slash}{without_secrets(path)}"


def origin_of(said: str) -> str:
    """Distinguishes URLs that are shown alike: a checksum of the query without signatures."""
    if IS_ORIGIN.fullmatch(said):
        return said
    behind = re.split("[?#]", said, maxsplit=1)[1:] if shown_of(said) != said else []
    words = [word for each in behind for word in re.split("[&#]", each) if word and not OF_SIGNATURES.fullmatch(word)]
    mark = f"?...{hashlib.sha256('&'.join(words).encode(errors='replace')).hexdigest()[:8]}" if words else ""
    return shown_of(said) + mark


def without_secrets(text: str) -> str:
    """The text with secrets removed from its URLs."""
    return URL.sub(lambda found: _shown_within(found[0]), text)


def _shown_within(found: str) -> str:
    body = found.rstrip(BEHIND)
    return shown_of(body) + found[len(body):]


def said_without_secrets(text: str, url: str = "") -> str:
    """A library's error message without the request's secrets, also those of the URL, whose parts it may mention
    separately."""
    for part in sorted(_hidden_in(url), key=len, reverse=True):
        text = text.replace(part, "...")
    return SECRET.sub(r"\1...", without_secrets(text))


def _hidden_in(url: str) -> set[str]:
    scheme, mark, rest = url.partition("://")
    if not mark or scheme == "file":
        return set()
    user, _, password = (words := re.split("[?#]", rest))[0].partition("/")[0].rpartition("@")[0].partition(":")
    alone = [each for each in (user, password) if len(each) > 3]  # A shorter one would match inside other words.
    found = {f"{user}:{password}" if password else user, *words[1:], *alone}
    return {each for one in found if one for each in (one, unquote(one))}
