"""What is asked of a definition: everything of a new one; of a changed one not what it broke before.

Source: `ValidateCustomResourceDefinitionUpdate` in `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Each is true for new definitions, and for changed ones that did not break the rule before."""

    needs_known_review_version: bool = True
    """Conversion webhooks speak a version of reviews that this server speaks."""
    needs_schemas: bool = True
    """Every version has a schema."""
    needs_valid_types: bool = True
    """Types in schemas are those of OpenAPI."""
    needs_structural: bool = True
    """Schemas are structural."""
    needs_pruned_defaults: bool = True
    """Defaults have no fields that their schema does not know."""
    needs_atomic_sets: bool = True
    """Items of sets are atomic."""
    needs_usable_keys: bool = True
    """Items of sets and of lists under keys, and the keys, are always there."""
    checks_certificates: bool = False
    """Certificates of conversion webhooks can be read; only of established definitions whose certificates could be."""
    keeps_names: bool = False
    """Scope and kind stay as they are, because there may be objects."""
    crowded: frozenset[str] = frozenset()
    """Versions that have too many selectable fields as they did before; the empty name stands for all versions together."""
    unchanged: frozenset[str] = frozenset()
    """Versions whose schemas are as they were."""
