"""The options of reading as one piece: a command takes a `Reading`, its user the options it consists of."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from scff.cli.options import Categorical, Drop, Group, Id, KeepId, Layer, On, OrientName, Samples, Tables, Target

if TYPE_CHECKING:
    from scff.tables.reading import Request

__all__ = ["Reading", "with_reading"]


@dataclass(frozen=True)
class Reading:
    """What to read, as a command is told. Each field is an option; their help is in `scff.cli.options`."""

    tables: Tables
    target: Target
    samples: Samples = None
    on: On = None
    orient: OrientName = "auto"
    row_id: Id = None
    keep_id: KeepId = False
    group: Group = None
    drop: Drop = None
    categorical: Categorical = None
    layer: Layer = None

    @property
    def files(self) -> str:
        """The tables by the names of their files, for headings."""
        return ", ".join(Path(table).name for table in self.tables)

    @property
    def read(self) -> tuple[Path, ...]:
        """The files that no output may take the place of."""
        request = self.request
        return tuple(path for _, path in request.tables) + (() if request.samples is None else (request.samples,))

    @property
    def request(self) -> Request:
        """The same in the words of the library."""
        from scff.tables.reading import Request  # numpy and pandas, once the files are known to be there

        return Request.of(
            self.tables,
            target=self.target,
            samples=self.samples,
            on=self.on,
            orient=self.orient,
            id=self.row_id,
            keep_id=self.keep_id,
            group=self.group,
            drop=tuple(self.drop or ()),
            categorical=tuple(self.categorical or ()),
            layer=self.layer,
        )


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Spread the first parameter of a command, a `Reading`, into the options it consists of."""
    hints = get_type_hints(Reading, include_extras=True)
    required: list[inspect.Parameter] = []
    optional: list[inspect.Parameter] = []
    for field in fields(Reading):
        needed = field.default is MISSING
        (required if needed else optional).append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if needed else field.default,
                annotation=hints[field.name],
            )
        )
    _, *own = inspect.signature(command, eval_str=True).parameters.values()

    @functools.wraps(command)
    def spread(**given: Any) -> None:
        command(Reading(**{field.name: given.pop(field.name) for field in fields(Reading)}), **given)

    kept = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    must = [one for one in kept if one.default is inspect.Parameter.empty]
    may = [one for one in kept if one.default is not inspect.Parameter.empty]
    spread.__signature__ = inspect.Signature([*required, *must, *optional, *may])  # type: ignore[attr-defined]
    return spread
