"""What can go wrong with a disk, and with the files on it."""

from __future__ import annotations

from headwater.errors.kinds import Determinate


class DiskFull(Determinate):
    code = "disk_full"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"No space is left on the disk that holds {path}.",
            hint="Nothing was appended and nothing is lost. Free some space or lower the retention; the log continues.",
        )
        self.path = path


class TooManyOpenFiles(Determinate):
    """The process, or the machine, may not open another file; the disk is fine."""

    code = "too_many_open_files"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} cannot be opened: there are too many open files.",
            hint="Nothing was changed. Raise the limit (`ulimit -n`), use fewer partitions, or close other files.",
        )
        self.path = path


class StorageFailed(Determinate):
    code = "storage_failed"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"Writing to {path} failed: {reason}.",
            hint="Nothing was appended. Check the health of the disk, then append again.",
        )
        self.path, self.reason = path, reason


class FileUnreadable(Determinate):
    code = "file_unreadable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read: {reason}.",
            hint="Nothing was changed. Check its owner and permissions, and the disk, then try again.",
        )
        self.path, self.reason = path, reason


class BlobMissing(Determinate):
    """There is no blob with this name, or not any more."""

    code = "blob_missing"

    def __init__(self, name: str) -> None:
        super().__init__(f"File {name} is missing.", hint="Read again: newer files may have taken its place.")
        self.name = name


class ArchiveUnavailable(Determinate):
    """An archive does not answer, or refuses. What is stored on this machine is not affected."""

    code = "archive_unavailable"

    def __init__(self, location: str, reason: str, hint: str) -> None:
        super().__init__(f"The archive {location} cannot be used: {reason}.", hint=hint)
        self.location, self.reason = location, reason
