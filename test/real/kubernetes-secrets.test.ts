/** `job.secrets` of a job in a cluster: its program gets them, and only the Secret of the Job contains them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'node:test';
import type { V1Job, V1Secret } from '@kubernetes/client-node';
import { createCluster } from '../../src/backends/kubernetes/cluster.ts';
import { readKubeContext } from '../../src/backends/kubernetes/kubeconfig.ts';
import { eventually } from '../support/eventually.ts';
import { kubeTest, tinyFlavor, withoutLogArchive, type ClusterUser, type Kube } from '../support/kube.ts';

const manifest = `job:
  name: hush
  secrets: {NAMED: "secret:wandb", FROM_FILE: key.txt, FROM_SHELL: "env:MY_TOKEN"}
kubernetes:
  image: alpine
  flavor: '${tinyFlavor}'
command:
  run: echo "$NAMED $FROM_FILE $FROM_SHELL"
`;

const secretsIn = (kube: Kube): readonly V1Secret[] => kube.get<{ items: V1Secret[] }>('secrets').items;

/** The output of a job's only pod. */
async function outputOf(kube: Kube, user: ClusterUser, name: string): Promise<string> {
  const done = await eventually(() => kube.field('.status.succeeded', 'job', name) === '1', { withinMs: 90_000 });
  assert.ok(done, kube.kubectl('describe', 'pods'));
  return user.output(['logs', name]);
}

/** The rights of docs/secrets.md in addition to those of docs/kubernetes.md. */
function allowSecrets(kube: Kube): void {
  kube.kubectl('create', 'role', 'secrets', '--verb=create,get,patch', '--resource=secrets');
  kube.kubectl('create', 'rolebinding', 'secrets', '--role=secrets', `--serviceaccount=${kube.namespace}:researcher`);
}

suite('secrets of a job in a cluster', () => {
  kubeTest('reach its program, and are renewed and deleted with it', async (kube) => {
    const user = kube.leastPrivilegeUser(withoutLogArchive);
    const file = join(kube.world.folder, 'job.yaml');
    const [named, rotated, fromFile, fromShell] = ['named', 'rotated', 'file', 'shell'].map(
      (kind) => `${kind}-${randomBytes(6).toString('hex')}`,
    );
    const texts = [named, rotated, fromFile, fromShell].map(String);
    writeFileSync(file, manifest);
    writeFileSync(join(kube.world.folder, 'key.txt'), `${fromFile}\n`, { mode: 0o600 });
    const env = { MY_TOKEN: `${fromShell}` };
    await user.runRefused(2, /there is no secret wandb; store it: jobman secret set wandb/, ['create', file]);
    await user.output('secret set wandb', { input: `${named}\n` });
    const dryRun = await user.output(['create', file, '--dry-run'], { env });
    assert.ok(!texts.some((text) => dryRun.includes(text)) && dryRun.includes('secretKeyRef'), dryRun);

    const forbidden = await user.run(['create', file], { env });
    assert.match(forbidden.stderr, /The Secret for job\.secrets was not created: .*\n\s+Nothing was submitted\./);
    assert.deepEqual([forbidden.code === 0, kube.jobs()], [false, '']);
    allowSecrets(kube);

    assert.equal(await user.output(['create', file, '-q'], { env }), 'hush\n');
    assert.equal(await outputOf(kube, user, 'hush'), `${named} ${fromFile} ${fromShell}\n`);
    const job = kube.get<V1Job>('job', 'hush');
    const [secret, ...others] = secretsIn(kube);
    assert.deepEqual(others, []);
    assert.deepEqual(Object.keys(secret?.data ?? {}), ['FROM_FILE', 'FROM_SHELL', 'NAMED']);
    assert.deepEqual(
      secret?.metadata?.ownerReferences?.map(({ uid }) => uid),
      [job.metadata?.uid],
    );
    const objects = JSON.stringify([job, kube.get('pods'), kube.get('events')]);
    const folder = spawnSync('grep', ['-rlsaF', ...texts.flatMap((text) => ['-e', text]), user.home]);
    assert.equal(
      texts.find((text) => objects.includes(text)),
      undefined,
    );
    assert.equal(folder.stdout.toString(), `${join(user.home, 'secrets', String(kube.world.env['USER']), 'wandb')}\n`);

    // A rerun takes the newest value of a named secret, and the others from the cluster.
    await user.output('secret set wandb', { input: `${rotated}` });
    await user.output('rerun hush');
    assert.equal(await outputOf(kube, user, 'hush-2'), `${rotated} ${fromFile} ${fromShell}\n`);
    await user.output('delete hush');
    assert.ok(await eventually(() => secretsIn(kube).length === 1, { withinMs: 60_000 }));

    // So does a start of a stopped job.
    const suspended = await user.output(['submit', file, '-j', 'later', '--suspend', '-q'], { env });
    await user.output('secret set wandb', { input: `${named}\n` });
    await user.output(['start', suspended.trim()]);
    assert.equal(await outputOf(kube, user, 'later'), `${named} ${fromFile} ${fromShell}\n`);

    // An earlier Job of that name is not there any more.
    const access = { setting: { type: 'default', file: null }, env: { KUBECONFIG: kube.admin } } as const;
    const context = await readKubeContext({ ...access, userHome: '/', cwd: '/' }, { namespace: kube.namespace });
    const cluster = createCluster({ context, flavorKey: 'jobman/flavor', env: {}, now: Date.now });
    kube.world.atEnd(() => cluster.close());
    const later = kube.get<V1Job>('job', 'later').metadata;
    const secretName =
      secretsIn(kube).find(({ metadata }) => metadata?.name?.startsWith('later-'))?.metadata?.name ?? '';
    const earlier = { name: 'later', uid: '00000000-0000-4000-8000-000000000000' };
    for (const change of [
      () => cluster.patch(earlier, { spec: { suspend: true } }),
      () => cluster.patchSecret(secretName, earlier, { NAMED: 'd3Jvbmc=' }),
      () => cluster.remove(earlier),
    ])
      await assert.rejects(change(), { code: 3, message: /deleted meanwhile, and another job has its name/ });
    assert.equal(kube.get<V1Job>('job', 'later').metadata?.resourceVersion, later?.resourceVersion);
    const value = kube.field('.data.NAMED', 'secret', secretName);
    await cluster.patchSecret(secretName, { name: 'later', uid: later?.uid ?? '' }, { NAMED: 'd3Jvbmc=' });
    assert.notEqual(kube.field('.data.NAMED', 'secret', secretName), value);
  });
});
