"""The commands of the comparison, in their order: lines for a shell, by what they are about."""

from __future__ import annotations

from typing import Final

_SETUP: Final = """
kubectl apply -f account.yaml
kubectl create namespace other
kubectl label namespace other checked=deny
kubectl create -f node.yaml
kubectl create -f objects.yaml
kubectl create -f pod.yaml
kubectl create -f deployment.yaml --save-config
kubectl create -f rbac.yaml
kubectl create -f csr.yaml
"""
_DISCOVERY: Final = """
kubectl api-versions
kubectl api-resources
kubectl api-resources -o wide
kubectl api-resources --namespaced=false --sort-by=kind -o name
kubectl api-resources --api-group=apps --verbs=list,watch --categories=all
kubectl explain pods
kubectl explain pod.spec.containers
kubectl explain pod.spec.containers.livenessProbe.httpGet --recursive
kubectl explain deployment --recursive
kubectl explain deployments.apps.spec.strategy --api-version=apps/v1
kubectl explain hpa.spec.metrics --api-version=autoscaling/v2
kubectl explain ingress.spec.rules.http.paths -o plaintext-openapiv2
kubectl explain customresourcedefinitions.spec.versions.schema
kubectl explain pod.spec.nosuch
kubectl explain nosuch
kubectl explain pods --api-version=v2
kubectl explain networkpolicy.spec -o plaintext
kubectl get --raw /healthz
kubectl get --raw '/readyz?verbose' | grep -v etcd
kubectl get --raw /apis/apps
kubectl get --raw /nosuch
kubectl get --raw /api/v1/namespaces/default/pods/nosuch
kubectl get --raw /openapi/v3 | tr ',' '\\n' | sed 's/hash=.*//' | head -40
kubectl cluster-info
kubectl auth whoami
kubectl auth whoami -o yaml
kubectl auth can-i create pods
kubectl auth can-i delete pods --as=alice
kubectl auth can-i get pods --as=alice
kubectl auth can-i list pods --as=alice --all-namespaces
kubectl auth can-i get pods/log --as=alice
kubectl auth can-i get /healthz --as=alice
kubectl auth can-i get nosuch
kubectl auth can-i --list --as=alice | sort
kubectl auth can-i '*' '*' --as=system:serviceaccount:default:default
kubectl auth reconcile -f rbac-more.yaml
kubectl auth reconcile -f rbac-more.yaml --remove-extra-permissions
kubectl auth reconcile -f rbac.yaml --dry-run=client
"""
_READS: Final = """
kubectl get pods
kubectl get pods -o wide
kubectl get pod web -o yaml
kubectl get pod web -o yaml --show-managed-fields
kubectl get pod web -o json
kubectl get pod/web deployment/shop
kubectl get pods,services,deployments
kubectl get all
kubectl get all -A
kubectl get all,cm,secret,pvc,pv,ingress,netpol,pdb,hpa,sc,pc,quota,limits,sts,ds,cj,jobs,rc,leases,csr,roles,rolebindings,events -o wide
kubectl get ep hand -o wide
kubectl get endpointslices slice -o wide
kubectl get nodes,csidrivers,runtimeclasses,ingressclasses,validatingwebhookconfigurations -o wide
kubectl get pods -l app=web --show-labels
kubectl get pods -l 'app in (web,x),tier!=back' -L app,tier
kubectl get pods -l 'app=(x'
kubectl get pods --field-selector=metadata.name=web,status.phase=Pending
kubectl get pods --field-selector=spec.nosuch=x
kubectl get pods --field-selector=spec.nodeName=
kubectl get secrets --field-selector=metadata.namespace!=other -A
kubectl get services --sort-by=.metadata.name
kubectl get services --sort-by='{.spec.type}' -o name
kubectl get services -o jsonpath='{range .items[*]}{.metadata.name}{"\\t"}{.spec.ports[*].port}{"\\n"}{end}'
kubectl get services -o custom-columns=NAME:.metadata.name,TYPE:.spec.type,PORT:.spec.ports[0].port
kubectl get pods -o custom-columns=NAME:.metadata.name,CPU:.spec.containers[*].resources.requests.cpu --no-headers
kubectl get pods -o go-template='{{range .items}}{{.metadata.name}} {{.status.phase}}{{end}}'
kubectl get secret hidden -o jsonpath-as-json='{.data}'
kubectl get clusterroles --chunk-size=7 -o name
kubectl get clusterroles --chunk-size=0 --sort-by=.metadata.name | tail -5
kubectl get deployment shop --subresource=scale
kubectl get deployment shop --subresource=status -o name
kubectl get deployment shop --subresource=nosuch
kubectl get pods nosuch
kubectl get pods nosuch --ignore-not-found
kubectl get pods web nosuch
kubectl get nosuch
kubectl get pods.v2.apps
kubectl get -f pod.yaml -o name
kubectl get namespaces --show-labels
kubectl get svc kubernetes -o jsonpath='{.spec.type}'
kubectl get events
kubectl get events --for=pod/web
kubectl events
kubectl events --types=Normal
kubectl get priorityclasses
kubectl get flowschemas,prioritylevelconfigurations
kubectl get apiservices -o name
kubectl get pods -w --request-timeout=1s --output-watch-events
kubectl get cm settings -o yaml
kubectl get pods -A --show-kind
kubectl get pods -n nosuch
kubectl get pods -n other
kubectl get pods --as=alice
kubectl get secrets --as=alice
kubectl get pods -n other --as=alice
kubectl --token=wrong get pods
kubectl get pods --as=bob --as-group=system:masters -o name
kubectl describe pod web
kubectl describe deployment shop
kubectl describe service front headless outside
kubectl describe cm settings
kubectl describe secret hidden | sort
kubectl describe pvc,pv
kubectl describe quota,limits
kubectl describe ep hand
kubectl describe endpointslices slice
kubectl describe rc,rs
kubectl describe sts,ds
kubectl describe job,cj
kubectl describe ingress,ingressclass
kubectl describe netpol,pdb
kubectl describe hpa grow
kubectl describe sc,pc,runtimeclass
kubectl describe lease,csidriver
kubectl describe node n1
kubectl describe ns default other
kubectl describe sa default
kubectl describe roles,rolebindings
kubectl describe clusterrole view
kubectl describe csr dave
kubectl describe validatingwebhookconfiguration hook
kubectl describe pods -l app=nosuch
kubectl describe pod nosuch
kubectl describe pod we
kubectl describe flowschema global-default
kubectl logs web
kubectl logs nosuch
kubectl logs web -c nosuch
kubectl exec web -- true
kubectl attach web
kubectl port-forward web 1:80
kubectl cp web:/a /tmp/b
kubectl top pods
kubectl top nodes
"""
_CREATES: Final = """
kubectl create cm c1 --from-literal=a=b --from-file=config.properties --from-env-file=settings.env -o yaml --dry-run=server
kubectl create cm c1 --from-literal=a=b
kubectl create cm c1 --from-literal=a=b
kubectl create cm C_1 --from-literal=a=b
kubectl create cm c2 --from-literal='a b=c'
kubectl create secret generic g1 --from-literal=a=b --type=example.com/x
kubectl create secret docker-registry g2 --docker-server=r.example.com --docker-username=u --docker-password=p
kubectl create secret tls g3 --cert=nosuch --key=nosuch
kubectl create deployment d1 --image=nginx --replicas=2 --port=80
kubectl create deployment d2 --image=nginx -o yaml --dry-run=server
kubectl create deployment D3 --image=nginx
kubectl create job j1 --image=busybox -- date
kubectl create job j2 --from=cronjob/often
kubectl create cronjob cj1 --image=busybox --schedule='*/1 * * * *' -- date
kubectl create cronjob cj2 --image=busybox --schedule='nonsense' -- date
kubectl create service clusterip s10 --tcp=80:8080
kubectl create service nodeport s11 --tcp=80
kubectl create service loadbalancer s12 --tcp=80
kubectl create service externalname s13 --external-name=example.com
kubectl create ingress i1 --class=nginx --rule='a.example.com/*=front:80,tls=hidden'
kubectl create quota q1 --hard=pods=5,requests.cpu=1
kubectl create quota q2 --hard=pods=x
kubectl create pdb p1 --selector=app=web --min-available=50%
kubectl create pdb p2 --selector=app=web --min-available=1 --max-unavailable=1
kubectl create priorityclass pc1 --value=10 --description=ten
kubectl create priorityclass pc2 --value=2000000000
kubectl create priorityclass system-x --value=1
kubectl create role r1 --verb=get,list --resource=pods,deployments.apps
kubectl create role r2 --verb=get --resource=nosuch
kubectl create clusterrole cr1 --verb=get --non-resource-url=/x
kubectl create clusterrole cr2 --aggregation-rule=a=b
kubectl create rolebinding rb1 --role=r1 --user=bob --serviceaccount=default:default
kubectl create clusterrolebinding crb1 --clusterrole=view --group=g
kubectl create rolebinding rb2 --role=nosuch --user=x --as=alice
kubectl create sa a1
kubectl create token a1
kubectl create token nosuch
kubectl create token a1 --duration=1s
kubectl create token a1 --bound-object-kind=Secret --bound-object-name=nosuch
kubectl create ns N_1
kubectl create ns default
kubectl create -f list.yaml
kubectl create -f several.yaml --dry-run=server
kubectl create -f pod-bad.yaml
kubectl create -f pod-unknown.yaml
kubectl create -f pod-unknown.yaml --validate=warn --dry-run=server
kubectl create -f pod-unknown.yaml --validate=ignore --dry-run=server
kubectl create -f pod-twice.yaml --dry-run=server
kubectl create -f deployment-selector.yaml
kubectl create -f deployment-old.yaml
kubectl create -f deployment-beta.yaml
kubectl create -f deployment-kind.yaml
kubectl create -f deployment-text.yaml
kubectl create -f deployment-text.yaml --validate=false
kubectl create -f no-kind.yaml
kubectl create -f broken.yaml
kubectl create -f empty.yaml
kubectl create -f nosuch.yaml
kubectl create -f pod.yaml -n nosuch
kubectl create -f pod.yaml --as=alice
kubectl create --raw /api/v1/namespaces/default/configmaps -f no-kind.yaml
kubectl run r1 --image=nginx
kubectl run r2 --image=nginx --restart=Never --labels=a=b --env=X=y --port=80 --dry-run=server -o yaml
kubectl run R3 --image=nginx
kubectl expose deployment shop --port=80 --target-port=8080 --name=shop-1
kubectl expose deployment shop --port=80 --type=LoadBalancer --name=shop-1
kubectl expose pod web --port=80 --name=web-1 --dry-run=server -o yaml
kubectl expose cm settings --port=80
kubectl autoscale deployment shop --min=1 --max=3 --cpu-percent=50
kubectl autoscale deployment shop --min=5 --max=3
kubectl get pod,cm,secret,svc,deploy,job,cj,quota,pdb,role,rolebinding,sa,hpa
"""
_CHANGES: Final = """
kubectl apply -f deployment.yaml
kubectl apply -f deployment-2.yaml --dry-run=server -o yaml
kubectl diff -f deployment-2.yaml | sed 's/^\\(---\\|+++\\).*/\\1/'
kubectl apply -f deployment-2.yaml
kubectl diff -f deployment-2.yaml
kubectl apply -f deployment-selector.yaml
kubectl apply view-last-applied deployment/shop
kubectl apply set-last-applied -f deployment.yaml
kubectl apply edit-last-applied deployment/nosuch
kubectl apply -f pod-image.yaml
kubectl apply -f pod-moved.yaml
kubectl apply -f pod-bad.yaml --dry-run=server
kubectl apply -f pod-unknown.yaml
kubectl apply -f several.yaml
kubectl apply -f several-less.yaml --prune -l set=several
kubectl get cm,secret,svc -l set=several
kubectl apply -f broken.yaml
kubectl apply -k kustomize
kubectl get cm k-base k-made -o jsonpath='{.items[*].metadata.annotations.from}'
kubectl delete -k kustomize
kubectl apply --server-side -f deployment.yaml
kubectl apply --server-side -f deployment.yaml --field-manager=other
kubectl apply --server-side -f deployment-2.yaml --field-manager=other
kubectl apply --server-side -f deployment-2.yaml --field-manager=other --force-conflicts
kubectl get deployment shop -o yaml --show-managed-fields
kubectl apply --server-side -f pod-unknown.yaml --field-manager=x --force-conflicts 2>&1 | sed 's/[A-Za-z]*: field not/<one>: field not/'
kubectl apply --server-side -f pod-bad.yaml
kubectl diff --server-side -f deployment.yaml --field-manager=other --force-conflicts | sed 's/^\\(---\\|+++\\).*/\\1/'
kubectl apply --server-side -f list.yaml --dry-run=server
kubectl patch deployment shop -p '{"spec":{"replicas":4}}'
kubectl patch deployment shop -p '{"spec":{"replicas":4}}'
kubectl patch deployment shop --patch-file=patch.yaml
kubectl patch deployment shop --type=merge -p '{"spec":{"template":{"spec":{"containers":[{"name":"x","image":"y"}]}}}}' --dry-run=server -o yaml
kubectl patch deployment shop --type=json -p '[{"op":"replace","path":"/spec/replicas","value":1}]'
kubectl patch deployment shop --type=json -p '[{"op":"test","path":"/spec/replicas","value":9}]'
kubectl patch deployment shop --type=json -p '[{"op":"remove","path":"/spec/nosuch"}]'
kubectl patch deployment shop --type=json -p '{"a":1}'
kubectl patch deployment shop -p 'nonsense'
kubectl patch deployment shop -p '{"spec":{"replicas":"x"}}'
kubectl patch deployment shop -p '{"spec":{"selector":{"matchLabels":{"a":"b"}}}}'
kubectl patch deployment shop --subresource=scale --type=merge -p '{"spec":{"replicas":2}}'
kubectl patch deployment shop --subresource=status --type=merge -p '{"status":{"replicas":2}}'
kubectl patch node n1 -p '{"spec":{"podCIDR":"10.9.0.0/24"}}'
kubectl patch pvc data -p '{"spec":{"accessModes":["ReadOnlyMany"]}}'
kubectl patch service front -p '{"spec":{"clusterIP":"1.2.3.4"}}'
kubectl patch secret hidden -p '{"data":{"a":"not base64!"}}'
kubectl patch nosuch x -p '{}'
kubectl patch cm nosuch -p '{}'
kubectl replace -f deployment.yaml
kubectl replace -f pod-moved.yaml
kubectl replace --force -f pod-moved.yaml --grace-period=0
kubectl replace -f no-kind.yaml
kubectl get cm settings -o yaml | sed 's/a: b/a: changed/' | kubectl replace -f -
kubectl get cm settings -o yaml | sed 's/resourceVersion: .*/resourceVersion: "1"/' | kubectl replace -f -
kubectl get cm settings -o yaml | sed 's/uid: .*/uid: x/' | kubectl replace -f -
EDITOR='sed -i s/changed/edited/' kubectl edit cm settings
EDITOR='true' kubectl edit cm settings
EDITOR='sed -i s/data:/datta:/' kubectl edit cm settings
EDITOR='sed -i s/immutable/x/' kubectl edit cm settings -o json
EDITOR='sed -i s/name:.settings/name:.other/' kubectl edit cm settings
EDITOR='sed -i s/replicas:.*/replicas:.9/' kubectl edit deployment shop --output-patch
kubectl set image deployment/shop shop=shop:9
kubectl set image deployment/shop nosuch=x
kubectl set env deployment/shop A=b C-
kubectl set env deployment/shop --list
kubectl set env deployment/shop --from=configmap/settings 2>&1 | sort
kubectl set resources deployment shop --limits=cpu=200m,memory=64Mi --requests=cpu=100m
kubectl set resources deployment shop --limits=cpu=x
kubectl set selector service front 'app=other'
kubectl set serviceaccount deployment shop a1
kubectl set subject rolebinding rb1 --user=carol
kubectl get deployment shop -o yaml
kubectl label pod web a=b
kubectl label pod web a=c
kubectl label pod web a=c --overwrite
kubectl label pod web a-
kubectl label pod web nosuch-
kubectl label pod web 'a=b c'
kubectl label pod web --list | sort
kubectl label pods --all x=y
kubectl label pods -l x=y z=1 --dry-run=server
kubectl label cm settings a=b --resource-version=1
kubectl annotate pod web note='with words'
kubectl annotate pod web note=other
kubectl annotate pod web note=other --overwrite
kubectl annotate pod web note-
kubectl annotate pod web 'bad key=x'
kubectl taint node n1 key=value:NoExecute
kubectl taint node n1 key=value:NoExecute
kubectl taint node n1 key=other:NoExecute --overwrite
kubectl taint node n1 key:NoExecute-
kubectl taint node n1 nosuch-
kubectl taint node n1 key=value:Nonsense
kubectl cordon n1
kubectl cordon n1
kubectl uncordon n1
kubectl drain n1 --dry-run=server
kubectl drain n1 --ignore-daemonsets --timeout=2s
kubectl drain nosuch
kubectl uncordon n1
kubectl scale deployment shop --replicas=3
kubectl scale deployment shop --replicas=3 --current-replicas=9
kubectl scale deployment shop --replicas=-1
kubectl scale deployment/shop rs/rs rc/old sts/db --replicas=1
kubectl scale job once --replicas=1
kubectl scale cm settings --replicas=1
kubectl rollout history deployment/shop
kubectl rollout status deployment/shop --timeout=1s --watch=false
kubectl rollout pause deployment/shop
kubectl rollout pause deployment/shop
kubectl rollout resume deployment/shop
kubectl rollout undo deployment/shop
kubectl rollout restart deployment/shop -o jsonpath='{.spec.template.metadata.annotations}' | sed 's/:"[^"]*"/:x/'
kubectl rollout history sts/db
kubectl rollout restart cm/settings
kubectl certificate approve dave
kubectl certificate deny dave
kubectl certificate approve nosuch
kubectl get csr dave -o jsonpath='{.status.conditions[*].type}'
kubectl wait --for=jsonpath='{.status.phase}'=Pending pod/web --timeout=5s
kubectl wait --for=condition=Ready pod/web --timeout=1s
kubectl wait --for=delete pod/nosuch --timeout=1s
kubectl wait --for=condition=Ready pod/nosuch --timeout=1s
kubectl wait --for=create cm/settings --timeout=1s
kubectl debug web --image=busybox --target=web -c dbg --attach=false
kubectl get pod web -o jsonpath='{.spec.ephemeralContainers}'
kubectl debug node/n1 --image=busybox --attach=false | sed 's/debugger-[a-z0-9-]*/<pod>/'
"""
_CUSTOM: Final = """
kubectl apply -f crd-bad.yaml
kubectl apply -f crd.yaml
kubectl wait --for=condition=Established crd/ships.harbor.example.com --timeout=10s
until kubectl get ships >/dev/null 2>&1; do sleep 0.2; done
kubectl get ships
kubectl apply -f ship.yaml
kubectl get ships
kubectl get ships -o wide
kubectl get sh anna -o yaml
kubectl get fleet
kubectl get ships --field-selector=spec.port=north
kubectl get ships --field-selector=spec.crew=3
kubectl describe ship anna
kubectl explain ship
kubectl explain ship.spec --recursive
kubectl explain ship.spec.flags
kubectl api-resources --api-group=harbor.example.com -o wide
kubectl apply -f ship-2.yaml
kubectl apply -f ship-rule.yaml
kubectl apply -f ship-unknown.yaml
kubectl apply -f ship-unknown.yaml --validate=warn
kubectl apply -f ship-types.yaml 2>&1 | sort
kubectl apply -f ship-beta.yaml
kubectl get ships.v1beta1.harbor.example.com
kubectl get ships.v1beta1.harbor.example.com emma -o yaml
kubectl patch ship anna --type=merge -p '{"spec":{"crew":5,"port":null}}'
kubectl patch ship anna -p '{"spec":{"crew":5}}'
kubectl patch ship anna --type=merge -p '{"spec":{"built":"2021-01-01T00:00:00Z"}}'
kubectl patch ship anna --type=json -p '[{"op":"add","path":"/spec/flags/-","value":{"name":"b"}}]'
kubectl patch ship anna --subresource=status --type=merge -p '{"status":{"crew":5,"phase":"x"}}'
kubectl scale ship anna --replicas=6
kubectl scale ship anna --replicas=600
kubectl get ship anna --subresource=scale
kubectl autoscale ship anna --max=9 --dry-run=server -o name
kubectl apply --server-side -f ship.yaml --field-manager=ssa
kubectl apply --server-side -f ship.yaml --field-manager=ssa --force-conflicts
kubectl get ship anna -o yaml --show-managed-fields
EDITOR='sed -i s/crew:.*/crew:.many/' kubectl edit ship anna
kubectl label ship anna a=b
kubectl annotate ships --all n=1
kubectl get crd ships.harbor.example.com -o jsonpath='{.status.conditions[*].type} {.status.storedVersions}'
kubectl describe crd ships.harbor.example.com
kubectl delete ship emma
kubectl delete crd ships.harbor.example.com
kubectl get ships
kubectl apply -f policy.yaml
kubectl label namespace default checked=warn
sleep 2
kubectl create cm long-name --from-literal=a=b
kubectl create cm long-name --from-literal=a=b -n other
kubectl create cm short --from-literal=a=b -n other
kubectl label cm l1 owner=x
kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings
kubectl describe validatingadmissionpolicy owners
kubectl delete -f policy.yaml
"""
_DELETES: Final = """
kubectl delete pod web --dry-run=server
kubectl delete pod web --grace-period=0 --force
kubectl delete pod web
kubectl delete pod nosuch --ignore-not-found
kubectl delete cm l1 l2
kubectl delete cm -l set=several
kubectl delete cm nosuch settings
kubectl delete deployment shop --cascade=orphan
kubectl delete rs rs --cascade=foreground --wait=false
kubectl get rs rs -o jsonpath='{.metadata.finalizers}'
kubectl delete job once --cascade=background
kubectl delete sts db --now
kubectl delete -f objects.yaml --ignore-not-found --wait=false
kubectl delete secrets --all
kubectl delete cm --all --dry-run=server
kubectl delete pods --all -n other
kubectl delete svc kubernetes --dry-run=server
kubectl delete ns default
kubectl delete ns other --wait=false
kubectl get ns other -o jsonpath='{.status.phase} {.spec.finalizers}'
kubectl create cm late -n other
kubectl delete node n1
kubectl delete pv disk --wait=false
kubectl delete --raw /api/v1/namespaces/default/configmaps/nosuch
kubectl delete pods --field-selector=metadata.name=r1
kubectl delete priorityclass system-node-critical
kubectl delete clusterrole cr1 cr2 nosuch
kubectl delete pods --all --all-namespaces --as=alice
kubectl delete nosuch x
"""
TOPICS: Final = {
    "setup": _SETUP,
    "discovery": _DISCOVERY,
    "reads": _READS,
    "creates": _CREATES,
    "changes": _CHANGES,
    "custom": _CUSTOM,
    "deletes": _DELETES,
}


def commands() -> list[tuple[str, str]]:
    """Topic and line of each command, in their order."""
    return [(topic, line) for topic, lines in TOPICS.items() for line in lines.strip().splitlines()]
