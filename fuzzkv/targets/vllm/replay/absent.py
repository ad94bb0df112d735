"""Blocks that attention leaves out: the metadata of every step is changed so that a page that isn't resident isn't read.

Works on a model runner of vLLM that it is handed; the runner's blocks and their numbers stay as they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any


class Absent:
    """The marks, one a block, and the wrappers around a runner's builders of attention metadata, which do nothing while there is no
    mark. ``block`` is tokens a block, ``pages`` the highest block number."""

    def __init__(self, runner: Any, pages: int, block: int, device: Any) -> None:
        import torch

        self._torch, self.pages, self.block, self.device = torch, pages, block, device
        self.blocks = torch.zeros(pages + 1, dtype=torch.bool, device=device)
        self.reduced = 0
        """Builds that were given fewer blocks."""
        self._any = False
        self._builders = [
            b for groups in runner.attn_groups for group in groups for b in group.metadata_builders
        ]
        self._inner: list[Callable[..., Any]] = []

    def put_on(self) -> None:
        """Wrap the builders."""
        if not self._inner:
            for builder in self._builders:
                self._inner.append(builder.build)
                builder.build = self._leaving_out(builder.build)

    def take_off(self) -> None:
        """Leave the builders as they were."""
        for builder, inner in zip(self._builders, self._inner, strict=False):
            builder.build = inner
        self._inner = []

    def mark(self, ids: Sequence[int], *, absent: bool) -> None:
        """Leave blocks out of attention from the next step on, or read them again."""
        if len(ids):
            self.blocks[self._torch.tensor(list(ids), dtype=self._torch.long, device=self.device)] = absent
            self._any = bool(self.blocks.any())

    def _leaving_out(self, build: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a metadata builder's ``build`` so that absent blocks are not read."""
        torch = self._torch

        def wrapped(common_prefix_len: int, common_attn_metadata: Any, *args: Any, **kwargs: Any) -> Any:
            m = common_attn_metadata
            if not self._any:
                return build(common_prefix_len, m, *args, **kwargs)
            table, lens = m.block_table_tensor, m.seq_lens
            rows = min(table.shape[0], lens.shape[0])
            columns = torch.arange(table.shape[1], device=table.device)
            used = columns[None, :] < ((lens[:rows] + self.block - 1) // self.block)[:, None]
            drop = used & self.blocks[table[:rows].long().clamp(0, self.pages)]
            count = drop.sum(1)
            if not bool(count.any()):
                return build(common_prefix_len, m, *args, **kwargs)
            self.reduced += 1
            short = table.clone()
            short[:rows] = table[:rows].gather(1, torch.argsort(drop.to(torch.int8), dim=1, stable=True))
            shorter = lens.clone()
            shorter[:rows] -= (count * self.block).to(lens.dtype)
            change: dict[str, Any] = {"block_table_tensor": short, "seq_lens": shorter}
            host = shorter.cpu()
            change["max_seq_len"] = int(host.max())
            names = {f.name for f in dataclasses.fields(m)}
            for name in ("seq_lens_cpu_upper_bound", "_seq_lens_cpu"):
                if name in names and getattr(m, name) is not None:
                    change[name] = host[: getattr(m, name).shape[0]].to(getattr(m, name).dtype)
            for name in ("_num_computed_tokens_cache", "_num_computed_tokens_cpu"):
                if name in names:
                    change[name] = None
            return build(0, dataclasses.replace(m, **change), *args, **kwargs)

        return wrapped
