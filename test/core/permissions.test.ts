// Permissions: the table, the relations and the sentences. enumeration.test.ts checks the answers for
// every reachable job.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobSpec } from '../../src/core/model/spec.ts';
import { ownNames, owns, type Actor } from '../../src/core/model/user.ts';
import {
  checkAction,
  checkCopyPermission,
  checkPermission,
  type GeneralOperation,
  type JobOperation,
  permissionOf,
  permittedOwners,
  permissions,
  relationOf,
} from '../../src/core/policy/permissions.ts';
import { aJob, aMember, localSpec, tpuSpec } from '../support/builders.ts';

const persistent = tpuSpec({}, { ownership: 'persistent' });
const eve = aMember('eve');
const admin = aMember('eve', { role: 'admin' });
const viewer = aMember('ada', { role: 'viewer' });

test('a copy of a cluster job is cleaned by its owner, or by any member if it has none', () => {
  const check = (owner: string | null, actor: Actor) =>
    checkCopyPermission({ name: 'train', owner }, 'clean', actor, [actor.user]);
  assert.deepEqual(check('ada', aMember('ada')), { answer: 'allow' });
  assert.deepEqual(check(null, aMember('eve')), { answer: 'allow' });
  const refused = check('ada', aMember('eve'));
  assert.ok(refused.answer === 'deny' && refused.cause === 'permission');
  assert.equal(refused.message, 'job train belongs to ada; only its owner or an admin may clean it');
  const viewer = check('ada', aMember('ada', { role: 'viewer' }));
  assert.equal(viewer.answer === 'deny' && viewer.message, 'your role is viewer, which may not clean a job');
});

test('an operation on several jobs concerns none, the own ones or all, by the role', () => {
  const scopes = (operation: GeneralOperation) =>
    (['viewer', 'member', 'admin'] as const).map(
      (role) => permittedOwners(aMember('ada', { role }), operation)?.join() ?? 'all',
    );
  assert.deepEqual(scopes('wake'), ['', 'all', 'all']);
  assert.deepEqual(scopes('messages'), ['ada', 'ada', 'all']);
  assert.deepEqual(scopes('drop-events'), ['', 'ada', 'all']);
  assert.deepEqual(scopes('settings'), ['', '', 'all']);
  for (const operation of ['forget-project', 'orphans', 'test-recipient'] as const)
    assert.deepEqual(scopes(operation), ['', 'all', 'all']);
});

test('the table of permissions: own, shared and other jobs of each role', () => {
  const lines = Object.entries(permissions).map(([operation, roles]) => {
    const columns = [roles.viewer, roles.member, roles.admin].map(({ own, shared, other }) =>
      [own, shared, other].map((permission) => permission.charAt(0)).join(' '),
    );
    return `${operation.padEnd(16)} ${columns.join(' | ')}`;
  });
  assert.deepEqual(lines, [
    //                viewer  member  admin
    'read             a d d | a a a | a a a',
    'create           d d d | a c d | a c c',
    'secrets          d d d | a d d | a d d',
    'start            d d d | a c d | a c c',
    'stop             d d d | a c d | a c c',
    'cancel           d d d | a c d | a c c',
    'resume           d d d | a c d | a c c',
    'rerun            d d d | a c d | a c c',
    'disable-recovery d d d | a c d | a c c',
    'accept-exit      d d d | a a d | a a c',
    'delete           d d d | a d d | a c c',
    'clean            d d d | a d d | a c c',
    'setup            d d d | a d d | a c c',
    'workers          d d d | a a d | a a a',
  ]);
});

test('a role may do all that a lower one may, and has to read a job before it may change it', () => {
  const order = ['deny', 'confirm', 'allow'];
  for (const roles of Object.values(permissions)) {
    for (const relation of ['own', 'shared', 'other'] as const) {
      const [viewers, members, admins] = (['viewer', 'member', 'admin'] as const).map((role) => {
        if (roles[role][relation] !== 'deny') assert.equal(permissions.read[role][relation], 'allow');
        return order.indexOf(roles[role][relation]);
      });
      assert.ok((viewers ?? 0) <= (members ?? 0) && (members ?? 0) <= (admins ?? 0));
    }
  }
});

test('a job is own by the user or by a login, shared on a persistent TPU, and else of another', () => {
  const ada = aMember('ada', { logins: ['ada1', 'ada'] });
  assert.deepEqual(ownNames(ada), ['ada', 'ada1']);
  assert.deepEqual(
    ['ada', 'ada1', 'eve'].map((owner) => owns(ada, owner)),
    [true, true, false],
  );
  assert.equal(relationOf(ada, aJob(persistent, { owner: 'ada1' })), 'own');
  assert.equal(relationOf(eve, aJob(persistent)), 'shared');
  assert.equal(relationOf(eve, aJob()), 'other');
  // The capacity of this machine is persistent too.
  assert.equal(relationOf(eve, aJob(localSpec())), 'other');
  assert.equal(permissionOf(eve, { owner: 'ada', spec: persistent }, 'create'), 'confirm');
});

test('a confirmed command needs the name of the owner, and a denied one remains denied', () => {
  const job = aJob(persistent);
  const message = 'job 000042 (vit) belongs to ada';
  assert.deepEqual(checkAction(job, 'cancel', eve), { answer: 'confirm', cause: 'permission', message });
  assert.deepEqual(checkAction(job, 'cancel', eve, { onBehalfOf: 'bob' }).answer, 'confirm');
  assert.deepEqual(checkAction(job, 'cancel', eve, { onBehalfOf: 'ada' }), { answer: 'allow' });
  assert.equal(checkAction(job, 'delete', eve, { onBehalfOf: 'ada' }).answer, 'deny');
  assert.equal(checkAction(aJob(), 'cancel', eve, { onBehalfOf: 'ada' }).answer, 'deny');
  assert.equal(checkAction(aJob(), 'delete', admin, { onBehalfOf: 'ada' }).answer, 'allow');
});

test('a refusal by the role names the owner or the role', () => {
  const message = (answer: ReturnType<typeof checkAction>): string => (answer.answer === 'allow' ? '' : answer.message);
  const sentences = (['stop', 'disable-recovery', 'accept-exit', 'setup'] as const).map((command) => [
    message(checkAction(aJob(), command, viewer)),
    message(checkAction(aJob(), command, eve)),
  ]);
  assert.deepEqual(sentences, [
    [
      'your role is viewer, which may not stop a job',
      'job 000042 (vit) belongs to ada; only its owner or an admin may stop it',
    ],
    [
      'your role is viewer, which may not turn off the recovery of a job',
      'job 000042 (vit) belongs to ada; only its owner or an admin may turn off its recovery',
    ],
    [
      'your role is viewer, which may not accept the exit of a job',
      'job 000042 (vit) belongs to ada; only its owner or an admin may accept its exit',
    ],
    [
      'your role is viewer, which may not run a setup step of a job',
      'job 000042 (vit) belongs to ada; only its owner or an admin may run a setup step',
    ],
  ]);
  const reader = aMember('eve', { role: 'viewer' });
  assert.match(
    message(checkPermission(aJob(), 'read', reader)),
    /belongs to ada; only its owner, a member or an admin may read it$/,
  );
  const created = { owner: 'ada', spec: tpuSpec() };
  assert.equal(message(checkPermission(created, 'create', viewer)), 'your role is viewer, which may not create a job');
  assert.equal(message(checkPermission(created, 'create', eve, 'ada')), 'only ada or an admin may create a job of ada');
});

test('only an admin and users with that host run a program on the machine of the server with a token, or one that uses a file of its settings', () => {
  const token = { id: 'tok_1', name: 'laptop' };
  const answer = (operation: JobOperation, spec: JobSpec, actor: Actor) =>
    checkPermission({ owner: 'ada', spec }, operation, actor, 'ada').answer;
  const create = (spec: JobSpec, actor: Actor) => answer('create', spec, actor);
  const ada = aMember('ada', { via: 'token', token });
  const here = { ...tpuSpec(), command: { ...tpuSpec().command, runsOn: 'controller' as const } };
  const both = localSpec({ capacity: { kind: 'hosts', ownership: 'persistent', hosts: ['gpu1', 'localhost'] } });
  const key = { ...tpuSpec({}, { privateKey: { kind: 'setting', setting: 'lab.privateKey' } }) };
  for (const spec of [localSpec(), here, both, key]) {
    for (const operation of ['create', 'start', 'resume', 'rerun'] as const)
      assert.deepEqual(
        [
          answer(operation, spec, ada),
          answer(operation, spec, { ...ada, role: 'admin' }),
          answer(operation, spec, { ...ada, mayUseServerMachine: true }),
          answer(operation, spec, aMember('ada')),
        ],
        ['deny', 'allow', 'allow', 'allow'],
      );
  }
  const other = localSpec({ capacity: { kind: 'hosts', ownership: 'persistent', hosts: ['gpu1'] } });
  assert.deepEqual([create(other, ada), create(tpuSpec(), ada)], ['allow', 'allow']);
  // The workers of a job whose command runs there are elsewhere.
  for (const operation of ['workers', 'setup'] as const)
    assert.deepEqual([answer(operation, both, ada), answer(operation, here, ada)], ['deny', 'allow'], operation);
  for (const operation of ['stop', 'cancel', 'delete', 'read'] as const)
    assert.equal(answer(operation, localSpec(), ada), 'allow', operation);
});
