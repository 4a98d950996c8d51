"""Folder: files on any file system that Spark reaches, seen from the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.errors import SojournError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folder:
    """A folder on a disk, HDFS or an object store; places in it are relative paths."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        session: Any = spark
        self._jvm = session._jvm
        self._make_path = self._jvm.org.apache.hadoop.fs.Path  # looked up once: it takes a while
        self._path = path.rstrip("/")
        system = self._at("").getFileSystem(session._jsc.hadoopConfiguration())
        # Hadoop's local file system starts a chmod for each file, and writes a checksum beside it.
        self._system = system.getRawFileSystem() if system.getScheme() == "file" else system

    def exists(self, place: str) -> bool:
        return bool(self._system.exists(self._at(place)))

    def names(self, place: str) -> list[str]:
        """Return the names of what is in a folder; none if it is not there."""
        if not self.exists(place):
            return []
        return [
            str(status.getPath().getName()) for status in self._system.listStatus(self._at(place))
        ]

    def move(self, place: str, to: str) -> None:
        self._system.mkdirs(self._at(to).getParent())
        if not self._system.rename(self._at(place), self._at(to)):
            raise SojournError(f"{self._path}/{place} could not be renamed to {self._path}/{to}")

    def remove(self, place: str) -> None:
        self._system.delete(self._at(place), True)

    def read(self, place: str) -> str | None:
        """Return the text of a file; None if it is not there."""
        if not self.exists(place):
            return None
        stream = self._system.open(self._at(place))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, place: str, text: str) -> None:
        """Write a file that is there whole or not at all."""
        aside = f"_staging/{place}"
        self.create(aside, text.encode())
        self.move(aside, place)

    def create(self, place: str, content: bytes) -> None:
        """Write a file where it stands; a kill can cut it short."""
        stream = self._system.create(self._at(place), True)
        try:
            stream.write(content)
        finally:
            stream.close()

    def _at(self, place: str) -> Any:
        return self._make_path(f"{self._path}/{place}".rstrip("/"))
