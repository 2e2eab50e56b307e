/**
 * What a cluster gives of what was asked for, on a real one: resources that the platform's webhook replaces, and a volume that
 * holds what one job leaves for the next.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { certificates } from '../support/certificates.ts';
import { administrator, leastRights } from '../support/kube-people.ts';
import { changedKubeconfig, openKube, type Kube } from '../support/kube.ts';
import { openWorld, type World } from '../support/world.ts';

const tiny =
  '{"name":"tiny","resources":{"requests":{"cpu":"10m","memory":"20M"},"limits":{"cpu":"20m","memory":"20M"}}}';

/** A cluster whose API server and nodes share this machine's loopback and disk; undefined, with the test skipped, without one. */
function openNearKube(t: { skip(message?: string): void }, world: World): Kube | undefined {
  const kube = openKube(t, world);
  if (kube === undefined) return undefined;
  let server = '';
  changedKubeconfig(world, kube.admin, ({ clusters }) => void (server = String(clusters[0]?.cluster['server'])));
  if (new URL(server).hostname.startsWith('127.')) return kube;
  t.skip('this cluster is on another machine');
  return undefined;
}

function apply(world: World, kube: Kube, name: string, object: object): void {
  const file = join(world.folder, `${name}.json`);
  writeFileSync(file, JSON.stringify(object));
  kube.kubectl('apply', '-f', file);
}

/** A platform's operator that gives every Job of the namespace these resources, whatever it asks for. */
async function openOperator(world: World, kube: Kube, resources: object): Promise<void> {
  const { key, cert, ca } = certificates(join(world.folder, 'certificates'));
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
  world.atEnd(async () => {
    kube.kubectl('delete', 'mutatingwebhookconfiguration', name);
    operator.closeAllConnections();
    await new Promise((resolve) => operator.close(resolve));
  });
  const { port } = operator.address() as AddressInfo;
  apply(world, kube, 'operator', {
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

suite('a cluster', () => {
  test('that replaces what was asked for is told of with both: what was asked, and what was granted', async (t) => {
    const world = openWorld(t);
    const kube = openNearKube(t, world);
    if (kube === undefined) return;
    await openOperator(world, kube, { requests: { cpu: '10m', memory: '30M' }, limits: { cpu: '20m', memory: '30M' } });
    for (const person of [administrator(world, kube), leastRights(world, kube)]) {
      const name = `asks-${person.name}`;
      let made = await person.ask(['submit', '-i', 'alpine', '-r', tiny, '-j', name, '--suspend', '--', 'true']);
      // An API server takes a moment to hear of a new webhook.
      for (let tries = 1; tries < 20 && !made.stderr.includes('replaced'); tries += 1) {
        assert.equal((await person.ask(['delete', name])).code, 0);
        made = await person.ask(['submit', '-i', 'alpine', '-r', tiny, '-j', name, '--suspend', '--', 'true']);
      }
      assert.equal(made.code, 0, made.stderr);
      assert.match(
        made.stderr,
        /^The cluster has replaced what was asked for as tiny:\n {2}request of memory: asked 20M, granted 30M\n {2}limit of memory: asked 20M, granted 30M$/m,
      );
      // What is shown from then on is what the cluster has, and that it is not what was asked for.
      const details = (await person.ask(['details', name])).stdout;
      assert.match(details, /^asks +cpu 10m, memory 30M \(flavor tiny\)$/m);
      assert.match(
        details,
        /^replaced +request of memory: asked 20M, granted 30M; limit of memory: asked 20M, granted 30M$/m,
      );
    }
  });

  test('holds a volume that one job fills and another reads; one that may not write says so', async (t) => {
    const world = openWorld(t);
    const kube = openNearKube(t, world);
    if (kube === undefined) return;
    const folder = mkdtempSync(join(tmpdir(), 'jobman-volume-'));
    world.atEnd(() => rmSync(folder, { recursive: true, force: true }));
    const name = `data-${kube.namespace}`;
    const common = { accessModes: ['ReadWriteOnce'], storageClassName: '', volumeMode: 'Filesystem' };
    apply(world, kube, 'volume', {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name },
      spec: {
        ...common,
        capacity: { storage: '1Gi' },
        hostPath: { path: folder },
        persistentVolumeReclaimPolicy: 'Retain',
      },
    });
    world.atEnd(() => void kube.kubectl('delete', 'persistentvolume', name, '--wait=false'));
    const person = leastRights(world, kube);
    const submit = (job: string, volume: string, program: string): readonly string[] => {
      const flags = ['-i', 'alpine', '-r', tiny, '-j', job, '--volume', volume, '--follow'];
      return ['submit', ...flags, '--', 'sh', '-c', program];
    };
    const early = person.start(submit('early', 'data:/data', 'echo from the first > /data/note; cat /data/note'));
    // Until there is a claim of that name nothing can run, and that is told.
    await early.prints(/early waits for its volume: persistentvolumeclaim "data" not found\./, 60_000);
    assert.match(
      (await person.ask(['list', '--name', 'early'])).stdout,
      /queued .* waits for its volume: persistentvolumeclaim "data" not found$/m,
    );
    apply(world, kube, 'claim', {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name: 'data', namespace: kube.namespace },
      spec: { ...common, volumeName: name, resources: { requests: { storage: '1Gi' } } },
    });
    const first = await early.ended;
    assert.equal(first.code, 0, first.stderr);
    assert.match(first.stdout, /as system:serviceaccount:[^ ]+\.\nfrom the first\n$/);
    assert.equal(readFileSync(join(folder, 'note'), 'utf8'), 'from the first\n');
    // On one pipe: what comes over two has no order.
    const program = 'exec 2>&1; cat /data/note; touch /data/mine';
    const second = await person.ask(submit('later', 'data:/data:ro', program));
    assert.equal(second.code, 1);
    assert.match(second.stdout, /\nfrom the first\ntouch: \/data\/mine: Read-only file system\n$/);
    kube.kubectl('delete', 'jobs', '--all');
    kube.kubectl('delete', 'persistentvolumeclaim', 'data', '--wait=false');
  });
});
