#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Shows the lint trees that break each rule, and one that breaks none."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import lint

LICENCE = "SPDX-License-Identifier: Apache-2.0"

GOOD = {
    "CMakeLists.txt": "project(good)\nadd_subdirectory(src)\nadd_subdirectory(tools)\nadd_subdirectory(test)\n",
    "src/CMakeLists.txt": "add_subdirectory(base)\nadd_subdirectory(plan)\nadd_subdirectory(session)\n",
    "src/base/CMakeLists.txt": "penstock_room(base SOURCES environment.cc text.cc)\n",
    "src/base/environment.cc": '// TODO(#7): more.\nconst char* c() { return ::getenv("X"); }\n',
    "src/base/text.h": "// Text.\n#pragma once\n",
    "src/base/text.cc": '#include "base/text.h"\nint f() { return std::snprintf(nullptr, 0, "printf(stderr)"); }\n',
    "src/plan/CMakeLists.txt": "penstock_room(plan SOURCES plan.cc TESTS plan_test.cc sub/deep_test.cc\n"
                               "${PROJECT_SOURCE_DIR}/test/fakes/other.cc)\n",
    "src/plan/plan.h": "/* Plans. */\n#ifndef PLAN_H_\n#define PLAN_H_\n#endif\n",
    "src/plan/plan.cc": '#include <vector>\n#include "base/text.h"\n#include "plan/plan.h"\n',
    "src/plan/plan_test.cc": '#include "fakes/fake.h"\n#include "plan/plan.h"\nint t() { return printf("x"); }\n',
    "src/plan/sub/deep_test.cc": '#include "plan/plan.h"\n',
    "src/session/CMakeLists.txt": "penstock_room(session SOURCES config.cc)\n",
    "src/session/config.cc": "int c() { return 1; }\n",
    "include/penstock/penstock.h": "// API.\n#pragma once\n",
    "tools/CMakeLists.txt": "add_executable(penstock_tool main.cc)\nadd_subdirectory(cp)\n",
    "tools/main.cc": '#include "base/text.h"\n#include "tools/cp/cp.h"\n#include <penstock/penstock.h>\n',
    "tools/common/near.h": "// Near.\n#pragma once\n",
    "tools/cp/CMakeLists.txt": "penstock_command(SOURCES cp.cc)\n",
    "tools/cp/cp.h": "// A command.\n#pragma once\n",
    "tools/cp/cp.cc": '#include "tools/common/near.h"\n#include "tools/cp/cp.h"\n',
    "tools/demo/demo.h": "// Another.\n#pragma once\n",
    "test/CMakeLists.txt": "foreach(folder IN ITEMS fakes contract)\n",
    "test/fakes/CMakeLists.txt": "add_library(penstock_fakes STATIC ${CMAKE_CURRENT_SOURCE_DIR}/fake.cc)\n",
    "test/fakes/fake.cc": "",
    "test/fakes/other.cc": "",
    "test/fakes/fake.h": "// Fake.\n#pragma once\n",
    "build/src/junk.cc": "exit(1)",
    "docs/long.md": "x" * 300 + "\n",
}


def licensed(name, text):
    """The same with a licence at its end, where it moves no line; as it is where it says something of licences."""
    return text if not lint.is_code(name, text) or "SPDX" in text else text + f"// {LICENCE}\n"


def python(modules):
    return {f"python/penstock/{name}.py": f"# {LICENCE}\n{text}" for name, text in modules.items()}


class LintTest(unittest.TestCase):
    def findings_with(self, changes):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**GOOD, **changes}.items():
                path = Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(licensed(name, text), encoding="utf-8")
            return lint.lint(root)

    def expect(self, changes, *findings):
        self.assertEqual(sorted(finding.split(": ")[0] + " " + finding.split(": ")[1]
                                for finding in self.findings_with(changes)), sorted(findings))

    def test_a_good_tree_passes(self):
        self.assertEqual(self.findings_with({}), [])

    def test_an_empty_tree_is_no_success(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertIsNone(lint.lint(root))
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(lint.main(["lint.py", root]), 2)

    def test_the_exit_status_tells_findings(self):
        with tempfile.TemporaryDirectory() as root:
            Path(root, "lost.cc").write_text(f"int lost;  // {LICENCE}\n", encoding="utf-8")
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(lint.main(["lint.py", root]), 1)
            self.assertEqual(said.getvalue(), "lost.cc:1: built: no CMakeLists.txt lists it\n")

    def test_symbolic_links_are_found(self):
        with tempfile.TemporaryDirectory() as root:
            Path(root, "lost.cc").write_text(f"int lost;  // {LICENCE}\n", encoding="utf-8")
            Path(root, "same.md").symlink_to("lost.cc")
            self.assertEqual([finding.split(": ")[:2] for finding in lint.lint(root)],
                             [["same.md:1", "link"], ["lost.cc:1", "built"]])

    def test_upward_includes_are_found(self):
        self.expect({"src/base/text.cc": '\n#include "plan/plan.h"\n'}, "src/base/text.cc:2 include")
        self.expect({"src/plan/plan_test.cc": '#include "session/session.h"\n'}, "src/plan/plan_test.cc:1 include")
        self.expect({"src/session/config.cc": '#  include <cufile.h>\n'}, "src/session/config.cc:1 include")
        self.expect({"src/plan/plan.cc": '#include "storage/ring.h"\n'}, "src/plan/plan.cc:1 include")
        self.expect({"tools/main.cc": '#include "plan/plan.h"\n'}, "tools/main.cc:1 include")
        self.expect({"src/plan/plan.cc": '#include "fakes/fake.h"\n'}, "src/plan/plan.cc:1 include")

    def test_a_room_may_be_let_into_one_header_of_another(self):
        self.expect({"tools/common/near.h": '// N.\n#pragma once\n#include "device/cuda/cuda_api.h"\n'
                                            '#include "device/device.h"\n'}, "tools/common/near.h:4 include")

    def test_upward_imports_of_python_are_found(self):
        self.expect(python({"weights/a": "def f():\n    from penstock.checkpoint import save\n",
                            "checkpoint/__init__": "from penstock.weights import a\n"}),
                    "python/penstock/weights/a.py:3 import")
        self.expect(python({"weights/a": "from penstock import weights, _native\nimport penstock\n", "__init__": "",
                            "weights/__init__": ""}),
                    "python/penstock/weights/a.py:3 import")
        self.expect(python({"attic": "import os\n"}), "python/penstock/attic.py:1 import")

    def test_circles_of_modules_are_found_and_what_types_alone_need_is_none(self):
        a, b = "from penstock.stage import b\n", "from penstock.stage.a import x\n"
        self.expect(python({"stage/a": a, "stage/b": f"def f():\n    {b}", "stage/c": "import penstock.stage.a\n"}),
                    "python/penstock/stage/a.py:1 import", "python/penstock/stage/b.py:1 import")
        self.expect(python({"stage/a": a, "stage/b": f"if TYPE_CHECKING:\n    {b}"}))

    def test_a_source_that_compiles_by_what_others_include_is_found(self):
        header = "// Text.\n#pragma once\nconstexpr int kMost = 3;\nint length(int of);\n"
        for use in ("kMost", "length(1)", "core::length(1)"):
            self.expect({"src/base/text.h": header, "src/plan/plan.cc": f"int f() {{ return {use}; }}\n"},
                        "src/plan/plan.cc:1 alone")
        within = '#include "plan/plan.h"\nint f() { return kMost; }\n'
        self.expect({"src/base/text.h": header, "src/plan/plan.cc": within,
                     "src/plan/plan.h": '// Plans.\n#pragma once\n#include "base/text.h"\n'})
        self.expect({"src/base/text.h": header, "src/plan/plan.cc": "int f(Files& of) { return of.length(1); }\n"})
        self.expect({"src/base/text.h": header,
                     "src/plan/plan.cc": "struct Own { int length(int); int f() { return length(1); } };\n"})

    def test_a_program_that_reads_a_machine_by_itself_is_found(self):
        self.expect({"tools/cp/cp.cc": '#include "topology/platform.h"\n'}, "tools/cp/cp.cc:1 facts")
        self.expect({"tools/cp/cp.cc": '#include "settings/settings.h"\n'}, "tools/cp/cp.cc:1 facts")
        self.expect({"tools/cp/cp.cc": "auto pci = core::read_pci_devices(root);\n"}, "tools/cp/cp.cc:1 facts")

    def test_a_command_that_knows_another_is_found(self):
        self.expect({"tools/cp/cp.cc": '#include "tools/demo/demo.h"\n'}, "tools/cp/cp.cc:1 include")
        self.expect({"tools/common/near.h": '// Near.\n#pragma once\n#include "tools/cp/cp.h"\n'},
                    "tools/common/near.h:3 include")

    def test_unqualified_and_relative_includes_are_found(self):
        self.expect({"src/plan/plan.cc": '#include "text.h"\n'}, "src/plan/plan.cc:1 include")
        self.expect({"src/plan/plan.cc": '#include "../base/text.h"\n'}, "src/plan/plan.cc:1 include")

    def test_a_room_without_a_row_is_found(self):
        self.expect({"src/attic/x.h": "// X.\n#pragma once\n"}, "src/attic/x.h:1 include")

    def test_tests_and_sources_left_out_of_the_build_are_found(self):
        self.expect({"src/plan/other_test.cc": ""}, "src/plan/other_test.cc:1 built")
        self.expect({"src/base/other.cc": ""}, "src/base/other.cc:1 built")
        self.expect({"src/base/CMakeLists.txt": "environment.cc # text.cc\n"}, "src/base/text.cc:1 built")
        self.expect({"src/CMakeLists.txt": "add_subdirectory(base)\nadd_subdirectory(session)\n"},
                    "src/plan/CMakeLists.txt:1 built")

    def test_reading_the_environment_elsewhere_is_found(self):
        self.expect({"src/base/text.cc": 'auto x = getenv("X");\n'}, "src/base/text.cc:1 getenv")
        self.expect({"src/base/text.cc": 'auto x = ::secure_getenv("X");\n'}, "src/base/text.cc:1 getenv")

    def test_printing_and_exiting_are_found(self):
        for line in ['printf("x");', 'std::printf("x");', "std::cout << 1;", "f(stderr);", 'fprintf(f, "x");',
                     "exit(1);", "::_exit(1);", "std::quick_exit(1);", 'perror("x");', 'dprintf(2, "x");']:
            with self.subTest(line):
                self.expect({"src/base/text.cc": line + "\n"}, "src/base/text.cc:1 quiet")

    def test_locks_that_clang_does_not_know_are_found(self):
        for line in ["std::mutex m;", "std::shared_mutex m;", "std::recursive_timed_mutex m;",
                     "std::condition_variable c;", "std::lock_guard lock(m);", "f(std::unique_lock<Mutex>& lock);",
                     "std::scoped_lock lock(m);", "std::shared_lock lock(m);"]:
            with self.subTest(line):
                self.expect({"src/base/text.cc": line + "\n"}, "src/base/text.cc:1 locks")
        self.expect({"src/base/mutex.h": "// Mutexes.\n#pragma once\nstd::mutex m;\n",
                     "src/base/text.cc": "#include <mutex>\nstd::call_once(f);\nMutex m; // std::mutex\n",
                     "src/plan/plan_test.cc": "std::mutex m;\n", "tools/main.cc": "std::mutex m;\n"})

    def test_json_trees_that_need_memory_to_be_destroyed_are_found(self):
        for line in ["nlohmann::json j;", "using Json = nlohmann::ordered_json;", "nlohmann::json::parse(t);"]:
            with self.subTest(line):
                self.expect({"src/base/text.cc": line + "\n"}, "src/base/text.cc:1 json")
        self.expect({"src/base/text.cc": "nlohmann::json::sax_parse(a, b, &taker);\n",
                     "tools/main.cc": "nlohmann::json j;\n"})

    def test_other_ways_to_the_terminal_are_found(self):
        for line in ['fmt::print("{}", x);', 'std::println("{}", x);', 'printf("x");', 'std::puts("x");', "f(stderr);",
                     "std::cout << x;", "std::fwrite(x, 1, 2, f);", 'perror("x");', "write(1, x, 2);",
                     "::write(STDERR_FILENO, x, 2);"]:
            with self.subTest(line):
                self.expect({"tools/main.cc": line + "\n"}, "tools/main.cc:1 terminal")
                self.expect({"tools/common/near.h": "// Near.\n#pragma once\n" + line + "\n"},
                            "tools/common/near.h:3 terminal")
        self.expect({"tools/main.cc": 'print("{}", x); write(fd, x, 2); file.write(1);\nauto s = "stdout";\n'})
        self.expect({"tools/CMakeLists.txt": "add_executable(penstock_tool main.cc cp common/terminal.cc)\n",
                     "tools/common/terminal.cc": "f(stdout);\n"})

    def test_other_ways_of_python_to_the_terminal_are_found(self):
        header = "# SPDX-License-Identifier: Apache-2.0\n"
        for line in ['print("x")', "show = print", "input()", "sys.stdout.write(x)", "f(file=sys.stderr)",
                     "from sys import stderr", "os.write(2, x)", "sys.__stdout__.flush()"]:
            with self.subTest(line):
                self.expect({"python/penstock/stage/run.py": f"{header}def f():\n    {line}\n"},
                            "python/penstock/stage/run.py:3 terminal")
        self.expect({"python/penstock/kv/run.py": f'{header}"""print(x)"""\ns = "sys.stdout"\nos.write(fd, x)\n'
                     "done.stdout\nself.print(x)\n", "python/penstock/terminal.py": f"{header}print(x)\n",
                     "python/tests/test_run.py": f"{header}print(x)\n"})

    def test_tests_that_sleep_are_found(self):
        for line in ["std::this_thread::sleep_for(x);", "::usleep(1);", "sleep (1);", "nanosleep(&t, nullptr);"]:
            with self.subTest(line):
                self.expect({"src/plan/plan_test.cc": line + "\n"}, "src/plan/plan_test.cc:1 waiting")
        self.expect({"src/plan/plan.cc": "::usleep(1);\n", "src/plan/plan_test.cc": "be_slow(x); // sleep(1)\n"})

    def test_comments_and_strings_are_no_code(self):
        self.expect({"src/base/text.cc": "/* printf(\n exit( */ // getenv(\nauto q = '\"'; auto s = \"exit(\";\n"})
        self.expect({"src/base/text.cc": "auto a = 1'000; auto b = 2'000;\nexit(1);\n"}, "src/base/text.cc:2 quiet")
        self.expect({"src/base/text.cc": 'auto raw = R"(exit( ")";\nexit(1);\n'}, "src/base/text.cc:2 quiet")

    def test_bare_headers_are_found(self):
        self.expect({"src/base/text.h": "// Text.\n"}, "src/base/text.h:1 header")
        self.expect({"src/base/text.h": "#pragma once\n// Text.\n"}, "src/base/text.h:1 header")
        self.expect({"src/base/text.h": f"// {LICENCE}\n\n#pragma once\n"}, "src/base/text.h:1 header")

    def test_two_types_of_one_name_are_found(self):
        header = "// {}.\n#pragma once\nnamespace {} {{\nstruct Thing;\nstruct Thing {{\n"
        one = {"src/base/one.h": header.format("One", "penstock::core")}
        self.expect({**one, "src/base/two.h": header.format("Two", "penstock::core")}, "src/base/two.h:5 types")
        self.expect({**one, "src/base/two.h": header.format("Two", "penstock::core::two")})

    def test_wide_seams_are_found(self):
        method = "  virtual void f() = 0;\n"
        seam = ("// A seam.\n#pragma once\nclass Seam {{\n  virtual ~Seam() = default;\n{}}};\n"
                "class Next {{\n  virtual void f() = 0;\n}};\n")
        self.expect({"src/base/seam.h": seam.format(method * 9)}, "src/base/seam.h:3 seam")
        self.expect({"src/base/seam.h": seam.format(method * 8)})

    def test_files_without_a_licence_are_found(self):
        self.expect({"src/base/text.cc": "int f();  // SPDX-License-Identifier: MIT\n"}, "src/base/text.cc:1 licence")
        self.expect({"scripts/go": "#!/bin/sh\n# SPDX\n"}, "scripts/go:1 licence")
        self.expect({"docs/a.md": "No code.\n"})

    def test_long_files_and_lines_are_found(self):
        self.expect({"src/base/text.cc": f"// {LICENCE}" + "\n" * 401}, "src/base/text.cc:401 size")
        self.expect({"src/base/text.cc": f"// {LICENCE}" + "\n" * 400})
        self.expect({"src/base/text.cc": "int f() {\n" + "  g();\n" * 39 + "}\n"}, "src/base/text.cc:1 size")
        self.expect({"src/base/text.cc": "int f() {\n" + "  g();\n" * 38 + "}\n"})
        self.expect({"scripts/go": "#!/bin/sh\n" + "x" * 121 + "\n"}, "scripts/go:2 size")
        self.expect({"bench/go.cuh": f"// {LICENCE}\n//" + "x" * 119 + "\n"}, "bench/go.cuh:2 size")
        self.expect({"scripts/go": "#!/bin/sh\n" + "ö" * 120 + "\n"})

    def test_leftover_words_are_found(self):
        self.expect({"docs/a.md": "FIXME later\n"}, "docs/a.md:1 words")
        self.expect({"src/base/text.cc": "// TODO: later\n"}, "src/base/text.cc:1 words")
        self.expect({"docs/a.md": "see /work/main/x\n"}, "docs/a.md:1 words")
        self.expect({"docs/a.md": "see src/work/main, $HOME/root/x and /proc/self\n"})


if __name__ == "__main__":
    unittest.main()
