# SPDX-License-Identifier: Apache-2.0

"""Loaders based on `penstock.weights` for vLLM, SGLang, Transformers and accelerate, and saves by `penstock.checkpoint`
for Transformers' Trainer, Lightning and DeepSpeed, through each project's own plug-in interface.

`import penstock` imports none of them, and each needs only its own project.
"""
