"""Arrow's stream of messages, read with suspicion."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

from scff.models.tensors import Misfit

__all__ = ["read_batches"]

_MAGIC = b"ARROW1\x00\x00"
_MOST_BATCHES = 1_000_000


def read_batches(content: memoryview, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of a file that has this schema, each checked in full.

    What the footer says is not looked at: it may point anywhere. Nor are compressed batches: they take memory that the
    file does not.

    Raises
    ------
    Misfit
        If it is another file.
    """
    if bytes(content[:8]) != _MAGIC:
        raise Misfit("rows that are no Arrow file")
    try:
        messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(content[8:]))
        if not pa.ipc.read_schema(messages.read_next_message()).equals(schema, check_metadata=False):
            raise Misfit("rows of other types than table says")
        for message in _until_the_end(messages):
            if message.type != "record batch" or _is_compressed(message.metadata.to_pybytes()):
                raise Misfit("rows that are not plain rows")
            batch = pa.ipc.read_record_batch(message, schema)
            batch.validate(full=True)
            yield batch
    except (pa.ArrowException, OSError, ValueError, KeyError, struct.error) as error:
        raise Misfit(f"rows that cannot be read ({(str(error).splitlines() or [''])[0][:80]})") from error


def _until_the_end(messages: pa.ipc.MessageReader) -> Iterator[pa.ipc.Message]:
    for _ in range(_MOST_BATCHES):
        try:
            yield messages.read_next_message()
        except StopIteration:
            return


def _is_compressed(metadata: bytes) -> bool:
    """Whether a record batch says that its buffers are compressed, which Arrow itself would tell too late.

    Flatbuffers: a table begins with the distance back to the list of its fields' places; 0 is a field that is not
    there. The message's header is its third field, the compression of a record batch its fourth.
    """
    message = struct.unpack_from("<I", metadata)[0]
    header = message + _field(metadata, message, 2)
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return _field(metadata, batch, 3) != 0


def _field(metadata: bytes, table: int, which: int) -> int:
    places = table - struct.unpack_from("<i", metadata, table)[0]
    if places < 0:
        raise Misfit("rows that are not plain rows")
    size = struct.unpack_from("<H", metadata, places)[0]
    where = 4 + 2 * which
    return int(struct.unpack_from("<H", metadata, places + where)[0]) if where < size else 0
