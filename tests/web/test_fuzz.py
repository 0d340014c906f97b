"""Random requests, valid and invalid by the OpenAPI document of the service.

The fixtures import schemathesis: it takes seconds, which only the process that runs these tests spends.
"""

import shutil

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings

from cbid.web.routes import all_routes
from tests.web.conftest import running

EXAMPLES = 8


def operations():
    """Yield every operation with valid input, and with invalid input if it takes any."""
    app = FastAPI()
    app.include_router(all_routes())
    for path, methods in app.openapi()["paths"].items():
        for method, about in methods.items():
            yield path, method, "positive"
            if "parameters" in about or "requestBody" in about:
                yield path, method, "negative"


@pytest.fixture(scope="module")
def document(tmp_path_factory, fitted):
    """Load the document of a writable service: fuzzing also adds and removes images."""
    import schemathesis

    path = shutil.copytree(fitted, tmp_path_factory.mktemp("fuzz") / "shapes.cbid")
    with running(path, rate=0) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


@pytest.fixture(scope="module")
def checks():
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    return [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]


@pytest.mark.parametrize(("path", "method", "mode"), list(operations()))
def test_no_server_error(document, checks, path, method, mode):
    """And no status or response that the document does not describe."""
    from schemathesis import GenerationMode

    @settings(max_examples=EXAMPLES, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=document[path][method].as_strategy(GenerationMode(mode)))
    def ask(case):
        case.call_and_validate(checks=checks)

    ask()
