"""The service asked with whatever its own OpenAPI document allows, and with what it does not."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.web.conftest import client_of

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def document(tmp_path_factory, fitted):
    """Of a service that may write: fuzzing adds and removes images too."""
    import shutil

    path = shutil.copytree(fitted, tmp_path_factory.mktemp("fuzz") / "shapes.cbid")
    with client_of(path, rate=0, hosts=()) as client:
        yield schemathesis.openapi.from_asgi("/openapi.json", client.app)


schema = schemathesis.pytest.from_fixture("document")


@schema.parametrize()
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_server_error(case):
    case.call_and_validate(checks=CHECKS)
