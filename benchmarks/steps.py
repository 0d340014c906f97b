"""Long benchmarks step by step: what is in the raw results is not run again."""

import json
import os

from benchmarks.results import FOLDER, store


class Steps(dict):
    """Results (JSON values) of steps by name; ``setting`` is what all depend on, and another one begins anew."""

    def __init__(self, name, setting):
        super().__init__()
        self.name, self.setting = name, json.loads(json.dumps(setting))
        path = FOLDER / f"{name}.json"
        if path.exists():
            found = json.loads(path.read_text())["results"]
            if found["setting"] == self.setting:
                self.update(found["steps"])

    def once(self, step, run):
        """The result of a step, run now or before, with the load of the machine around it."""
        if step not in self:
            load = os.getloadavg()[0]
            self[step] = {**run(), "load_average": [load, os.getloadavg()[0]]}
            print(step, self[step], flush=True)
            self.claim(None)
        return self[step]

    def claim(self, claims):
        """Write all steps, and what follows from them."""
        store(self.name, {"setting": self.setting, "steps": dict(self), "claims": claims})
