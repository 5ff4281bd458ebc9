"""The command `archmodel`."""

from archmodel.cli import calibrating, evaluating, looking, pages, planning, tables
from archmodel.cli.app import commands, main

__all__ = ["calibrating", "commands", "evaluating", "looking", "main", "pages", "planning", "tables"]
