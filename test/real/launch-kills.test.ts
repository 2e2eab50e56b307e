/** The log mirror loses and repeats no byte, however often its reader is killed. `JOBMAN_KILLS=1000` for a long run. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createLocalMachines, localRoot } from '../../src/backends/hosts/machines.ts';
import type { WorkerRef } from '../../src/app/ports.ts';
import { createMachines } from '../../src/backends/machines.ts';
import { remoteRoot } from '../../src/remote/run-folder.ts';
import { killCount, mirrorWithKills, killSeed, writerFor } from '../remote/log-kills.ts';
import { launchOf, testRef } from '../remote/machines-contract.ts';
import { openSshd } from '../remote/sshd.ts';
import { poolOn, targetOn } from '../support/ssh.ts';
import { openWorld } from '../support/world.ts';

const common = {
  appendStepLog: () => Promise.resolve(),
  openWorkdir: () => Promise.resolve(null),
  blobs: { read: () => Promise.reject(new Error('no blob is needed')) },
  readSecret: () => Promise.reject(new Error('no secret is needed')),
  now: Date.now,
};
const kills = killCount();
const seed = killSeed();

/** The parts of a job that the mirror and its files need. */
function refOf(id: string): WorkerRef {
  const ref = testRef(id);
  return { ...ref, job: { ...ref.job, owner: 'tester', allocations: [ref.allocation] } };
}

function report(line: string): void {
  process.stderr.write(`${line}\n`);
}

test(`a mirror on this machine that is killed ${kills} times copies every byte once`, async (t) => {
  const world = openWorld(t);
  const ref = refOf('000001');
  const machines = createLocalMachines({
    ...common,
    home: world.home,
    env: world.env,
    userHome: world.folder,
  });
  assert.deepEqual(await machines.start(ref, launchOf(1, writerFor(kills))), { kind: 'done' });
  const task = { ref, attempt: 1, home: world.home, ssh: null };
  const copy = await mirrorWithKills(task, { kills, env: world.env, seed, report });
  assert.ok(copy.equals(readFileSync(join(localRoot(world.home, ref.job, 0), 'attempt_1/log'))));
});

test(`a mirror over SSH that is killed ${kills} times copies every byte once`, async (t) => {
  const sshd = await openSshd(t);
  if (sshd === undefined) return;
  const { world } = sshd;
  const ref = refOf('000002');
  const target = targetOn(sshd, { pinName: 'kills' });
  const pool = poolOn(sshd);
  const machines = createMachines({
    ...common,
    findTransport: () => Promise.resolve({ kind: 'open', transport: pool.transport(target) }),
    root: (each) => remoteRoot(each.job),
    disconnect: () => undefined,
  });
  assert.deepEqual(await machines.start(ref, launchOf(1, writerFor(kills))), { kind: 'done' });
  const task = { ref, attempt: 1, home: world.home, ssh: target };
  const copy = await mirrorWithKills(task, { kills, env: world.env, seed, report });
  const { installation, id } = ref.job;
  assert.ok(copy.equals(readFileSync(join(sshd.home, '.jobman/runs', installation, id, 'attempt_1/log'))));
});
