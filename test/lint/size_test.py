# SPDX-License-Identifier: Apache-2.0
"""What size.py counts."""

import sys
import unittest

import size


class SizeTest(unittest.TestCase):
    def test_tests_and_prose_are_no_product(self):
        for name in ("src/plan/plan.cc", "python/penstock/__init__.py", "tools/k8s/rules.h", "bench/page.js"):
            self.assertTrue(size.is_product(name), name)
        for name in ("src/plan/plan_test.cc", "python/tests/world.py", "test/lint/lint.py", "docs/walk.py", "README.md",
                     "integrations/vllm/test_it.py"):
            self.assertFalse(size.is_product(name), name)

    def test_the_librarys_self_test_of_a_path_is_a_product(self):
        self.assertTrue(size.is_product("src/path/pipeline/self_test.cc"))

    def test_headers_that_tests_alone_include_are_no_product(self):
        sources = {"kv/store_test.cc": '#include "kv/fake.h"\n', "kv/store.cc": '#include "kv/store.h"\n',
                   "kv/fake.h": '#include "kv/deeper.h"\n', "kv/deeper.h": "", "kv/store.h": "",
                   "include/penstock/face.h": "",
                   "test/abi/a.cc": '#include "penstock/face.h"\n#include "kv/store.h"\n'}
        self.assertEqual(size.products_of({**sources, "kv/deeper_test.cc": '#include "kv/deeper.h"\n'}),
                         {"kv/store.h", "kv/store.cc", "include/penstock/face.h"})

    def test_a_room_keeps_its_name_where_its_folder_moves(self):
        self.assertEqual(size.room_of("tools/k8s/lint.cc"), size.room_of("k8s/lint.cc"))
        self.assertEqual(size.room_of("tools/check/check.cc"), "tools")

    def test_functions_are_measured_from_their_first_line_to_their_last(self):
        room = size.measured("a.cc", "int twice(int x) {\n  return 2 * x;\n}\n\nint one() { return 1; }\n")
        self.assertEqual((room.files, room.functions), ([5], [3]))
        self.assertEqual(size.measured("a.py", "def one():\n    return 1\n").functions, [2])

    def test_median_and_p90(self):
        self.assertEqual(size.median_and_p90(list(range(1, 12))).split(), ["6", "10"])
        self.assertEqual(size.median_and_p90([]).split(), ["-", "-"])


if __name__ == "__main__":
    sys.exit(unittest.main())
