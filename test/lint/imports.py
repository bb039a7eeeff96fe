# SPDX-License-Identifier: Apache-2.0

"""Who may import whom in Python, for lint.py: rooms by a table, and no circle of modules within a room."""

import ast

PACKAGE = "python/penstock/"

# As MAY_INCLUDE: a room, which is a package of `penstock` or a module of its own, may import the rooms named here,
# itself, and `_native`. `penstock` itself stands as "__init__". Nothing imports upward, within a function neither.
MAY_IMPORT = {
    "seconds": "",
    "regular": "",
    "folders": "",
    "formats": "",
    "progress": "",
    "records": "",
    "terminal": "progress",
    "threads": "terminal",
    "launcher": "records terminal",
    "errors": "launcher",
    "futures": "errors seconds threads",
    "files": "futures records",
    "sessions": "errors files futures records regular",
    "pools": "errors sessions",
    "gpu": "errors files",
    "kvikio": "futures progress sessions",
    "weights": "files formats progress regular sessions threads",
    "safetensors": "sessions terminal weights",
    "startup": "",
    "checkpoint": "files folders progress regular sessions threads weights",
    "stage": "files folders launcher progress regular sessions threads",
    "data": "errors files pools progress regular seconds sessions threads",
    "kv": "errors folders progress regular seconds sessions threads",
    "__init__": "checkpoint errors files formats futures pools records sessions threads",
    "deepspeed": "__init__ launcher records regular terminal",
    "integrations": "__init__ checkpoint kv sessions threads weights",
    "checkpoint_commands": "checkpoint terminal",
    "deepspeed_commands": "deepspeed terminal",
    "stage_commands": "stage terminal",
    "__main__": "__init__ checkpoint_commands deepspeed_commands launcher records stage_commands terminal weights",
}


def is_for_types(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports_in(node):
    """(line, names that an import may mean) of all imports, but for those that types alone need."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((child.lineno, [each.name]) for each in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from ((child.lineno, [f"{child.module}.{each.name}", child.module]) for each in child.names)
        elif not is_for_types(child):
            yield from imports_in(child)


def module_of(name):
    """ "kv.store" of python/penstock/kv/store.py; of a package's own file its name; of penstock's "__init__"."""
    inside = name[len(PACKAGE):-len(".py")].replace("/", ".")
    return inside.removesuffix(".__init__")


def known_import(names, modules):
    """Which module of ours an import means; None where it is another's, or the native one."""
    for name in names:
        if name.partition(".")[0] != "penstock":
            continue
        inside = name.removeprefix("penstock.")
        if name == "penstock" or inside in modules:
            return "__init__" if name == "penstock" else inside
        if inside == "_native":
            return None
    return None


def room_of(module):
    return module.split(".")[0]


def circles(imported):
    """The modules of circles, and those on the way from one to another: what is left without ends."""
    left = {module: set(others) for module, others in imported.items()}
    while True:
        wanted = set().union(*left.values()) if left else set()
        ends = [module for module, others in left.items() if not others & left.keys() or module not in wanted]
        if not ends:
            return left
        for module in ends:
            del left[module]


def check_imports(tree):
    files = {module_of(name): name for name in tree.of({".py"}) if name.startswith(PACKAGE)}
    imported = {}
    for module, name in files.items():
        row = MAY_IMPORT.get(room_of(module))
        if row is None:
            tree.report(name, 1, "import", f"no row for {room_of(module)} in MAY_IMPORT of test/lint/imports.py")
            continue
        found = ((line, known_import(names, files)) for line, names in imports_in(ast.parse(tree.text[name])))
        ours = [(line, other) for line, other in found if other is not None and other != module]
        for line, other in ours:
            if room_of(other) not in {room_of(module), *row.split()}:
                tree.report(name, line, "import", f"{room_of(module)} may not import {other}")
        imported[module] = {other for _, other in ours if room_of(other) == room_of(module)}
    for module in circles(imported):
        tree.report(files[module], 1, "import", "it is in a circle of imports: what both need goes below them")
