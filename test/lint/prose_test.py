#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What prose.py counts as a sentence, and when its ratchet fails."""

import sys
import unittest

import prose


class ProseTest(unittest.TestCase):
    def test_sentences_that_begin_without_a_subject_are_found(self):
        for comment in ("What stands for it.", "as it was prepared", "Of a primary context.", "Whether it was asked",
                        "Null: whose handle was closed.", "Where it is kept.", "(of a file, it is)"):
            self.assertEqual(len(prose.counted(f"int x;  // {comment}\n")[1]), 1, comment)

    def test_sentences_with_a_subject_pass(self):
        for comment in ("The status that ended the request.", "Where a kernel is old, the ring polls.", "As before",
                        "Asserts that it holds.", "Offers it again.", "that's how it is", "`what` may be null."):
            self.assertEqual(prose.counted(f"int x;  // {comment}\n")[1], [], comment)

    def test_a_sentence_goes_on_in_the_next_line(self):
        text = "// The handle, null\n// where none was asked for. Of these\n// one is open.\nint x;\n"
        self.assertEqual(prose.counted(text), (2, [(2, "Of these one is open.")]))

    def test_trailing_comments_are_apart_from_those_below_other_lines(self):
        text = "int x;  // The count\n        // of all files.\nint y;  // of no file at all\n"
        self.assertEqual(prose.counted(text), (2, [(3, "of no file at all")]))

    def test_an_empty_line_of_a_comment_ends_a_sentence(self):
        self.assertEqual(prose.counted("// Reads one file\n//\n// of two files\n")[1], [(3, "of two files")])
        self.assertEqual(prose.counted("/* Reads one file\n * of two files. */\n")[1], [])

    def test_strings_and_marks_are_no_prose(self):
        for text in ('f("// What is it now");\n', "// SPDX-License-Identifier: Apache-2.0\n",
                     "}  // namespace of it all\n", 'R"(\n// What is it now\n)"\n',
                     "c = '\"';  // NOLINT of all lines\n"):
            self.assertEqual(prose.counted(text), (0, []), text)

    def test_rooms_are_folders(self):
        for name, room in {"src/path/a.cc": "src/path", "tools/main.cc": "tools", "tools/check/a.h": "tools/check",
                           "kv/store.cc": "kv", "python/native/a.cc": "python/native"}.items():
            self.assertEqual(prose.room_of(name), room)

    def test_more_sentences_fail_and_fewer_have_to_be_written_down(self):
        rooms = {"kv": [3, [("kv/a.cc", 7, "What is kept.")]], "facts": [3, []]}
        self.assertEqual(list(prose.findings_of(rooms, {"kv": 1})), [])
        self.assertIn("kv/a.cc:7: prose: no subject: What is kept.", list(prose.findings_of(rooms, {})))
        self.assertEqual(len(list(prose.findings_of(rooms, {"kv": 1, "facts": 2, "gone": 1}))), 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
