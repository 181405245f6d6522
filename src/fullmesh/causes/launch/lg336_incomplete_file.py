"""A checkpoint or a cache file is incomplete or missing

A program read a file that is cut off or not there ({detail}). Another rank is still writing it,
several ranks write the same file, a save or download was interrupted (or only Git's LFS pointer is
there), or the nodes do not share the directory.

**Place:** the file that the traceback names, often on a shared file system

**Prove:** compare the file's size and time with those of other checkpoints, and run df -h there

**Fix:** Delete the file, and load the checkpoint before it. In the program, let rank 0 write to a
temporary name and rename the file, and call barrier() before other ranks read or delete it. Keep
caches (HF_HOME, HF_DATASETS_CACHE) on a file system that all nodes share, or fill them on each node.

**Source:** ROCm/pytorch#3659, read: Python's pickle and torch's serialization.py
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-336",
    __doc__,
    examples=(
        "[rank1]: _pickle.UnpicklingError: pickle data was truncated",
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
    ),
    patterns=(
        Pattern("pickle data was truncated", r"Error: (?P<detail>pickle data was truncated)"),
        # the text of a Git LFS pointer, or a page of HTML, instead of the file
        Pattern("invalid load key, '", r"UnpicklingError: (?P<detail>invalid load key, '[v<]')"),
        # a child of multiprocessing whose parent died prints it, too
        Pattern(
            "Ran out of input",
            r"(?:serialization\.py|torch\.load\().{0,400}EOFError: (?P<detail>Ran out of input)",
            before=4,
        ),
        Pattern(
            "PytorchStreamReader failed",
            (
                r"(?P<detail>PytorchStreamReader failed (?:reading zip archive: (?:failed finding central "
                r"directory|invalid header or archive is corrupted)|reading file [^\n:]{1,120}: file read failed))"
            ),
        ),
        Pattern("BadZipFile", r"\bBadZipFile: (?P<detail>File is not a zip file|Bad magic number)"),
        Pattern(
            "Failed to open local file",
            r"Failed to open local file '(?P<detail>[^']{1,400}\.arrow)'.{0,40}\[errno 2\]",
        ),
        Pattern("magic bytes not found", r"(?P<detail>Parquet magic bytes not found in footer)"),
        Pattern(
            "SafetensorError",
            (
                r"SafetensorError: Error while deserializing header: "
                r"(?P<detail>(?:MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeaderDeserialization|HeaderTooSmall|incomplete"
                r" metadata, file not fully covered|header too small))"
            ),
        ),
        # HDF5
        Pattern("truncated file: eof", r"(?P<detail>truncated file: eof = \d{1,20})"),
        Pattern("file signature not found", r"(?P<detail>file signature not found)"),
        Pattern(
            "invalid load key, '\\x00'", r"UnpicklingError: (?P<detail>invalid load key, '\\x00')"
        ),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    survivable=True,
    weight=82,
)
