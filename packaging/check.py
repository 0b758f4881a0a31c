"""Galaxy's linter and templates over the tool, rattler-build's parser over the recipe; run by ``make package``."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent


def lint_galaxy() -> bool:
    """Whether Galaxy's linter has neither an error nor a warning."""
    from galaxy.tool_util.lint import LintContext, LintLevel, lint_tool_source_with
    from galaxy.tool_util.parser import get_tool_source

    source = get_tool_source(str(HERE / "galaxy" / "scff.xml"))
    context = LintContext(level=LintLevel.WARN)
    lint_tool_source_with(context, source)
    for message in (*context.error_messages, *context.warn_messages):
        print(message, file=sys.stderr)
    return not (context.error_messages or context.warn_messages)


class _Dataset(str):
    """A dataset of Galaxy: its path, and what Galaxy calls its format."""

    __slots__ = ("ext",)


def render_galaxy() -> None:
    """Fill in the command as Galaxy does; raises where its language does not work out or a format has no ending."""
    from xml.etree import ElementTree

    from Cheetah.Template import Template

    tool = ElementTree.parse(HERE / "galaxy" / "scff.xml").getroot()
    values = {param.get("name"): param.get("value") or "x" for param in tool.iter("param")}
    for ending, wanted in (("tabular", "tsv"), ("tsv", "tsv"), ("csv", "csv"), ("parquet", "parquet")):
        for name in ("train", "test"):
            values[name] = _Dataset(f"/data/{name}.dat")
            values[name].ext = ending
        command = str(Template(tool.find("command").text, searchList=[values | {"advanced": values}]))
        assert f"ln -s '/data/train.dat' 'train.{wanted}'" in command, command
        assert f"scff predict model.scff 'test.{wanted}'" in command, command
    print("Galaxy command: rendered for every format")


def render_conda() -> None:
    """Render the recipe; raises where a field is unknown or a template does not work out."""
    from rattler_build import Stage0Recipe

    (rendered,) = Stage0Recipe.from_file(str(HERE / "conda" / "recipe.yaml")).render()
    print(f"conda recipe: {rendered.recipe.package.name} {rendered.recipe.package.version}")


if __name__ == "__main__":
    render_conda()
    render_galaxy()
    fine = lint_galaxy()
    print(f"Galaxy tool: {'no error, no warning' if fine else 'see above'}")
    sys.exit(0 if fine else 1)
