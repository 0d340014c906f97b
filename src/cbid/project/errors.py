"""What can be wrong with a project."""

__all__ = ["ProjectError", "ProjectWarning"]


class ProjectError(ValueError):
    """The directory is no project, or not a whole one; the message says what was found and what to do."""


class ProjectWarning(UserWarning):
    """Something was decided or left out that whoever fits a project should know."""
