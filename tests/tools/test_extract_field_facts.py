"""What is taken from Go's sources: names, order, and the types that messages speak of."""

from __future__ import annotations

from tools.extract_field_facts import flatten, named_of, parse_structs

SOURCE = """
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

type ResourceList map[ResourceName]resource.Quantity

type Verbs []string

type Thing struct {
	metav1.TypeMeta `json:",inline"`
	Spec *ThingSpec `json:"spec,omitempty" protobuf:"bytes,1,opt,name=spec"`
	Data map[string][]byte `json:"data,omitempty" protobuf:"bytes,2,rep,name=data"`
	Conditions []metav1.Condition `json:"conditions" protobuf:"bytes,3,rep,name=conditions"`
	Source `json:",inline" protobuf:"bytes,4,opt,name=source"`
	Hidden string `json:"-"`
}

type Source struct {
	Limits ResourceList `json:"limits,omitempty" protobuf:"bytes,1,rep,name=limits"`
}
"""


def test_fields_come_in_order_with_the_types_that_messages_name() -> None:
    rows = flatten(parse_structs(SOURCE, "v1"), "Thing")
    assert [(row[0], row[4], row[5]) for row in rows] == [
        ("kind", "string", "TypeMeta."),
        ("apiVersion", "string", "TypeMeta."),
        ("spec", "v1.ThingSpec", ""),
        ("data", "map[string][]uint8", ""),
        ("conditions", "[]v1.Condition", ""),
        ("limits", "v1.ResourceList", "Source."),
    ]
    assert [row[2] for row in rows[2:]] == ["1", "2", "3", "4.1"]


def test_lists_and_maps_with_a_name_are_told_apart() -> None:
    assert named_of(SOURCE, "v1") == {
        "v1.ResourceList": "map[v1.ResourceName]resource.Quantity",
        "v1.Verbs": "[]string",
    }
