"""Listen on each port and send everything back."""

from __future__ import annotations

import asyncio
import sys


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send received data back."""
    while data := await reader.read(1024):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve() -> None:
    """Listen until stopped."""
    servers = [await asyncio.start_server(answer, None, int(port)) for port in sys.argv[1:]]
    await asyncio.gather(*(server.serve_forever() for server in servers))


asyncio.run(serve())
