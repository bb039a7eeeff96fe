# SPDX-License-Identifier: Apache-2.0

"""Makes a trace of prompts with long shared beginnings, for `penstock kv bench --trace`: conversations that go on.

    python bench/python/kv_trace.py 2000 > trace.jsonl

Each conversation begins with one of a few system prompts, which it shares with others; each turn's prompt is all that
was said before and some tokens more. Many go on at the same time. The form is that of Mooncake's public traces.
"""

import argparse
import itertools
import json
import random

BLOCK = 512


class Conversation:
    def __init__(self, source, numbers, systems):
        self._numbers = numbers
        self.tokens = 0
        self.blocks = []
        system = source.choice(systems)
        self.tokens, self.blocks = len(system) * BLOCK, list(system)
        self.turns = min(1 + int(source.expovariate(1 / 4)), 30)

    def say(self, tokens):
        self.tokens += tokens
        while len(self.blocks) < self.tokens // BLOCK:
            self.blocks.append(next(self._numbers))


def trace(requests, at_once, seed):
    source, numbers = random.Random(seed), itertools.count()
    systems = [[next(numbers) for _ in range(source.randint(1, 8))] for _ in range(8)]
    under_way = []
    for _ in range(requests):
        while len(under_way) < at_once:
            under_way.append(Conversation(source, numbers, systems))
        one = source.choice(under_way)
        one.say(min(int(source.lognormvariate(6.5, 1.2)) + 1, 60_000))  # The question, or a document.
        # What is left of the tokens is in a block of its own that no other prompt has.
        rest = [next(numbers)] if one.tokens % BLOCK else []
        yield {"timestamp": 0, "input_length": one.tokens, "output_length": 1, "hash_ids": one.blocks + rest}
        one.say(int(source.expovariate(1 / 250)) + 1)  # The answer.
        one.turns -= 1
        if one.turns == 0 or one.tokens > 120_000:
            under_way.remove(one)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests", type=int)
    parser.add_argument("--at-once", type=int, default=50, help="conversations that go on at the same time")
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    for each in trace(words.requests, words.at_once, words.seed):
        print(json.dumps(each, separators=(",", ":")))
