/**
 * A real cluster that changes what was requested: resources that the platform's webhook replaces, and a volume that one
 * job fills for the next.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { createCertificates } from '../support/certificates.ts';
import { kubeTest, type Kube } from '../support/kube.ts';

const limited =
  '{"name":"tiny","resources":{"requests":{"cpu":"10m","memory":"20M"},"limits":{"cpu":"20m","memory":"20M"}}}';

/** Skips the test unless API server and nodes share this machine's loopback and disk. */
function isNear(kube: Kube, t: TestContext): boolean {
  const is = new URL(kube.server()).hostname.startsWith('127.');
  if (!is) t.skip('this cluster is on another machine');
  return is;
}

/** A platform operator's webhook that gives every Job of the namespace these resources. */
async function openOperator(kube: Kube, resources: object): Promise<void> {
  const { key, cert, ca } = createCertificates(join(kube.world.folder, 'certificates'));
  const operator = createServer({ key, cert }, (incoming, reply) => {
    const parts: Buffer[] = [];
    incoming.on('data', (part: Buffer) => parts.push(part));
    incoming.on('end', () => {
      const { request } = JSON.parse(Buffer.concat(parts).toString()) as { readonly request: { readonly uid: string } };
      const patch = [{ op: 'replace', path: '/spec/template/spec/containers/0/resources', value: resources }];
      const response = {
        uid: request.uid,
        allowed: true,
        patchType: 'JSONPatch',
        patch: Buffer.from(JSON.stringify(patch)).toString('base64'),
      };
      reply.setHeader('content-type', 'application/json');
      reply.end(JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response }));
    });
  });
  await new Promise<void>((resolve) => void operator.listen(0, '127.0.0.1', resolve));
  const name = `operator-${kube.namespace}`;
  kube.world.atEnd(async () => {
    kube.kubectl('delete', 'mutatingwebhookconfiguration', name);
    operator.closeAllConnections();
    await new Promise((resolve) => operator.close(resolve));
  });
  const { port } = operator.address() as AddressInfo;
  kube.apply('operator', {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: { name },
    webhooks: [
      {
        name: 'flavors.operator.example',
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        timeoutSeconds: 5,
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': kube.namespace } },
        rules: [{ apiGroups: ['batch'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['jobs'] }],
        clientConfig: { url: `https://127.0.0.1:${port}/`, caBundle: ca.toString('base64') },
      },
    ],
  });
}

kubeTest('replaced resources are shown with both values: requested and granted', async (kube, t) => {
  if (!isNear(kube, t)) return;
  await openOperator(kube, { requests: { cpu: '10m', memory: '30M' }, limits: { cpu: '20m', memory: '30M' } });
  for (const person of [kube.adminUser(), kube.leastPrivilegeUser()]) {
    const name = `asks-${person.name}`;
    const submit = ['submit', '-i', 'alpine', '-r', limited, '-j', name, '--suspend', '--', 'true'];
    let made = await person.run(submit);
    // An API server needs a moment to use a new webhook.
    for (let tries = 1; tries < 20 && !made.stderr.includes('replaced'); tries += 1) {
      await person.output(['delete', name]);
      made = await person.run(submit);
    }
    assert.equal(made.code, 0, made.stderr);
    assert.match(
      made.stderr,
      /^The cluster has replaced the requested resources as tiny:\n {2}request of memory: requested 20M, granted 30M\n {2}limit of memory: requested 20M, granted 30M$/m,
    );
    // From then on jobman shows the cluster's values, and that they differ from the request.
    const details = await person.output(['details', name]);
    assert.match(details, /^requests +cpu 10m, memory 30M \(flavor tiny\)$/m);
    assert.match(
      details,
      /^replaced +request of memory: requested 20M, granted 30M; limit of memory: requested 20M, granted 30M$/m,
    );
  }
});

kubeTest('a volume that one job fills and another reads; a read-only user gets a message', async (kube, t) => {
  if (!isNear(kube, t)) return;
  const folder = mkdtempSync(join(tmpdir(), 'jobman-volume-'));
  kube.world.atEnd(() => rmSync(folder, { recursive: true, force: true }));
  const name = `data-${kube.namespace}`;
  const common = { accessModes: ['ReadWriteOnce'], storageClassName: '', volumeMode: 'Filesystem' };
  const local = { capacity: { storage: '1Gi' }, hostPath: { path: folder }, persistentVolumeReclaimPolicy: 'Retain' };
  kube.apply('volume', {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name },
    spec: { ...common, ...local },
  });
  kube.world.atEnd(() => void kube.kubectl('delete', 'persistentvolume', name, '--wait=false'));
  const person = kube.leastPrivilegeUser();
  const submit = (job: string, volume: string, program: string): readonly string[] => {
    const flags = ['-i', 'alpine', '-r', limited, '-j', job, '--volume', volume, '--follow'];
    return ['submit', ...flags, '--', 'sh', '-c', program];
  };
  const early = person.start(submit('early', 'data:/data', 'echo from the first > /data/note; cat /data/note'));
  // Until a claim of that name exists nothing can run, and jobman says so.
  await early.waitForOutput(/early waits for its volume: persistentvolumeclaim "data" not found\./, 60_000);
  const listed = /queued .* waits for its volume: persistentvolumeclaim "data" not found$/m;
  assert.match(await person.output('list --name early'), listed);
  kube.apply('claim', {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'data', namespace: kube.namespace },
    spec: { ...common, volumeName: name, resources: { requests: { storage: '1Gi' } } },
  });
  const first = await early.result;
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /as system:serviceaccount:[^ ]+\.\nfrom the first\n$/);
  assert.equal(readFileSync(join(folder, 'note'), 'utf8'), 'from the first\n');
  // One pipe: output through two pipes has no order.
  const second = await person.run(submit('later', 'data:/data:ro', 'exec 2>&1; cat /data/note; touch /data/mine'));
  assert.equal(second.code, 1);
  assert.match(second.stdout, /\nfrom the first\ntouch: \/data\/mine: Read-only file system\n$/);
  kube.kubectl('delete', 'jobs', '--all');
  kube.kubectl('delete', 'persistentvolumeclaim', 'data', '--wait=false');
});
