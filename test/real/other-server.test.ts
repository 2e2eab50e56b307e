/**
 * Any server that follows Google's API may stand in Google's place: jobman asks nothing of it that the API does not have. The whole
 * life of jobs (asked for, looked at, run, preempted, let go, listed, swept) over OpenSSH against such a server, which is
 * not the emulator and refuses whatever is not documented.
 */
import assert from 'node:assert/strict';
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openSshd } from '../remote/sshd.ts';
import { eventually } from '../support/eventually.ts';
import { jobman } from '../support/jobman.ts';
import { openOtherServer } from './other-server.ts';

const zone = 'europe-west4-b';

/** The first attempt goes on until it is taken; the next one ends. */
const manifest = (name: string, mode: string): string => `job:
  name: ${name}
tpu:
  project: a-lab-of-ours
  allocation_mode: ${mode}
  accelerator: v5p-8
  zone: ${zone}
  pricing: spot
recovery: pre
command:
  run: |
    echo "attempt $JOBMAN_ATTEMPT of ${name}"
    test "$JOBMAN_ATTEMPT" != 1 || sleep 1000
`;

test('a server of any make that follows the API does, with no login, any project and any zone', async (t) => {
  const sshd = await openSshd(t);
  if (sshd === undefined) return;
  const { world } = sshd;
  const server = await openOtherServer({
    project: 'a-lab-of-ours',
    zone,
    host: { address: sshd.host, key: sshd.hostKey.split(' ')[1] ?? '' },
    letIn: (sshKeys) => {
      const keys = sshKeys.split('\n').map((line) => line.slice(line.indexOf(':') + 1));
      appendFileSync(`${sshd.keyFile}.pub`, `${keys.join('\n')}\n`);
    },
  });
  world.atEnd(() => server.close());
  const env = { JOBMAN_TPU_ENDPOINT: server.url, JOBMAN_TPU_SSH_PORT: String(sshd.port) };
  const say = async (...words: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await jobman(world, words, { env });
    assert.equal(code, 0, [words.join(' '), stdout, stderr, ...server.strange].join('\n'));
    return stdout;
  };
  world.atEnd(() => jobman(world, ['controller', 'stop'], { env }).then(() => undefined));
  // More than a page of what belongs to others.
  const others = ['ada-dev', 'grace-dev', 'm-1', 'm-2', 'zed'];
  for (const id of others) server.put(id, { acceleratorType: 'v5p-8', runtimeVersion: 'v2-alpha-tpuv5' });

  let labels: Readonly<Record<string, string>> = {};
  for (const [index, mode] of ['tpu-vm', 'queued-resources'].entries()) {
    const job = String(index + 1);
    const name = mode === 'tpu-vm' ? 'direct' : 'queued';
    const id = (allocation: number): string => `${name}-00000${job}-${String(allocation)}`;
    writeFileSync(join(world.folder, `${name}.yaml`), manifest(name, mode));
    await say('create', `${name}.yaml`);
    const isThere = async (text: string): Promise<boolean> => (await say('logs', job)).includes(text);
    const why = async (): Promise<string> => `${await say('why', job)}\n${server.strange.join('\n')}`;
    const within = { withinMs: 90_000, everyMs: 500 };
    assert.ok(await eventually(() => isThere(`attempt 1 of ${name}`), within), await why());
    labels = server.labels(id(1));
    server.preempt(id(1));
    assert.ok(await eventually(() => isThere(`attempt 2 of ${name}`), within), await why());
    await say('wait', job);
    const gone = (): boolean => !server.ids('nodes').some((each) => each.startsWith(name));
    assert.ok(await eventually(gone, within), `${server.ids('nodes').join(' ')}\n${await why()}`);
    assert.ok(await eventually(() => server.ids('queuedResources').length === 0, within), await why());
  }

  const listed = await say('tpus', '--project', 'a-lab-of-ours', '--zone', zone, '--json');
  assert.equal(listed.trim().split('\n').length, others.length);
  server.put('stray', {
    acceleratorType: 'v5p-8',
    runtimeVersion: 'v2-alpha-tpuv5',
    labels: { ...labels, 'jobman-job': '000077' },
  });
  assert.match(await say('gc', '--yes'), /nodes\/stray is gone/);
  assert.deepEqual(server.ids('nodes'), others, 'what is not ours is left alone');
  assert.match(await say('list'), /queued .*succeeded[^]*direct .*succeeded/);
  assert.deepEqual(server.strange, [], 'nothing was asked that the API does not have');
  assert.ok(server.asked.includes('GET queuedResources') && server.asked.includes('DELETE nodes/stray'));
  assert.match(await say('history', '2'), /preempted, the cloud took it \(SUSPEND/);
});
