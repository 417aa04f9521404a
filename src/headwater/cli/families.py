"""Families of commands: how `headwater log` and its like show and read their command lines."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class Family(TyperGroup):
    """Commands whose help shows a flag as it is given, without a type."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _without_types(command.get_params(ctx))
        return command


def _without_types(parameters: Any) -> Any:
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return parameters
