// The rights of the owner of a token in a lab, for every front end.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pause } from '../../src/app/concurrency.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import type { Page, Rows } from '../../src/app/pages.ts';
import type { Actor } from '../../src/core/model/user.ts';
import { labClientFor, type LabClient } from '../../src/lab/lab-client.ts';
import { createServerLab } from '../../src/lab/server-lab.ts';
import type { TpuOperations } from '../../src/lab/tpu-operations.ts';
import { openStore } from '../../src/store/store.ts';
import { aLab, unavailable } from '../cli/tpu/lab-world.ts';
import { serveLab } from '../cli/tpu/serve-lab.ts';
import { eventually } from '../support/eventually.ts';
import type { Scope } from '../support/world.ts';
import { clientFor } from '../../src/app/store-client.ts';
import { clientParts } from '../support/client-parts.ts';
import { aMember, localSpec } from '../support/builders.ts';
import { aLabJob, aTpu, aUser, noon } from '../support/lab-builders.ts';

type Call = (lab: LabClient) => Promise<unknown>;

async function openLabOf(job: string | null = null, operations: Partial<TpuOperations> = {}) {
  const store = openStore({ file: ':memory:' });
  await store.lab.addUser(aUser('ada'));
  await store.lab.changeTpu('kmh-v2-8-1', { kind: 'add', tpu: aTpu('kmh-v2-8-1') });
  const parts = clientParts('/nowhere', store, { now: () => noon });
  const found = { creationTime: null, job };
  const tpus: Partial<TpuOperations> = {
    describe: async () => ({ kind: 'known', state: 'ready', zone: 'us-central2-b', workers: 1, found }),
    holders: async () => ({ holders: [], unreachable: [] }),
    close: () => undefined,
    ...operations,
  };
  const lab = aLab(store.lab, {
    project: async () => 'lab',
    tpus: async () => tpus as TpuOperations,
    tmuxWindows: unavailable('tmux'),
  });
  const of = (role: Actor['role'], user = 'ada', grants: Partial<Actor> = {}) => {
    const actor = aMember(user, { ...grants, role, via: 'token', logins: [], token: { id: '1', name: 'laptop' } });
    return labClientFor(
      clientFor(async () => actor, parts),
      lab,
      parts,
    );
  };
  return { store, of, serve: (scope: Scope) => serveLab(scope, parts, () => lab) };
}

const forMembers: readonly Call[] = [
  (lab) => lab.changeUser('ada', { kind: 'set_setting', key: 'time_zone', text: 'cn' }),
  (lab) => lab.changeTpu('kmh-v2-8-2', { kind: 'register', facts: {} }),
  (lab) => lab.setTpuAlias('v2-8-2', 'kmh-v2-8-2'),
  (lab) => lab.removeTpu('kmh-v2-8-2'),
  (lab) => lab.holders('kmh-v2-8-1'),
];
const forAdmins: readonly Call[] = [
  (lab) => lab.checkFolder('/tmp'),
  (lab) => lab.changeUser('ada', { kind: 'set_directory', number: 1, folder: '/tmp' }),
  (lab) => lab.changeUser('ada', { kind: 'set', values: { logins: ['root'] } }),
  (lab) => lab.removeUser('ada'),
];

test('a viewer changes nothing, and a member neither users nor folders; each refusal is in the audit log', async () => {
  const { store, of } = await openLabOf();
  for (const call of [...forMembers, ...forAdmins])
    await assert.rejects(call(of('viewer')), { errorCode: 'forbidden' }, String(call));
  for (const call of forAdmins) await assert.rejects(call(of('member')), { errorCode: 'forbidden' }, String(call));
  for (const call of forMembers) await call(of('member'));
  const rows = await store.access.audit({ actors: null, limit: 50, denied: true });
  assert.equal(rows.length, forMembers.length + 2 * forAdmins.length);
  assert.deepEqual(rows.at(-1)?.object, { kind: 'user', id: 'ada' });
  assert.equal(rows.at(-1)?.operation, 'lab change-user');
  for (const call of forAdmins) await call(of('admin'));
});

test('a viewer sees the output of their own jobs only', async () => {
  const { of } = await openLabOf();
  await assert.rejects(of('viewer', 'eve').checkRows('ada'), { errorCode: 'forbidden' });
  await assert.rejects(of('viewer', 'eve').news('ada', 0), { errorCode: 'forbidden' });
  assert.deepEqual(await of('viewer').checkRows('ada'), []);
  assert.deepEqual(await of('member', 'eve').checkRows('ada'), []);
});

test('a user sees and uses only TPUs of their projects, and folders of the server with its host', async () => {
  const { of } = await openLabOf();
  const elsewhere = of('member', 'ada', { projects: ['other'] });
  for (const call of [elsewhere.describeTpu('kmh-v2-8-1'), elsewhere.holders('kmh-v2-8-1')])
    await assert.rejects(call, { message: 'You may not use the project lab: allowed is other.' });
  await of('member', 'ada', { projects: ['lab'] }).holders('kmh-v2-8-1');
  await assert.rejects(of('member', 'ada').checkFolder('/tmp'), {
    message: /only an admin, or a user whom an admin allows the host localhost, may name a folder/,
  });
  await of('member', 'ada', { mayUseServerMachine: true }).checkFolder('/tmp');
});

test('a check of more jobs than a lab has is refused, because it would occupy the server for seconds', async () => {
  const { of } = await openLabOf();
  const jobs = Array.from({ length: 10_001 }, () => '000001');
  await assert.rejects(of('member').checkNow(jobs), { message: 'At most 10000 jobs at once.' });
});

test('a script runs on no TPU that belongs to a job', async () => {
  const { of } = await openLabOf('000007');
  const secret = { script: 'id', timeoutMs: 1, secrets: { TOKEN: 'a\0b' } };
  await assert.rejects(Array.fromAsync(of('admin').runOnWorkers('kmh-v2-8-1', secret)), {
    message: 'The value of TOKEN has a NUL character.',
  });
  await assert.rejects(Array.fromAsync(of('admin').runOnWorkers('kmh-v2-8-1', { script: 'id', timeoutMs: 1 })), {
    message: /belongs to job 000007; it is not a TPU of the lab/,
  });
});

test('a script through a server ends when its caller leaves', async (t) => {
  const begun = Promise.withResolvers<void>();
  let hasEnded = false;
  const { serve } = await openLabOf(null, {
    async onWorkers(_tpu, script, { signal }) {
      if (script === 'true') return [{ kind: 'ended', worker: 0, code: 0, output: 'done' }];
      begun.resolve();
      await pause(60_000, signal);
      hasEnded = signal.aborted;
      throw new JobmanError('Interrupted.', exitCode.interrupted);
    },
  });
  const open = await serve(t);
  const tpus = await createServerLab(open(aMember('ada')).lab).tpus();
  const leave = new AbortController();
  const run = (script: string) => tpus.onWorkers(aTpu('kmh-v2-8-1'), script, { timeoutMs: 1e6, signal: leave.signal });
  assert.deepEqual(await run('true'), [{ kind: 'ended', worker: 0, code: 0, output: 'done' }]);
  const running = run('sleep 1000');
  await begun.promise;
  leave.abort();
  await assert.rejects(running, { code: exitCode.interrupted, message: 'Interrupted while working on kmh-v2-8-1.' });
  assert.ok(await eventually(() => hasEnded, { withinMs: 10_000, everyMs: 20 }));
});

test('names that a line of tpu refuses are refused here too', async () => {
  const { of } = await openLabOf();
  const calls: readonly Call[] = [
    (lab) => lab.changeTpu('../x', { kind: 'register', facts: { accelerator: 'v2-8' } }),
    (lab) => lab.setTpuAlias('../x', 'kmh-v2-8-1'),
    (lab) => lab.tagJob('000001', 'a\u001b[2J'),
    (lab) => lab.changeUser('ada', { kind: 'set_directory', number: 1, folder: 'x' }),
    (lab) => lab.changeUser('ada', { kind: 'set', values: { nextWindow: 0 } }),
    (lab) => lab.addUser({ ...aUser('../x'), id: null, timeZone: 'local' }),
  ];
  for (const call of calls) await assert.rejects(call(of('admin')), { code: 2 }, String(call));
});

test('the lists of a lab that grow have pages', async () => {
  const { store, of } = await openLabOf();
  for (const count of [1, 2, 3]) {
    const { job } = await store.insert({ owner: 'ada', spec: localSpec(), manifest: '', at: noon + count });
    await store.lab.addJob(aLabJob(job.id, 'ada'));
    await store.lab.openWindow(job.id, 1, noon + count);
  }
  const ada = of('member');
  const lists: Readonly<Record<string, (page?: Page) => Promise<Rows<unknown>>>> = {
    jobs: (page) => ada.jobs('ada', page),
    windows: (page) => ada.windows({ cleared: true }, page),
    news: (page) => ada.news('ada', 0, page),
  };
  for (const [name, read] of Object.entries(lists)) {
    const whole = await read();
    const first = await read({ limit: 2 });
    const last = await read({ limit: 2, cursor: first.next ?? '' });
    assert.deepEqual([[...first, ...last], first.length, last.next], [[...whole], 2, undefined], name);
    assert.equal(whole.length, 3, name);
  }
});
