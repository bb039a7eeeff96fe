# SPDX-License-Identifier: Apache-2.0

"""Sources opened by fsspec. S3 and HTTP are read into a part's memory, in the listed version.

Requests run in fsspec's thread; the caller waits for them, at most TIMEOUT_S for each piece of a response.
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import re
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from penstock.stage.failures import ChangedError, StageError, TransientError, with_cause
from penstock.stage.names import check_name
from penstock.stage.source import MAGIC, REMEDY, Found, Source, md5_of, nothing_there
from penstock.stage.urls import origin_of, shown_of
from penstock.threads import Event

WHOLE_CRC32C = re.compile(r"[A-Za-z0-9+/]{6}==")  # A checksum of part checksums ends with their number.
CONTENT_RANGE = re.compile(r"bytes\s+(\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", re.IGNORECASE | re.ASCII)
TIMEOUT_S = 60
DEPTH_MAX = 64
PIECE = 1 << 20
# No retries by fsspec: stage counts tries itself.
SETTINGS: dict[str, dict[str, Any]] = {
    "s3": {"config_kwargs": {"retries": {"total_max_attempts": 1}, "connect_timeout": 20, "read_timeout": TIMEOUT_S}},
}


def find_remote(fsspec: Any, said: str, scheme: str, options: dict[str, Any]) -> Iterator[Found]:
    scheme = "s3" if scheme == "s3a" else scheme
    try:
        kind = fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        raise StageError(f"open {shown_of(said)}: {error}: {REMEDY}") from None
    except ValueError as error:
        raise StageError(f"open {shown_of(said)}: {error}: fsspec knows no such scheme: s3://, https:// and "
                         "file:// are usual") from None
    if scheme in ("http", "https"):
        options = _kept_to_server(options)
    files = kind(**{"skip_instance_cache": True, **SETTINGS.get(scheme, {}), **options})
    if scheme == "s3":
        files.retries = 1
    source = {"s3": S3, "http": Http, "https": Http}.get(scheme, Other)(files)
    path = cast(str, files._strip_protocol(said))
    yield from _listed(files, source, said, path)


def _listed(files: Any, source: Remote, said: str, path: str) -> Iterator[Found]:
    is_http = isinstance(source, Http)
    fixed = re.split("[?#]", path, maxsplit=1)[0] if is_http else path  # A query may contain slashes.
    if MAGIC.search(path) and not is_http:
        root = MAGIC.split(path)[0].rpartition("/")[0]
        is_flat = isinstance(source, S3) and "**" in path  # S3 lists all keys with this prefix.
        listed = files.glob(path, detail=True) if is_flat else dict(_matching(files, path, root))
    elif not (fixed if is_http else said).endswith("/") and (is_http or files.isfile(path)):
        listed, root = {path: files.info(path)}, fixed.rpartition("/")[0]
    else:
        is_flat = isinstance(source, S3)  # S3 lists all keys with this prefix.
        listed, root = files.find(path, detail=True) if is_flat else dict(_below(files, path)), fixed.rstrip("/")
    names = {each: each[len(root):].removeprefix("/") if each.startswith(root) else each for each in listed}
    if is_http:
        names = {each: _name_of_url(name) for each, name in names.items()}
    count = 0
    for each, facts in sorted(listed.items()):
        if facts.get("type") == "directory" or (each.endswith("/") and not facts.get("size")):
            continue  # A placeholder object for a folder.
        count += 1
        if not isinstance(source, S3):  # A listing may lack size or version, or link anywhere.
            check_name(names[each], shown_of(each))
            facts = files.info(each)
        yield source.found(each, names[each], facts)
    if not count:
        raise nothing_there(said)


def _matching(files: Any, pattern: str, root: str) -> Iterator[tuple[str, dict[str, Any]]]:
    from fsspec.utils import glob_translate  # type: ignore[import-untyped,import-not-found,unused-ignore]

    is_match = re.compile(glob_translate(pattern)).match
    depth = None if "**" in pattern else pattern.removeprefix(root).strip("/").count("/")
    return (each for each in _below(files, root, 0, depth) if is_match(each[0]))


def _below(files: Any, folder: str, depth: int = 0, last: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """last: the maximum depth. fsspec's own walk silently skips folders that it cannot list."""
    if depth == DEPTH_MAX:
        raise StageError(f"list {shown_of(folder)}: {DEPTH_MAX} folders in one another are not accepted: name a deeper "
                         "one")
    for facts in files.ls(folder, detail=True):
        name = facts["name"]
        if facts.get("type") != "directory":
            yield name, facts
        elif name.rstrip("/") != folder.rstrip("/") and depth != last:
            yield from _below(files, name, depth + 1, last)


def _name_of_url(name: str) -> str:
    return unquote(urlsplit(name).path if "://" in name else name.partition("?")[0].partition("#")[0])


class Remote:
    def __init__(self, files: Any) -> None:
        self._files = files

    def found(self, path: str, name: str, facts: dict[str, Any]) -> Found:
        url = path if "://" in path else f"{self._protocol}://{path}"
        shown, size = shown_of(url), facts.get("size")
        if not isinstance(size, int) or size < 0:
            raise StageError(f"list {shown}: the server does not tell its size: fetch it by another program, and stage "
                             "the local file")
        return Found(cast(Source, self), path, shown, origin_of(url), name, size, self._version(facts),
                     self._md5(facts))

    @property
    def _protocol(self) -> str:
        protocol = self._files.protocol
        return cast(str, protocol if isinstance(protocol, str) else protocol[0])

    def _version(self, facts: dict[str, Any]) -> str | None:
        for each in ("ETag", "etag", "LastModified", "Last-Modified", "mtime", "updated", "created"):
            if facts.get(each):
                return f"{facts['size']}-{facts[each]}"
        return None

    def _md5(self, facts: dict[str, Any]) -> str | None:
        return None

    def again(self, file: Found) -> Found:
        self._files.invalidate_cache()
        return self.found(file.path, file.name, with_cause(self._files.info, file.path))

    def is_exact(self, file: Found) -> bool:
        return False

    def has_md5(self, file: Found) -> bool:
        return False

    def checksum_of(self, file: Found) -> int | None:
        return None

    def _sync(self, request: Coroutine[Any, Any, None], stop: Event) -> None:
        """Runs it in fsspec's thread, until it is done or the run stops."""
        future = asyncio.run_coroutine_threadsafe(request, self._files.loop)
        while not stop.is_set():
            if concurrent.futures.wait([future], timeout=0.1).done:
                return future.result()
        future.cancel()
        raise StageError("stopped")


class S3(Remote):
    def _md5(self, facts: dict[str, Any]) -> str | None:
        return md5_of(facts.get("ETag"))

    def fetch(self, file: Found, begin: int, memory: memoryview, stop: Event) -> None:
        with_cause(self._sync, self._fetch(file, begin, memory), stop)

    def is_exact(self, file: Found) -> bool:
        return _tag_of(file).startswith('"')

    def again(self, file: Found) -> Found:  # Not from a listing, which is cached, and may be of an old version.
        head = self._head(file)
        return self.found(file.path, file.name, {"size": head["ContentLength"], **head})

    def has_md5(self, file: Found) -> bool:
        """ETags of objects encrypted with a KMS or client key, and of directory buckets, are not MD5s."""
        head = self._head(file)
        return not (head.get("ServerSideEncryption", "").startswith("aws:kms") or "SSECustomerAlgorithm" in head
                    or self._files.split_path(file.path)[0].endswith("--x-s3"))

    def checksum_of(self, file: Found) -> int | None:
        if file.md5 is not None:
            return None  # The MD5 was compared: saves a request.
        checksum = WHOLE_CRC32C.fullmatch(self._head(file, ChecksumMode="ENABLED").get("ChecksumCRC32C", ""))
        return int.from_bytes(base64.b64decode(checksum[0]), "big") if checksum else None

    def _head(self, file: Found, **asked: str) -> dict[str, Any]:
        bucket, key, _ = self._files.split_path(file.path)
        return dict(with_cause(self._files.call_s3, "head_object", Bucket=bucket, Key=key, **asked))

    async def _fetch(self, file: Found, begin: int, memory: memoryview) -> None:
        bucket, key, _ = self._files.split_path(file.path)
        asked = {"IfMatch": _tag_of(file)} if self.is_exact(file) else {}
        answer = await self._files._call_s3("get_object", Bucket=bucket, Key=key,
                                            Range=f"bytes={begin}-{begin + len(memory) - 1}", **asked)
        async with answer["Body"] as body:
            _check_answer(file, begin, len(memory), answer["ResponseMetadata"]["HTTPStatusCode"],
                          answer.get("ContentRange"))
            await _fill(memory, body.content.iter_chunked(PIECE) if hasattr(body, "content") else
                        body.iter_chunks(PIECE))


class Http(Remote):
    def is_exact(self, file: Found) -> bool:
        return _tag_of(file).startswith('"')  # A strong ETag.

    def fetch(self, file: Found, begin: int, memory: memoryview, stop: Event) -> None:
        with_cause(self._sync, self._fetch(file, begin, memory), stop)

    async def _fetch(self, file: Found, begin: int, memory: memoryview) -> None:
        import aiohttp

        session = await self._files.set_session()
        asked = {key: value for key, value in self._files.kwargs.items() if key != "headers"}
        headers = {**self._files.kwargs.get("headers", {}), "Accept-Encoding": "identity"}
        if len(memory) != file.size:
            headers["Range"] = f"bytes={begin}-{begin + len(memory) - 1}"
        tag = _tag_of(file)
        if self.is_exact(file):
            headers["If-Match"] = tag
        limit = aiohttp.ClientTimeout(total=None, connect=20, sock_read=TIMEOUT_S)
        async with session.get(self._files.encode_url(file.path), headers=headers, timeout=limit, **asked) as answer:
            answer.raise_for_status()
            _check_answer(file, begin, len(memory), answer.status, answer.headers.get("Content-Range"))
            if self.is_exact(file) and answer.headers.get("ETag") != tag:  # The server may ignore If-Match.
                raise ChangedError
            await _fill(memory, answer.content.iter_chunked(PIECE))


# Headers for any server. All others (keys, cookies, users' headers) are only for the server that the user named.
FOR_ANY_SERVER = {"accept", "accept-encoding", "if-match", "range", "user-agent"}


def _kept_to_server(options: dict[str, Any]) -> dict[str, Any]:
    """For fsspec's HTTP file system: a redirect to another server must not carry credentials along."""
    import aiohttp
    from fsspec.implementations.http import get_client  # type: ignore[import-untyped,import-not-found,unused-ignore]

    made, settings = options.get("get_client", get_client), dict(options.get("client_kwargs") or {})
    # A session's credentials go to every server, a request's do not.
    auth = {"auth": settings.pop("auth")} if "auth" in settings else {}

    async def client(**words: Any) -> Any:
        session = await made(**words)
        trace = aiohttp.TraceConfig()
        trace.on_request_redirect.append(_leave)
        trace.freeze()
        session.trace_configs.append(trace)
        return session

    return {**auth, **options, "client_kwargs": settings, "get_client": client}


async def _leave(session: Any, context: Any, redirect: Any) -> None:
    """Removes credentials from the headers of the redirected request."""
    answer = redirect.response.headers
    try:
        to = redirect.url.join(type(redirect.url)(answer.get("Location") or answer.get("URI") or ""))
        stays = to.origin() == redirect.url.origin()
    except ValueError:
        stays = False
    for name in [] if stays else [each for each in redirect.headers if each.lower() not in FOR_ANY_SERVER]:
        redirect.headers.popall(name, None)


class Other(Remote):
    def fetch(self, file: Found, begin: int, memory: memoryview, stop: Event) -> None:
        got = with_cause(self._files.cat_file, file.path, start=begin, end=begin + len(memory))
        if len(got) != len(memory):
            raise TransientError(f"the answer has {len(got)} bytes, and {len(memory)} were asked for")
        memory[:] = got


def _tag_of(file: Found) -> str:
    """The ETag, with its quotes."""
    return (file.version or "").partition("-")[2]


def _check_answer(file: Found, begin: int, size: int, status: int, said: str | None) -> None:
    """Checks that a response has the requested bytes: servers and caches may return others (RFC 9110, 14.4 and 15.3.7).
    said: its Content-Range. Raises StageError, or ChangedError if the file has another size.
    """
    if status == 200 and size == file.size:
        return  # The whole file, which needs no range; the bytes are counted on arrival.
    in_one_piece = f"give --part-bytes {-(-file.size // 4096) * 4096}, which takes as much memory, or fetch it by " \
                   "another program"
    if status != 206:
        raise StageError(f"fetch {file.shown}: the server serves no part of a file (it answered {status} to a Range): "
                         f"{in_one_piece}")
    found = CONTENT_RANGE.fullmatch(said or "")
    if found is None or (int(found[1]), int(found[2])) != (begin, begin + size - 1):
        got = f"with {said!r}" if said else "without a Content-Range"
        raise StageError(f"fetch {file.shown}: the server, or a cache before it, answered {got} where bytes {begin} to "
                         f"{begin + size - 1} were asked for: {in_one_piece}")
    if found[3] != "*" and int(found[3]) != file.size:
        raise ChangedError


async def _fill(memory: memoryview, pieces: AsyncIterator[bytes]) -> None:
    done = 0
    async for piece in pieces:
        if done + len(piece) > len(memory):
            raise TransientError(f"the answer has more than the {len(memory)} bytes that were asked for")
        memory[done:done + len(piece)] = piece
        done += len(piece)
    if done != len(memory):
        raise TransientError(f"the connection ended after {done} of {len(memory)} bytes")
