# SPDX-License-Identifier: Apache-2.0

"""Load format "penstock" of SGLang: `sglang serve --model-path MODEL --load-format penstock`.

SGLang finds `register` by the entry point group sglang.srt.plugins.
"""

from __future__ import annotations

import functools
from typing import Any

from penstock.integrations.common import client

__all__ = ["register"]


@functools.cache
def register() -> None:
    """Registers the load format with SGLang's hooks. SGLang calls it in every process."""
    choices = client("sglang.srt.arg_groups.choices", "SGLang")
    hooks = client("sglang.srt.plugins.hook_registry", "SGLang")
    choices.add_load_format_choices(["penstock"])
    # The formats are a closed enumeration; but a format may be a loader's class.
    hooks.HookRegistry.register("sglang.srt.configs.load_config.LoadConfig._verify_load_format", _by_class,
                                hooks.HookType.BEFORE)


def _by_class(load_config: Any) -> None:
    if isinstance(load_config.load_format, str) and load_config.load_format.lower() == "penstock":
        from penstock.integrations.sglang_loader import PenstockModelLoader

        load_config.load_format = PenstockModelLoader
