# SPDX-License-Identifier: Apache-2.0

"""Importing this puts nothing in the place of torchvision, whose wheel needs CUDA's libraries to be imported, and which
SGLang's image processors ask for. Transformers is imported first, and so knows that there is none."""

import sys
import types

import transformers


class _Nothing(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


assert not transformers.utils.is_torchvision_available()
for name in ("torchvision", "torchvision.transforms", "torchvision.transforms.functional"):
    sys.modules[name] = _Nothing(name)
