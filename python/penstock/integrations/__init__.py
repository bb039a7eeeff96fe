# SPDX-License-Identifier: Apache-2.0

"""Loaders on `penstock.weights` for vLLM, SGLang, Transformers and accelerate, each by what that project offers for it.

None is imported by `import penstock`, and each needs its own project alone.
"""
