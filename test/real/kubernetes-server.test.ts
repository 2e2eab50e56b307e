/** Jobs of a cluster through a server, by users who have a token and no kubeconfig. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { V1Job } from '@kubernetes/client-node';
import { eventually } from '../support/eventually.ts';
import { jobman, startJobman, type JobmanOptions } from '../support/jobman.ts';
import { kubeTest, tinyFlavor } from '../support/kube.ts';

kubeTest('a user of a server submits, follows, enters and cancels jobs; another user is refused', async (kube) => {
  const { world } = kube;
  const served = { JOBMAN_HOME: join(world.folder, 'served'), KUBECONFIG: kube.namespacedKubeconfig() };
  const onServer = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await jobman(world, args, { env: served });
    assert.equal(code, 0, `${args.join(' ')}: ${stderr}`);
    return stdout.trim();
  };
  const tokens = new Map<string, string>();
  for (const [user, role] of [
    ['ada', 'member'],
    ['bob', 'member'],
    ['eve', 'viewer'],
  ] as const) {
    await onServer('user', 'add', user, '--role', role);
    tokens.set(user, await onServer('token', 'create', '--user', user, '--name', 'laptop'));
  }
  const server = startJobman(world, ['server', '--listen', '127.0.0.1:0'], { env: served, withinMs: 280_000 });
  world.atEnd(() => void server.child.kill('SIGTERM'));
  await server.waitForOutput(/The server runs at \S+\./);
  const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
  const cwd = join(world.folder, 'work');
  mkdirSync(cwd);
  const as = (user: string, args: readonly string[], options: JobmanOptions = {}) => {
    const env = { JOBMAN_SERVER: url, JOBMAN_TOKEN: tokens.get(user) ?? '', JOBMAN_HOME: join(world.folder, user) };
    return jobman(world, args, { cwd, ...options, env: { ...env, ...options.env } });
  };
  const ok = async (user: string, args: readonly string[], options: JobmanOptions = {}): Promise<string> => {
    const { code, stdout, stderr } = await as(user, args, options);
    assert.equal(code, 0, `${args.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  };
  const refuse = async (user: string, pattern: RegExp, ...args: readonly string[]): Promise<void> => {
    const { code, stdout, stderr } = await as(user, args);
    assert.deepEqual([code, stdout], [4, ''], `${args.join(' ')}: ${stderr}`);
    assert.match(stderr, pattern);
  };

  // A manifest with the three kinds of secrets, and a rerun, which gets them again.
  await ok('ada', ['secret', 'set', 'wandb'], { input: 'named\n' });
  writeFileSync(join(cwd, 'key.txt'), 'file\n', { mode: 0o600 });
  writeFileSync(
    join(cwd, 'hush.yaml'),
    `job: {name: hush, secrets: {A: "secret:wandb", B: key.txt, C: "env:MY_TOKEN"}}
kubernetes: {image: alpine, flavor: '${tinyFlavor}'}
command: {run: echo "$A $B $C"}
`,
  );
  const followed = await ok('ada', ['create', 'hush.yaml', '--follow'], { env: { MY_TOKEN: 'shell' } });
  assert.match(followed, /named file shell/);
  assert.equal(kube.get<V1Job>('job', 'hush').metadata?.labels?.['jobman/owner'], 'ada');
  await ok('ada', ['rerun', 'hush']);
  await ok('ada', ['wait', 'hush-2']);
  assert.equal(await ok('ada', ['logs', 'hush-2']), 'named file shell\n');

  // Programs in the pod, its files, and input.
  const submit = (name: string, ...args: readonly string[]) =>
    ok('ada', ['submit', '-q', '-i', 'alpine', '-r', tinyFlavor, '-j', name, ...args]);
  await submit('long', '--', 'sh', '-c', 'while sleep 1; do date; done');
  const isRunning = async (): Promise<boolean> => (await ok('bob', ['list'])).includes('running');
  assert.ok(await eventually(isRunning, { withinMs: 60_000, everyMs: 500 }), await ok('ada', ['why', 'long']));
  assert.equal((await as('ada', ['exec', 'long', '--', 'sh', '-c', 'exit 7'])).code, 7);
  await ok('ada', ['cp', 'key.txt', 'long:/tmp/key']);
  assert.equal(await ok('ada', ['exec', 'long', '--', 'cat', '/tmp/key']), 'file\n');
  const counted = await ok(
    'ada',
    ['submit', '-i', 'alpine', '-r', tinyFlavor, '-j', 'pipe', '--stdin', '--rm', '--', 'wc', '-c'],
    { input: '12345' },
  );
  assert.match(counted, /5/);
  assert.doesNotMatch(kube.jobs(), /pipe/);

  // Others
  await refuse('bob', /belongs to ada; only its owner or an admin may use its workers/, 'exec', 'long', '--', 'id');
  await refuse('bob', /belongs to ada; only its owner or an admin may cancel it/, 'cancel', 'long');
  await refuse('eve', /may not create a job/, 'submit', '-i', 'alpine', '-r', tinyFlavor, '--', 'true');
  await refuse('eve', /only its owner, a member or an admin may read it/, 'logs', 'long');
  assert.match(await ok('eve', ['list']), /long/);
  await onServer('user', 'limit', 'bob', 'clusters=elsewhere');
  await refuse('bob', /may not use the cluster/, 'submit', '-i', 'alpine', '-r', tinyFlavor, '--', 'true');
  assert.doesNotMatch(await ok('bob', ['list']), /long/);

  // The end, after which the archive of the server answers.
  await ok('ada', ['stop', 'long']);
  await ok('ada', ['start', 'long']);
  await ok('ada', ['cancel', 'long']);
  assert.doesNotMatch(kube.jobs(), /long/);
  assert.match(await ok('ada', ['list', '--all']), /long .*cancelled/);
  assert.match(await ok('ada', ['logs', 'long', '--tail', '1']), /:/);
  const log = await onServer('audit', '--json');
  for (const operation of ['submit', 'workers', 'cancel']) assert.match(log, new RegExp(`"operation":"${operation}"`));
});
