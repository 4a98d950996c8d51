"""Files behind URLs: an object store on loopback that speaks enough of S3 to be read."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn.cli import main
from sojourn.errors import NoSuchFile
from sojourn.replay import files

SIGNALS = pa.table({"key": ["a", "b"], "offset": [1, 2], "at_ms": [5, 6]})


class Bucket(BaseHTTPRequestHandler):
    """Answers HEAD and GET for objects, and lists them."""

    objects: dict[str, bytes]

    def do_HEAD(self) -> None:
        self._object(body=False)

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if "list-type=2" in asked.query:
            self._list(parse_qs(asked.query, keep_blank_values=True))
        else:
            self._object(body=True)

    def log_message(self, *_: Any) -> None:
        pass

    def _object(self, body: bool) -> None:
        data = self.objects.get(unquote(urlsplit(self.path).path).lstrip("/"))
        if data is None:
            self._send(404, b"", body)
            return
        status, cut = 200, data
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            status, cut = 206, data[int(found[1]) : int(found[2] or len(data)) + 1]
        self._send(status, cut, body)

    def _list(self, query: dict[str, list[str]]) -> None:
        bucket = urlsplit(self.path).path.strip("/")
        prefix = query.get("prefix", [""])[0]
        names = [name.partition("/")[2] for name in sorted(self.objects)]
        items = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(self.objects[f'{bucket}/{name}'])}"
            "</Size><LastModified>2026-01-05T12:00:00.000Z</LastModified></Contents>"
            for name in names
            if name.startswith(prefix)
        )
        count = items.count("<Key>")
        answer = (
            '<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated>'
            f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{count}</KeyCount>"
            f"{items}</ListBucketResult>"
        )
        self._send(200, answer.encode(), True)

    def _send(self, status: int, data: bytes, body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.send_header("ETag", '"1"')
        self.end_headers()
        if body:
            self.wfile.write(data)


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Three objects in a bucket, as the end of its URLs."""
    sink = io.BytesIO()
    pq.write_table(SIGNALS, sink)
    operation = (
        b'{"id": "o", "submitted_ms": 0, "timeout_ms": 9, "requires": [{"key": "a", "offset": 1}]}'
    )
    objects = {
        "shop/signals/day=1/a.parquet": sink.getvalue(),
        "shop/signals/day=2/b.csv": b"key,offset,at_ms\nc,3,7\n",
        "shop/signals/_SUCCESS": b"",
        "shop/operations.json": operation,
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Objects", (Bucket,), {"objects": objects}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    yield f"?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_url_is_a_file_a_folder_or_a_pattern(options: str) -> None:
    pytest.importorskip("pyarrow._s3fs")
    whole = files.read(f"s3a://shop/signals{options}", "signals")
    assert sorted(whole.table["key"].to_pylist()) == ["a", "b", "c"]
    some = files.read(f"s3a://shop/signals/day=*/*.csv{options}", "signals")
    assert some.table.to_pylist() == [{"key": "c", "offset": 3, "at_ms": 7}]
    one = files.read(f"s3://shop/operations.json{options}", "operations")
    assert one.table["id"].to_pylist() == ["o"]
    with pytest.raises(NoSuchFile, match="signals: there is no s3a://shop/nowhere"):
        files.read(f"s3a://shop/nowhere{options}", "signals")


def test_the_command_takes_urls(options: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow._s3fs")
    inputs = [f"s3a://shop/operations.json{options}", f"s3a://shop/signals/day=1{options}"]
    assert main(["replay", *inputs, "--quiet"]) == 0
    assert "completed             1      100 %" in capsys.readouterr().out
    assert main(["replay", *inputs, "--out", "s3a://shop/out"]) == 2
    assert "is a URL" in capsys.readouterr().err
