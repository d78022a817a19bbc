"""Admission policies and webhooks: expressions by chance, definitions that are only tried, and some that are in force for the namespace of the scenario."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from tests.differential.api.bodies import Bodies, Tree, clean
from tests.differential.api.steps import Step, patch, some, step

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_SECONDS = 20
_TERMS = (
    *("object.data.a", "object.data['b']", "object.metadata.name", "object.metadata.labels['x']", "object.data"),
    *("oldObject", "oldObject.data.a", "request.operation", "request.userInfo.username", "request.name", "request"),
    *("request.userInfo.groups", "request.namespace", "request.kind.kind", "request.dryRun", "request.options"),
    *("namespaceObject.metadata.name", "namespaceObject.metadata.labels", "params.data.limit", "params", "variables.v"),
    *("variables.nosuch", "object.nosuch", "nosuch", "object", "'a'", "1", "1.5", "2u", "true", "null", "[]", "{}"),
    *("[1, 2]", "{'a': 1}", "b'x'", "duration('1s')", "timestamp('2026-01-01T00:00:00Z')", "quantity('1Gi')"),
    *("url('https://a.example.com/x')", "ip('10.0.0.1')", "cidr('10.0.0.0/8')", "semver('1.2.3')", "quantity('x')"),
    *("duration('x')", "url('::')", "ip('x')", "authorizer.group('').resource('pods').check('get')", "authorizer"),
    *("authorizer.group('').resource('pods').namespace('${ns}').check('create').allowed()", "int('x')", "int('7')"),
    *("object.data.?a.orValue('d')", "object.metadata.?labels.?x", "optional.none()", "format.dns1123Label()"),
)
_OPERATORS = ("==", "!=", "<", ">=", "+", "-", "*", "/", "%", "&&", "||", "in")
_CALLS = (
    *("size({})", "has({})", "!{}", "-{}", "string({})", "int({})", "type({})", "dyn({})", "{}.size()", "{}.matches('^a')"),
    *("{}.startsWith('a')", "{}.contains('b')", "{}.lowerAscii()", "{}.split('a')", "{}.exists(x, x == 'a')", "{}.all(k, k != '')"),
    *("{}.map(x, x)", "{}.filter(x, x > 1)", "{}.join(',')", "{}.replace('a', 'b')", "{}.isSorted()", "{}.sum()", "{}.indexOf('a')"),
    *("{}.isGreaterThan(quantity('1'))", "{}.getHost()", "{}.allowed()", "{}.reason()", "{}.substring(1)", "{}.trim()", "{}.find('[a-z]+')"),
    *("{} ? 'a' : 'b'", "{}[0]", "{}['a']", "{}.a.b", "sets.contains({}, ['a'])", "{}.format(['a'])", "{}.hasValue()", "{}.min()"),
    *("cel.bind(x, {}, x == x)", "{}.exists_one(x, x == 'a')", "{}.charAt(0)", "{}.family()", "{}.major()", "{}.getFullYear()"),
    *("format.named('uuid').value().validate({})", "double({})", "bool({})", "{}.reverse()", "{}.last()", "math.greatest({}, 1)"),
)  # fmt: skip
_BROKEN = (
    "",
    " ",
    "a +",
    "(",
    "'a",
    "a b",
    "has(a)",
    "a.b.",
    "1 +* 2",
    "@",
    "x ? y",
    "{a: 1}",
    "[1,",
    "\n",
    "object.data.a == 'x' // y",
    "é == 'a'",
)
_SAID: tuple[Tree, ...] = (
    {}, {"message": "no"}, {"message": ""}, {"message": "a\nb"}, {"messageExpression": "'no ' + object.metadata.name"},
    {"messageExpression": "1"}, {"messageExpression": "object.data.nosuch"}, {"messageExpression": "''"}, {"messageExpression": "'x'.repeat(2)"},
    {"message": "m", "messageExpression": "string(size(object.data))"}, {"reason": "Forbidden"}, {"reason": "Unauthorized"}, {"reason": "x"},
    {"reason": "RequestEntityTooLarge"}, {"message": "x" * 20, "reason": "Invalid"},
)  # fmt: skip


def expression(chance: Random, depth: int = 0) -> str:
    """An expression, of any type."""
    kind = chance.random()
    if depth > 2 or kind < 0.25:
        return chance.choice(_TERMS) if chance.random() < 0.96 else chance.choice(_BROKEN)
    inner = expression(chance, depth + 1)
    if kind < 0.6:
        return chance.choice(_CALLS).replace("{}", inner if " " not in inner else f"({inner})")
    return f"{inner} {chance.choice(_OPERATORS)} {expression(chance, depth + 1)}"


def condition(chance: Random) -> str:
    """An expression that is a condition, most likely."""
    kind = chance.random()
    if kind < 0.35:
        return f"{expression(chance, 1)} == {expression(chance, 2)}"
    if kind < 0.5:
        return f"has(object.data) && {expression(chance, 1)}"
    return expression(chance)


_SAID_WELL: tuple[Tree, ...] = (
    {}, {}, {"message": "no"}, {"messageExpression": "'no ' + object.metadata.name"}, {"messageExpression": "object.data.nosuch"}, {"messageExpression": "''"},
    {"message": "m", "messageExpression": "string(size(object.data))"}, {"reason": "Forbidden"}, {"reason": "Unauthorized", "message": "x"},
    {"reason": "RequestEntityTooLarge"}, {"messageExpression": "'a\\nb'"}, {"messageExpression": "params.data.limit"},
)  # fmt: skip
_SOUND = (
    *(
        "!has(object.data) || size(object.data) < 2",
        "object.metadata.name != 'one'",
        "object == null || object.metadata.name.size() > 3",
    ),
    *(
        "request.operation != 'DELETE'",
        "has(object.data) && object.data.a == 'a'",
        "object.data.a == 'a'",
        "object.metadata.labels['x'] == 'y'",
    ),
    *(
        "int(object.data.b) < 5",
        "!request.dryRun",
        "params == null || size(params.data) > 0",
        "size(object.data) < int(params.data.limit)",
    ),
    *(
        "params.data.nosuch == 'x'",
        "oldObject == null || oldObject.data == object.data",
        "namespaceObject.metadata.name == 'x'",
    ),
    *(
        "object.data.?a.orValue('a') == 'a'",
        "request.userInfo.username == 'admin'",
        "authorizer.requestResource.check('get').allowed()",
    ),
    *(
        "authorizer.group('').resource('pods').namespace(request.namespace).check('create').allowed()",
        "object.data.all(k, k.startsWith('a'))",
    ),
    *(
        "authorizer.path('/healthz').check('get').reason() == ''",
        "object.data.a.matches(params.data.limit)",
        "dyn(object.data.a) < 3",
    ),
    *(
        "variables.v == 'a'",
        "dyn(variables.v).nosuch",
        "[1, 2][3] == 1",
        "1 / (size(object.metadata.name) - 3) > 0",
        "object.metadata.nosuch == 'x'",
    ),
    *(
        "duration('1m') < duration(object.data.a)",
        "string(request.options) == ''",
        "quantity(object.data.b).isGreaterThan(quantity('1'))",
        "false",
    ),
)
"""Conditions that compile, most of them."""


def _rules(chance: Random, resources: list[str]) -> list[Tree]:
    rule: Tree = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": resources}
    return [
        rule
        | some(chance, {"scope": ["Namespaced", "*", "x"], "operations": [["*"], ["DELETE", "CREATE"], [], ["x"]]}, 1)
    ]


def _sound_policy(chance: Random, name: str) -> Tree:
    """One that servers take, most likely."""
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
    values = ("object.data.?a.orValue('b')", "'a'", "object.data.a", "size(object.metadata.name)")
    spec: Tree = {
        "matchConstraints": {"resourceRules": rules},
        "validations": [
            {"expression": chance.choice(_SOUND), **chance.choice(_SAID_WELL)} for _ in range(chance.choice((1, 1, 2)))
        ],
        "failurePolicy": chance.choice(("Fail", "Fail", "Ignore")),
        "variables": [{"name": "v", "expression": chance.choice(values)}],
    }
    if "params" in str(spec) or chance.random() < 0.3:
        spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    spec |= some(chance, {"auditAnnotations": [[{"key": "k", "valueExpression": "object.metadata.name"}]]}, 1)
    if chance.random() < 0.3:
        spec["matchConditions"] = [
            {"name": "c", "expression": chance.choice([one for one in _SOUND if "variables" not in one])}
        ]
    return _definition("ValidatingAdmissionPolicy", name, spec)


def _definition(kind: str, name: str, spec: Tree) -> Tree:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _policy(chance: Random, name: str) -> Tree:
    spec: Tree = {"matchConstraints": {"resourceRules": _rules(chance, ["configmaps"])}}
    spec["validations"] = [
        {"expression": condition(chance), **chance.choice(_SAID)} for _ in range(chance.choice((1, 1, 2)))
    ]
    if chance.random() < 0.4:
        spec["variables"] = [{"name": chance.choice(("v", "v", "w", "1x")), "expression": expression(chance)}]
    if chance.random() < 0.3:
        spec["auditAnnotations"] = [{"key": chance.choice(("a", "a b", "k")), "valueExpression": expression(chance)}]
    if chance.random() < 0.3:
        spec["matchConditions"] = [{"name": chance.choice(("c", "A/b", "")), "expression": condition(chance)}]
    if chance.random() < 0.4:
        spec["failurePolicy"] = chance.choice(("Fail", "Ignore", "x"))
    if chance.random() < 0.5:
        spec["paramKind"] = {"apiVersion": "v1", "kind": chance.choice(("ConfigMap", "ConfigMap", "Nosuch"))}
    return _definition("ValidatingAdmissionPolicy", name, spec)


_MUTATIONS = (
    "Object{data: {'m': 'x'}}", "Object{metadata: Object.metadata{labels: {'m': 'x'}}}", "Object{data: {'m': object.metadata.name}}", "Object{}",
    "Object{nosuch: 1}", "Object{data: 1}", "Object{metadata: Object.metadata{name: 'other'}}", "object", "Object{data: {'m': object.data.nosuch}}",
)  # fmt: skip
_JSON_PATCHES = (
    "[JSONPatch{op: 'add', path: '/data/m', value: 'x'}]", "[JSONPatch{op: 'remove', path: '/data/a'}]", "[]", "[JSONPatch{op: 'x', path: '/data'}]",
    "[JSONPatch{op: 'test', path: '/data/a', value: 'zz'}]", "[JSONPatch{op: 'replace', path: '/metadata/labels', value: {'a': 'b'}}]", "'x'",
    "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b'), value: string(size(object.data))}]", "[JSONPatch{path: '/data/a'}]",
)  # fmt: skip


def _mutating(chance: Random, name: str, *, sound: bool = False) -> Tree:
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    ]
    mutations: list[Tree] = []
    for _ in range(chance.choice((1, 1, 2))):
        if chance.random() < 0.5:
            made = chance.choice(_MUTATIONS) if sound or chance.random() < 0.8 else expression(chance)
            mutations.append({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": made}})
        else:
            made = chance.choice(_JSON_PATCHES) if sound or chance.random() < 0.8 else expression(chance)
            mutations.append(
                {
                    "patchType": "JSONPatch" if sound else chance.choice(("JSONPatch",) * 9 + ("x",)),
                    "jsonPatch": {"expression": made},
                }
            )
    spec: Tree = {"matchConstraints": {"resourceRules": rules}, "mutations": mutations, "reinvocationPolicy": "Never"}
    if not sound:
        spec |= some(chance, {"failurePolicy": ["Fail", "Ignore"], "reinvocationPolicy": ["IfNeeded", "x"]}, 1)
    if not sound and chance.random() < 0.3:
        spec["matchConditions"] = [{"name": "c", "expression": condition(chance)}]
    return _definition("MutatingAdmissionPolicy", name, spec)


def _binding(chance: Random, kind: str, name: str, policy: str, *, sound: bool) -> Tree:
    """Of this namespace alone."""
    match: Tree = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}}}
    spec: Tree = {"policyName": policy, "matchResources": match}
    if kind == "ValidatingAdmissionPolicyBinding":
        actions: tuple[list[str], ...] = (["Deny"], ["Deny", "Audit"], ["Warn"], ["Warn", "Audit"])
        further: tuple[list[str], ...] = () if sound else (["Deny", "Warn"], [], ["x"], ["Audit", "Audit"])
        spec["validationActions"] = chance.choice((*actions, *further))
    if chance.random() < 0.6:
        reference: Tree = {
            "name": chance.choice(("limits", "limits", "none")),
            "parameterNotFoundAction": chance.choice(("Allow", "Deny")),
        }
        if not sound and chance.random() < 0.5:
            reference = chance.choice(
                (
                    {},
                    {"name": "a"},
                    {"selector": {}, "name": "a"},
                    {"selector": {}, "parameterNotFoundAction": "Deny", "namespace": "A_"},
                )
            )
        spec["paramRef"] = reference
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _webhooks(chance: Random, kind: str, name: str, *, sound: bool) -> Tree:
    """Of this namespace alone; nobody listens."""
    hook: Tree = {
        "name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 1,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"], "resources": ["configmaps"]}],
        "clientConfig": chance.choice(({"url": "https://127.0.0.1:1/x"}, {"service": {"namespace": "${ns}", "name": "none", "path": "/a"}})),
    }  # fmt: skip
    hook |= some(chance, {
        "failurePolicy": ["Ignore", "Fail"], "matchPolicy": ["Exact", "Equivalent"], "objectSelector": [{"matchLabels": {"hook": "yes"}}],
        "matchConditions": [[{"name": "c", "expression": condition(chance)}], [{"name": "c", "expression": "object.metadata.name != 'free'"}]],
    }, 2)  # fmt: skip
    if not sound:
        hook |= some(chance, {
            "name": ["a", "", "A.b.c"], "sideEffects": ["Some", "x", "NoneOnDryRun"], "timeoutSeconds": [0, 31, -1],
            "admissionReviewVersions": [[], ["v2"], ["v1", "v1"]],
            "clientConfig": [{}, {"url": "http://a"}, {"url": "https://a/?x"}, {"url": "https://u:p@a"}, {"service": {"name": "", "namespace": ""}}, {"url": "::"},
                             {"service": {"name": "a", "namespace": "b", "port": 0, "path": "//"}}, {"url": "https://a", "caBundle": "eA=="}],
            "failurePolicy": ["x"], "matchPolicy": ["x"], "reinvocationPolicy": ["IfNeeded", "x"],
            "rules": [[], _rules(chance, ["*", "pods"]), _rules(chance, ["*/*"]), _rules(chance, ["pods/x", "pods/*"]), [{}]],
        }, 3)  # fmt: skip
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [hook],
    }


def policies(bodies: Bodies) -> Iterator[Step]:
    """Policies that are tried, one that is in force, and what it says of objects; then the same of a webhook."""
    chance = bodies.chance
    yield from _tried(bodies)
    yield step(
        "POST",
        "/api/v1/namespaces/${ns}/configmaps",
        "params",
        {"metadata": {"name": "limits"}, "data": {"limit": "3"}},
    )
    for kind, policy in (
        ("Validating", _sound_policy(chance, "${ns}-p")),
        ("Mutating", _mutating(chance, "${ns}-p", sound=True)),
    ):
        collection = f"{_GROUP}/{kind.lower()}admissionpolic"
        yield step("POST", f"{collection}ies", f"policy in force: {kind}", policy)
        binding = _binding(chance, f"{kind}AdmissionPolicyBinding", "${ns}-b", "${ns}-p", sound=True)
        yield step("POST", f"{collection}ybindings", f"binding in force: {kind}", binding)
        yield {"sleep": 1.5}
        yield from _asked(chance)
        yield step("DELETE", f"{collection}ybindings/${{ns}}-b", "end of a binding")
        yield step("DELETE", f"{collection}ies/${{ns}}-p", "end of a policy")
        yield {"sleep": 1.0}
    for kind in ("Validating", "Mutating"):
        collection = f"{_GROUP}/{kind.lower()}webhookconfigurations"
        made = _webhooks(chance, f"{kind}WebhookConfiguration", "${ns}-w", sound=True)
        yield step("POST", collection, f"webhook in force: {kind}", made)
        yield {"sleep": 1.5}
        yield from _asked(chance, 4)
        yield step("DELETE", f"{collection}/${{ns}}-w", "end of a webhook")
        yield {"sleep": 1.0}


def _tried(bodies: Bodies) -> Iterator[Step]:
    chance = bodies.chance
    for number in range(14):
        kind = chance.choice(("Validating", "Mutating"))
        name, query = f"${{ns}}-{number}", {"dryRun": "All", **some(chance, {"fieldValidation": ["Strict"]}, 1)}
        what = chance.choice(("policy", "policy", "policy", "binding", "webhook"))
        if what == "policy":
            path, made = (
                "policies",
                _policy(chance, name) if kind == "Validating" else _mutating(chance, name),
            )
        elif what == "binding":
            path, made = "policybindings", _binding(chance, f"{kind}AdmissionPolicyBinding", name, "p", sound=False)
        else:
            made = _webhooks(chance, f"{kind}WebhookConfiguration", name, sound=False)
        if chance.random() < 0.2:
            bodies.spoil(made["spec"] if "spec" in made else made["webhooks"])
        path = f"{kind.lower()}webhookconfigurations" if what == "webhook" else f"{kind.lower()}admission{path}"
        yield step("POST", f"{_GROUP}/{path}", f"{what} tried: {kind}", clean(made), query=query)


def _asked(chance: Random, count: int = 9) -> Iterator[Step]:
    """Writes of config maps that may be refused, warned of or changed."""
    collection = "/api/v1/namespaces/${ns}/configmaps"
    for _ in range(count):
        data: Any = chance.choice(({}, {"a": "a"}, {"a": "abc", "b": "7"}, {"b": ""}, None, {"a/b": "é"}))
        metadata: Tree = {"name": chance.choice(("one", "free", "a.b"))} | some(
            chance, {"labels": [{"x": "y"}, {"hook": "yes"}]}, 1
        )
        body = {"metadata": metadata, **({"data": data} if data is not None else {})}
        kind = chance.random()
        query = {"dryRun": "All", **some(chance, {"fieldManager": ["m"]}, 1)}
        if kind < 0.55:
            yield step(
                "POST", collection, "create under policy", body, query=query, managedFields=chance.random() < 0.3
            )
        elif kind < 0.75:
            yield patch(
                f"{collection}/limits",
                "merge",
                {"data": {"a": chance.choice(("a", "b"))}},
                query=query,
                name="patch under policy",
            )
        elif kind < 0.9:
            whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "x"}}
            yield patch(
                f"{collection}/applied",
                "apply",
                whole,
                query={**query, "fieldManager": "m"},
                name="apply under policy",
                managedFields=True,
            )
        else:
            yield step("DELETE", f"{collection}/limits", "delete under policy", query={"dryRun": "All"})
