"""ValidatingAdmissionPolicies: their status says which expressions do not fit the kinds that a policy is about, and which generation was looked at.

The check is `bayplan.api.cel.policies`. As in Kubernetes, a policy is looked at once per generation, with the definitions of custom resources as they are then.
Source of the behaviour: kube-controller-manager's validatingadmissionpolicy-status-controller.
"""

from __future__ import annotations

from bayplan.api.custom_resources.kinds import kinds_of
from bayplan.api.errors import ApiError
from bayplan.api.kinds import DEFAULT_KINDS, KindTable
from bayplan.api.types import admissionregistration_v1, apiextensions_v1
from bayplan.controllers.base import Controller

_MANAGER = "validatingadmissionpolicy-status"
"""Whose the results are in managed fields."""


class ValidatingAdmissionPolicyStatusController(Controller):
    """Keys are names of policies."""

    name = "validatingadmissionpolicy-status-controller"
    workers = 5

    def setup(self) -> None:
        self.policies = self.informer(admissionregistration_v1.ValidatingAdmissionPolicy)
        self.definitions = self.informer(apiextensions_v1.CustomResourceDefinition)
        self.watch_keys(self.policies)

    async def reconcile(self, key: str) -> None:
        policy = self.policies.cache.by_key(key)
        generation = 0 if policy is None else policy.metadata.generation
        if policy is None or generation <= policy.status.observed_generation:
            return
        from bayplan.api.cel.policies import expression_warnings, known_kinds  # wanted only where there are policies

        await self.definitions.wait_for_sync()
        rows = (row for definition in self.definitions.cache for row in kinds_of(definition))
        custom = (row for row in rows if row.plural and row.definition.served)
        warnings = expression_warnings(policy.spec, known_kinds(KindTable((*DEFAULT_KINDS, *custom))))
        try:
            await self._apply_status(policy.metadata.name, generation, warnings)
        except ApiError as error:
            if error.code != 404:
                raise

    async def _apply_status(
        self, name: str, generation: int, warnings: tuple[admissionregistration_v1.ExpressionWarning, ...]
    ) -> None:
        """Server-side apply, so that what others write into the status stays."""
        status = admissionregistration_v1.ValidatingAdmissionPolicyStatus(
            observed_generation=generation,
            type_checking=admissionregistration_v1.TypeChecking(expression_warnings=warnings),
        )
        policy = admissionregistration_v1.ValidatingAdmissionPolicy
        await self.client.apply(policy, name, "", {"status": status}, manager=_MANAGER, subresource="status")
