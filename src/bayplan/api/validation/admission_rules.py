"""Rules and defaults that admission webhooks and admission policies share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bayplan.api.errors import ErrorType, FieldError, duplicate, forbidden, invalid, required, too_many, unsupported
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.types import meta_v1
from bayplan.api.validation.fields import Errors, check_format, check_label_selector, repeats
from bayplan.api.validation.values import formats

if TYPE_CHECKING:
    from bayplan.api.cel.compilation import Compiler

MATCH_POLICIES = ("Equivalent", "Exact")
FAILURE_POLICIES = ("Fail", "Ignore")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MUTATED_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_MAX_MATCH_CONDITIONS = 64

Rule = types.RuleWithOperations | types.NamedRuleWithOperations


def default_rules(rules: Sequence[Rule]) -> None:
    """Rules hold for every scope unless they say otherwise."""
    for rule in rules:
        if rule.scope is None:
            rule.scope = "*"


def default_match_resources(match: types.MatchResources) -> None:
    """Selectors that match everything, equivalent matching, and rules of every scope."""
    if match.match_policy is None:
        match.match_policy = "Equivalent"
    if match.namespace_selector is None:
        match.namespace_selector = meta_v1.LabelSelector()
    if match.object_selector is None:
        match.object_selector = meta_v1.LabelSelector()
    default_rules(match.resource_rules)
    default_rules(match.exclude_resource_rules)


def check_rules(errors: Errors, path: str, rules: Sequence[Rule]) -> None:
    """What an admission webhook or policy looks at."""
    for index, rule in enumerate(rules):
        where = f"{path}[{index}]"
        if isinstance(rule, types.NamedRuleWithOperations):
            again = repeats(rule.resource_names)
            for position, name in enumerate(rule.resource_names):
                check_format(errors, f"{where}.resourceNames[{position}]", name, formats.path_segment)
                if position in again:
                    errors.append(duplicate(f"{where}.resourceNames[{position}]", name))
        _check_operations(errors, f"{where}.operations", rule.operations)
        _check_values(errors, where, "apiGroups", rule.api_groups, "groups")
        _check_values(errors, where, "apiVersions", rule.api_versions, "versions")
        for position, version in enumerate(rule.api_versions):
            if not version:
                errors.append(required(f"{where}.apiVersions[{position}]"))
        _check_resources(errors, f"{where}.resources", rule.resources)
        if rule.scope is not None and rule.scope not in _SCOPES:
            errors.append(unsupported(f"{where}.scope", rule.scope, _SCOPES))


def _check_operations(errors: Errors, path: str, operations: tuple[str, ...]) -> None:
    if not operations:
        errors.append(required(path))
    elif len(operations) > 1 and "*" in operations:
        errors.append(invalid(path, operations, "if '*' is present, must not specify other operations"))
    for position, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(unsupported(f"{path}[{position}]", operation, _OPERATIONS))


def check_mutated_operations(errors: Errors, path: str, rules: Sequence[Rule]) -> None:
    """Rules of mutating policies do not look at deletions."""
    for rule in rules:
        for operation in rule.operations:
            if operation not in _MUTATED_OPERATIONS:
                errors.append(unsupported(f"{path}.operations", operation, _MUTATED_OPERATIONS))


def _check_values(errors: Errors, path: str, field: str, values: tuple[str, ...], noun: str) -> None:
    if not values:
        errors.append(required(f"{path}.{field}"))
    elif len(values) > 1 and "*" in values:
        text = f"if '*' is present, must not specify other API {noun}"
        errors.append(invalid(f"{path}.{field}", values, text))


def _check_resources(errors: Errors, path: str, resources: tuple[str, ...]) -> None:
    if not resources:
        errors.append(required(path))
    all_of: set[str] = set()
    any_with: set[str] = set()
    is_whole = False
    for index, resource in enumerate(resources):
        name, slash, subresource = resource.partition("/")
        if not resource:
            errors.append(required(f"{path}[{index}]"))
            continue
        if not slash:
            is_whole = resource != "*"
            continue
        for known, one, covering in ((all_of, name, f"{name}/*"), (any_with, subresource, f"*/{subresource}")):
            if one in known:
                text = f"if '{covering}' is present, must not specify {resource}"
                errors.append(invalid(f"{path}[{index}]", resource, text))
        if subresource == "*":
            all_of.add(name)
        if name == "*":
            any_with.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and is_whole:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, text))


def compiler_of(kind: types.ParamKind | None, *, has_variables: bool = False) -> Compiler:
    """What compiles the expressions of a policy."""
    from bayplan.api.cel.compilation import Compiler  # wanted only where somebody writes policies

    return Compiler(has_params=kind is not None, has_variables=has_variables)


def check_expression(
    errors: Errors, path: str, expression: str, compiler: Compiler, *wanted: str, has_authorizer: bool = True
) -> None:
    """An expression that has to evaluate to one of the named types."""
    problem = compiler.problem(expression, *wanted, has_authorizer=has_authorizer)
    if problem:
        errors.append(expression_error(path, expression, problem))


def expression_error(path: str, expression: str, problem: str) -> FieldError:
    """What is wrong with an expression, as a compiler says: a constant that cannot be converted is no fault of it."""
    if problem.startswith("program instantiation failed: "):
        return FieldError(ErrorType.INTERNAL, path, None, problem)
    return invalid(path, expression, problem)


def check_match_conditions(
    errors: Errors,
    path: str,
    conditions: Sequence[types.MatchCondition],
    kind: types.ParamKind | None = None,
) -> None:
    """Names and expressions, which see parameters if there is a kind of them, but no variables."""
    if len(conditions) > _MAX_MATCH_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MAX_MATCH_CONDITIONS))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where = f"{path}[{index}]"
        expression = condition.expression.strip()
        if not expression:
            errors.append(required(f"{where}.expression"))
        else:
            check_expression(errors, f"{where}.expression", expression, compiler_of(kind), "bool")
        if not condition.name:
            errors.append(required(f"{where}.name"))
        else:
            check_format(errors, f"{where}.name", condition.name, formats.label_key)
            if condition.name in seen:
                errors.append(duplicate(f"{where}.name", condition.name))
            seen.add(condition.name)


def check_match_resources(errors: Errors, path: str, match: types.MatchResources, *, needs_rules: bool) -> None:
    """`matchConstraints` of a policy or `matchResources` of a binding."""
    policy = match.match_policy
    if policy is None:
        errors.append(required(f"{path}.matchPolicy"))
    elif policy not in MATCH_POLICIES:
        errors.append(unsupported(f"{path}.matchPolicy", policy, MATCH_POLICIES))
    for name, selector in (("namespaceSelector", match.namespace_selector), ("objectSelector", match.object_selector)):
        if selector is None:
            errors.append(required(f"{path}.{name}"))
        else:
            check_label_selector(errors, f"{path}.{name}", selector)
    check_rules(errors, f"{path}.resourceRules", match.resource_rules)
    check_rules(errors, f"{path}.excludeResourceRules", match.exclude_resource_rules)
    if needs_rules and not match.resource_rules:
        errors.append(required(f"{path}.resourceRules"))


def check_param_kind(errors: Errors, path: str, kind: types.ParamKind) -> None:
    """`paramKind` of a policy."""
    if not kind.api_version:
        errors.append(required(f"{path}.apiVersion"))
    elif kind.api_version.count("/") > 1:
        errors.append(
            invalid(f"{path}.apiVersion", kind.api_version, f"unexpected GroupVersion string: {kind.api_version}")
        )
    else:
        group, _, version = kind.api_version.rpartition("/")
        if group and (messages := formats.dns_subdomain(group)):
            errors.append(invalid(f"{path}.apiVersion", group, ",".join(messages)))
        if not version:
            errors.append(invalid(f"{path}.apiVersion", kind.api_version, "version must be specified"))
        elif messages := formats.dns_1035_label(version):
            errors.append(invalid(f"{path}.apiVersion", version, ",".join(messages)))
    if not kind.kind:
        errors.append(required(f"{path}.kind"))
    else:
        if messages := formats.dns_1035_label(kind.kind.lower()):
            text = f"may have mixed case, but should otherwise match: {','.join(messages)}"
            errors.append(invalid(f"{path}.kind", kind.kind, text))


def check_param_ref(errors: Errors, path: str, reference: types.ParamRef) -> None:
    """`paramRef` of a binding."""
    if reference.name:
        check_format(errors, f"{path}.name", reference.name, formats.path_segment)
        if reference.selector is not None:
            errors.append(forbidden(f"{path}.name", "name and selector are mutually exclusive"))
    if reference.selector is not None:
        check_label_selector(errors, f"{path}.selector", reference.selector)
        if reference.name:
            errors.append(forbidden(f"{path}.selector", "name and selector are mutually exclusive"))
    if not reference.name and reference.selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    action = reference.parameter_not_found_action
    if not action:
        errors.append(required(f"{path}.parameterNotFoundAction"))
    elif action not in ("Allow", "Deny"):
        errors.append(unsupported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow")))


_CEL_RESERVED = frozenset(
    (
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    )
)


def check_variables(errors: Errors, path: str, variables: Sequence[types.Variable], compiler: Compiler) -> None:
    """Variables of a policy; the compiler knows them then."""
    for index, variable in enumerate(variables):
        where = f"{path}[{index}]"
        if not variable.name.strip():
            errors.append(required(f"{where}.name", "name is not specified"))
        elif formats.c_identifier(variable.name) or variable.name in _CEL_RESERVED:
            errors.append(invalid(f"{where}.name", variable.name, "must be a valid CEL identifier"))
        if not variable.expression.strip():
            errors.append(required(f"{where}.expression", "expression is not specified"))
        elif problem := compiler.add_variable(variable.name, variable.expression):
            errors.append(expression_error(f"{where}.expression", variable.expression, problem))
