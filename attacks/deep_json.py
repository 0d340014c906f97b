"""Manifests of 100,000 nested lists exhaust the stack of a parser. Expected: a ProjectError."""

from attacks.target import made_project
from cbid.project import Project, ProjectError


def main() -> None:
    """Run the attack."""
    with made_project() as path:
        for file in (path / "project.json", *path.glob("*/manifest.json"), *path.glob("evaluation-*")):
            good = file.read_bytes()
            file.write_text("[" * 100_000)
            try:
                Project.open(path)
            except ProjectError:
                pass
            else:
                raise AssertionError(f"{file.name} was accepted")
            file.write_bytes(good)
        Project.open(path).close()


if __name__ == "__main__":
    main()
