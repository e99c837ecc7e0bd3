"""The docstrings of the source as the reference shows them: what is said of each argument becomes a
list, and an example a block of code.
"""

import re

import griffe

EXAMPLE = re.compile(r"(?:^ *(?:>>>|\.\.\.) ?.*\n)+(?:^ *\S.*\n)*", re.MULTILINE)


def with_arguments(text: str, names: set[str]) -> str:
    """The lines `name: what it is`, for names that are arguments, under a heading of their own."""
    lines, out, inside = text.splitlines(), [], False
    for line in lines:
        names_here = re.match(r"([\w, ]+): ", line)
        argument = names_here and set(names_here[1].split(", ")) <= names
        if argument and not inside:
            out += ["", "Args:"]
        elif inside and not argument and line and not line.startswith(" "):
            out += [""]
        inside = bool(argument) or (inside and (not line or line.startswith(" ")))
        out.append("    " + line if inside and line else line)
    return "\n".join(out)


def with_examples(text: str) -> str:
    """Lines of an interpreter's session, fenced."""
    return EXAMPLE.sub(lambda found: "```pycon\n" + found[0].rstrip() + "\n```\n", text + "\n")


class Docstrings(griffe.Extension):
    """Rewrites each docstring when it has been read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        """Of functions the arguments are the parameters, of classes the fields too."""
        if obj.docstring is None:
            return
        names: set[str] = set()
        if isinstance(obj, griffe.Function):
            names = {parameter.name for parameter in obj.parameters}
        if isinstance(obj, griffe.Class):
            names = set(obj.members)
        text = obj.docstring.value
        obj.docstring.value = with_examples(with_arguments(text, names))

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: object) -> None:
        """A bare `ClassVar` is no field of a dataclass; Griffe knows `ClassVar[...]` alone."""
        if str(attr.annotation) == "ClassVar":
            attr.labels -= {"instance-attribute"}
            attr.labels |= {"class-attribute"}
