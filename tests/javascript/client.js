// What programs in JavaScript do with a cluster, by the official client. Prints one JSON object of what was seen.
import { Writable } from 'node:stream';
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const namespace = 'default';
const seen = {};

async function eventually(what, seconds = 20) {
  const until = Date.now() + seconds * 1000;
  for (;;) {
    const found = await what();
    if (found) return found;
    if (Date.now() > until) throw new Error(`not after ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function text(into) {
  return new Writable({
    write(chunk, _, done) {
      into.push(chunk.toString());
      done();
    },
  });
}

seen.nodes = (await core.listNode()).items.map((one) => one.metadata.name);

// An informer sees what others do.
const events = [];
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () => core.listNamespacedConfigMap({ namespace }));
for (const kind of ['add', 'update', 'delete']) {
  informer.on(kind, (one) => one.metadata.name === 'seen' && events.push(`${kind} ${one.data?.a ?? ''}`));
}
await informer.start();
await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'seen' }, data: { a: '1' } } });
await eventually(() => events.length === 1);
const found = await core.readNamespacedConfigMap({ namespace, name: 'seen' });
await core.replaceNamespacedConfigMap({ namespace, name: 'seen', body: { ...found, data: { a: '2' } } });
await eventually(() => events.length === 2);
await core.deleteNamespacedConfigMap({ namespace, name: 'seen' });
await eventually(() => events.length === 3);
await informer.stop();
seen.events = events;

// A conflict is an error with a status.
await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'twice' } } });
seen.twice = await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'twice' } } }).then(
  () => 'created',
  (error) => `${error.code} ${JSON.parse(error.body).reason}`,
);

// Server-side apply of a workload, until it runs.
const labels = { app: 'web' };
const deployment = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web', namespace },
  spec: {
    replicas: 2,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'nginx' }] } },
  },
};
await objects.patch(deployment, undefined, undefined, 'javascript', true, k8s.PatchStrategy.ServerSideApply);
await eventually(async () => (await apps.readNamespacedDeployment({ namespace, name: 'web' })).status.availableReplicas === 2);
const applied = await apps.readNamespacedDeployment({ namespace, name: 'web' });
seen.manager = applied.metadata.managedFields.find((one) => one.operation === 'Apply').manager;
const pods = (await core.listNamespacedPod({ namespace, labelSelector: 'app=web' })).items;
seen.pods = pods.map((one) => one.status.phase);

// Logs as a stream, a command over a WebSocket, a scale.
const name = pods[0].metadata.name;
const lines = [];
await new k8s.Log(config).log(namespace, name, 'main', text(lines), { follow: false });
await eventually(() => lines.length > 0);
seen.log = lines.join('');
const said = [];
const status = await new Promise((resolve, reject) => {
  new k8s.Exec(config)
    .exec(namespace, name, 'main', ['sh', '-c', 'echo hello; exit 3'], text(said), null, null, false, resolve)
    .catch(reject);
});
seen.exec = [said.join(''), status.details.causes[0].message];
await apps.replaceNamespacedDeploymentScale({
  namespace,
  name: 'web',
  body: { metadata: { name: 'web', namespace }, spec: { replicas: 1 } },
});
await eventually(async () => (await core.listNamespacedPod({ namespace, labelSelector: 'app=web' })).items.length === 1);
seen.usage = (await new k8s.Metrics(config).getNodeMetrics()).items.length;
console.log(JSON.stringify(seen));
process.exit(0);
