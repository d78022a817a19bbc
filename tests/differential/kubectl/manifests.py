"""The files that the commands of the comparison name: name -> text."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_POD: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web, tier: front}
spec:
  automountServiceAccountToken: false
  containers:
  - name: web
    image: nginx:1.27
    ports: [{containerPort: 80, name: http}]
    env:
    - {name: A, value: b}
    - name: FROM
      valueFrom: {configMapKeyRef: {name: settings, key: a}}
    resources:
      requests: {cpu: 100m, memory: 64Mi}
      limits: {cpu: 200m, memory: 128Mi}
    livenessProbe:
      httpGet: {path: /, port: http}
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
    - {name: settings, mountPath: /settings, readOnly: true}
  initContainers:
  - {name: init, image: busybox, command: [sh, -c, "true"]}
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: settings, configMap: {name: settings}}
  tolerations:
  - {key: a, operator: Exists, effect: NoSchedule}
  nodeSelector: {disk: ssd}
"""
_DEPLOYMENT: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
  labels: {app: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - name: shop
        image: shop:1
        ports: [{containerPort: 8080}]
"""
_CRD: Final = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.harbor.example.com}
spec:
  group: harbor.example.com
  scope: Namespaced
  names: {plural: ships, singular: ship, kind: Ship, shortNames: [sh], categories: [all, fleet]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.crew, statusReplicasPath: .status.crew, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Crew, type: integer, jsonPath: .spec.crew, description: How many sail}
    - {name: Port, type: string, jsonPath: .spec.port}
    - {name: Tonnage, type: number, jsonPath: .spec.tonnage, priority: 1}
    - {name: Built, type: date, jsonPath: .spec.built}
    selectableFields:
    - jsonPath: .spec.port
    schema:
      openAPIV3Schema:
        type: object
        description: A ship of the harbor
        properties:
          spec:
            type: object
            required: [crew]
            x-kubernetes-validations:
            - {rule: "!has(self.port) || self.crew > 1", message: a ship in a port needs two, reason: FieldValueForbidden, fieldPath: .crew}
            - {rule: "!has(oldSelf.built) || self.built == oldSelf.built", message: built once}
            properties:
              crew: {type: integer, minimum: 1, maximum: 100, description: How many sail}
              port: {type: string, enum: [north, south]}
              tonnage: {type: number, default: 1.5}
              built: {type: string, format: date-time}
              flags:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, color: {type: string}}
          status:
            type: object
            properties: {crew: {type: integer}, selector: {type: string}, phase: {type: string}}
  - name: v1beta1
    served: true
    storage: false
    deprecated: true
    deprecationWarning: "harbor.example.com/v1beta1 Ship is old"
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""

FILES: Final = {
    "account.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\n",
    "pod.yaml": _POD,
    "pod-image.yaml": _POD.replace("nginx:1.27", "nginx:1.28"),
    "pod-moved.yaml": _POD.replace("disk: ssd", "disk: hdd"),
    "pod-unknown.yaml": _POD.replace("image: nginx:1.27", "image: nginx:1.27\n    imagee: x\n    Ports: []"),
    "pod-twice.yaml": _POD.replace("  name: web\n", "  name: web\n  name: web\n", 1),
    "pod-bad.yaml": _POD.replace("name: web\n  labels", "name: Web_\n  labels").replace("cpu: 200m", "cpu: 50m"),
    "deployment.yaml": _DEPLOYMENT,
    "deployment-2.yaml": _DEPLOYMENT.replace("shop:1", "shop:2").replace("replicas: 2", "replicas: 3"),
    "deployment-selector.yaml": _DEPLOYMENT.replace("matchLabels: {app: shop}", "matchLabels: {app: other}"),
    "deployment-old.yaml": _DEPLOYMENT.replace("apps/v1", "extensions/v1beta1"),
    "deployment-beta.yaml": _DEPLOYMENT.replace("apps/v1", "apps/v1beta1"),
    "deployment-kind.yaml": _DEPLOYMENT.replace("kind: Deployment", "kind: Deploiment"),
    "deployment-text.yaml": _DEPLOYMENT.replace("replicas: 2", "replicas: two"),
    "no-kind.yaml": "apiVersion: v1\nmetadata: {name: x}\n",
    "broken.yaml": "apiVersion: v1\nkind: ConfigMap\n  metadata: {name: x}\n",
    "empty.yaml": "",
    "list.yaml": (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: l1}, data: {a: b}}\n"
        "- {apiVersion: v1, kind: ConfigMap, metadata: {name: l2}, data: {a: c}}\n"
    ),
    "several.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s1, labels: {set: several}}\ndata: {a: b}\n---\n"
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s2, labels: {set: several}}\nstringData: {password: x}\n---\n"
        "apiVersion: v1\nkind: Service\nmetadata: {name: s3, labels: {set: several}}\nspec: {selector: {a: b}, ports: [{port: 80}]}\n"
    ),
    "several-less.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s1, labels: {set: several}}\ndata: {a: changed}\n"
    ),
    "config.properties": "a=b\nc=d\n",
    "settings.env": "A=b\n# comment\nC=d\n",
    "patch.yaml": "spec:\n  template:\n    spec:\n      containers:\n      - {name: shop, image: shop:3}\n",
    "crd.yaml": _CRD,
    "crd-bad.yaml": _CRD.replace("ships.harbor", "boats.harbor").replace(
        "type: integer, minimum", "type: integre, minimum"
    ),
    "ship.yaml": (
        "apiVersion: harbor.example.com/v1\nkind: Ship\nmetadata: {name: anna}\n"
        "spec: {crew: 3, port: north, built: '2020-01-02T03:04:05Z', flags: [{name: a, color: red}]}\n"
    ),
    "ship-2.yaml": (
        "apiVersion: harbor.example.com/v1\nkind: Ship\nmetadata: {name: anna}\n"
        "spec: {crew: 4, port: south, built: '2020-01-02T03:04:05Z', flags: [{name: b, color: blue}]}\n"
    ),
    "ship-rule.yaml": (
        "apiVersion: harbor.example.com/v1\nkind: Ship\nmetadata: {name: berta}\nspec: {crew: 1, port: north}\n"
    ),
    "ship-unknown.yaml": (
        "apiVersion: harbor.example.com/v1\nkind: Ship\nmetadata: {name: clara}\nspec: {crew: 1, prt: north}\n"
    ),
    "ship-types.yaml": (
        "apiVersion: harbor.example.com/v1\nkind: Ship\nmetadata: {name: dora}\n"
        "spec: {crew: many, port: west, flags: [{color: red}]}\n"
    ),
    "ship-beta.yaml": (
        "apiVersion: harbor.example.com/v1beta1\nkind: Ship\nmetadata: {name: emma}\nspec: {crew: 2, mast: 3}\n"
    ),
    "policy.yaml": (
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: owners}\nspec:\n"
        "  matchConstraints:\n    resourceRules:\n"
        "    - {apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}\n"
        "  validations:\n  - {expression: 'has(object.metadata.labels) && \"owner\" in object.metadata.labels', message: needs an owner}\n"
        "  - {expression: 'object.metadata.name.size() < 6', messageExpression: \"'name ' + object.metadata.name + ' is long'\"}\n"
        "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: owners-warn}\n"
        "spec:\n  policyName: owners\n  validationActions: [Warn, Audit]\n"
        "  matchResources: {namespaceSelector: {matchLabels: {checked: warn}}}\n"
        "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: owners-deny}\n"
        "spec:\n  policyName: owners\n  validationActions: [Deny]\n"
        "  matchResources: {namespaceSelector: {matchLabels: {checked: deny}}}\n"
    ),
    "rbac.yaml": (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reader}\n"
        "rules: [{apiGroups: [''], resources: [pods], verbs: [get, list]}]\n---\n"
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: readers}\n"
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}\n"
        "subjects: [{kind: User, name: alice, apiGroup: rbac.authorization.k8s.io}]\n"
    ),
    "rbac-more.yaml": (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reader}\n"
        "rules: [{apiGroups: [''], resources: [pods, secrets], verbs: [get, watch]}]\n"
    ),
    "csr.yaml": (
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {name: dave}\nspec:\n"
        "  signerName: example.com/dave\n  usages: [client auth]\n  expirationSeconds: 3600\n  request: "
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQklUQ0J5QUlCQURCbU1SSXdFQVlEVlFRRERBbDBaWE4wTFhWelpYSXdXVEFUQmdjcWhrak9QUUlC\n"
    ),
    "node.yaml": (
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {disk: ssd, kubernetes.io/hostname: n1}}\n"
        "spec: {podCIDR: 10.1.0.0/24, taints: [{key: a, value: b, effect: NoSchedule}]}\n"
    ),
    "objects.yaml": Path(__file__).with_name("objects.yaml").read_text(encoding="utf-8"),
    "kustomize/kustomization.yaml": (
        "namePrefix: k-\ncommonAnnotations: {from: kustomize}\nresources: [map.yaml]\n"
        "configMapGenerator:\n- {name: made, literals: [a=b], options: {disableNameSuffixHash: true}}\n"
    ),
    "kustomize/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: base}\ndata: {x: z}\n",
}
