"""The OpenAPI document is what is served, and nothing that a fuzzer sends is a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.openapi import from_dict
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sojourn.service import Limits
from sojourn.service.routes import ACTIONS, routes
from tests.service.harness import Running, running

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
WAIT_S = 60  # for an answer, on a busy machine
ENDLESS = "/v1/outcomes/stream"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = Limits(wait_ms=1, body_bytes=100_000, payload_bytes=10_000)
    with running(tmp_path_factory.mktemp("openapi"), limits=limits, max_waiting=500) as one:
        yield one


@pytest.fixture(scope="module")
def schema(served: Running) -> Any:
    return from_dict(served.http.get("/openapi.json").json())


def test_the_document_is_valid_openapi(schema: Any) -> None:
    schema.validate()


def test_the_document_names_every_route_and_no_other(served: Running) -> None:
    document = served.http.get("/openapi.json").json()
    documented = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    assert documented == {(action.method, action.plain_path) for action in ACTIONS}
    routed = {route.path.replace(":path}", "}") for route in routes()}  # type: ignore[attr-defined]
    assert routed == set(document["paths"])


def test_every_schema_that_is_named_is_there(served: Running) -> None:
    document = served.http.get("/openapi.json")
    names = set(document.json()["components"]["schemas"])
    for reference in set(json.dumps(document.json()).split('"#/components/schemas/')[1:]):
        assert reference.partition('"')[0] in names


def test_every_parameter_of_a_path_is_described() -> None:
    for action in ACTIONS:
        described = {each.name for each in action.parameters if each.place == "path"}
        assert described == {
            part.strip("{}") for part in action.plain_path.split("/") if part.startswith("{")
        }


def fuzz(served: Running, schema: Any, examples: int) -> None:
    """Requests as the document has them, and others that it has not."""
    strategies = []
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path != ENDLESS:
            strategies += [
                operation.as_strategy(generation_mode=mode)
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
            ]
    with requests.Session() as session:
        session.trust_env = False

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=st.one_of(strategies))
        def send(case: Any) -> None:
            response = case.call(base_url=served.url, session=session, timeout=WAIT_S)
            case.validate_response(response, checks=CHECKS)
            assert b"Traceback" not in response.content

        send()


def test_a_fuzzer_finds_no_500_and_nothing_that_is_not_documented(
    served: Running, schema: Any
) -> None:
    fuzz(served, schema, 60)


@pytest.mark.nightly
def test_100_000_requests_of_a_fuzzer(served: Running, schema: Any) -> None:
    fuzz(served, schema, 100_000)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    path=st.sampled_from(sorted({action.plain_path for action in ACTIONS} - {ENDLESS})),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH"]),
    name=st.binary(max_size=30),
    query=st.one_of(st.just(b""), st.binary(max_size=30)),
    body=st.one_of(
        st.binary(max_size=50),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(["id", "key", "offset", "requires", "timeout_ms", "webhook"]),
                    inner,
                    max_size=5,
                )
            ),
            max_leaves=12,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_bytes_at_random_are_answered_in_json(
    served: Running, path: str, method: str, name: bytes, query: bytes, body: bytes
) -> None:
    encoded = "".join(f"%{byte:02x}" for byte in name)
    path = path.replace("{id}", encoded).replace("{key}", encoded).replace("{name}", encoded)
    question = "?" + "".join(f"%{byte:02x}" for byte in query) if query else ""
    answer = served.http.request(
        method, path + question, content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code < 500, answer.text
    if method != "HEAD" and not (path in ("/", "/metrics") and answer.is_success):
        assert isinstance(answer.json(), dict)


def test_the_fuzzer_would_notice_what_is_not_documented(served: Running) -> None:
    document = served.http.get("/openapi.json").json()
    document["components"]["schemas"]["Outcomes"]["required"].append("more")
    case = from_dict(document)["/v1/outcomes"]["GET"].Case()
    response = case.call(base_url=served.url, timeout=WAIT_S)
    assert response.status_code == 200, response.text
    with pytest.raises(BaseException, match="more"):
        case.validate_response(response, checks=CHECKS)
    del document["paths"]["/v1/outcomes"]["get"]["responses"]["200"]
    case = from_dict(document)["/v1/outcomes"]["GET"].Case()
    with pytest.raises(BaseException, match="Undocumented"):
        case.validate_response(response, checks=CHECKS)
