// Confirmation tokens: each covers one reason against one request of one user, once, while its facts are the same.

import assert from 'node:assert/strict';
import type { Client, ConfirmationNeeded } from '../../src/app/client.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import type { Grant } from '../../src/core/policy/grants.ts';
import type { GuardReason } from '../../src/core/policy/guards.ts';
import type { JobmanStore } from '../../src/store/store.ts';
import { aMember, localSpec, noon, tpuSpec } from '../support/builders.ts';
import { clientParts } from '../support/client-parts.ts';
import { createConfirmed } from '../support/create-confirmed.ts';
import { testStore } from '../support/stores.ts';
import { openWorld, type Scope } from '../support/world.ts';
import type { OpenClient } from './client.ts';

type Send = (client: Client, confirmed?: readonly string[]) => Promise<{ readonly confirmation?: ConfirmationNeeded }>;

function openClients(implementation: OpenClient, t: Scope, store: JobmanStore, grants: { current: readonly Grant[] }) {
  const { home } = openWorld(t);
  let now = noon;
  const parts = clientParts(home, store, { now: () => (now += 1), grants: () => Promise.resolve(grants.current) });
  return (user: string, role: 'member' | 'admin' = 'admin') =>
    implementation(async () => aMember(user, { role }), parts);
}

const own = (accelerator: string, changes: Partial<JobSpec> = {}) =>
  tpuSpec(changes, { ownership: 'ephemeral', accelerator });
const shared = tpuSpec({}, { ownership: 'persistent', name: 'lab-v4' });
const saving = localSpec();
const named: JobSpec = {
  ...saving,
  command: { ...saving.command, checkpointDir: '/b', checkpoints: 'named', checkpointStorage: 'gs://b' },
};

interface Case {
  readonly kind: GuardReason['kind'];
  readonly when: string;
  readonly grants: readonly Grant[];
  readonly request: JobSpec;
  /** Jobs that are the reason against the request. */
  readonly before?: readonly JobSpec[];
}

const cases: readonly Case[] = [
  { kind: 'price', when: 'no grant is set', grants: [], request: own('v5litepod-16') },
  { kind: 'not_granted', when: 'no grant matches', grants: [{ accelerator: 'v4' }], request: own('v5litepod-16') },
  { kind: 'not_granted', when: 'the grant has ended', grants: [{ until: '2001-02-03' }], request: own('v5litepod-16') },
  {
    kind: 'not_granted',
    when: 'its chips are used',
    grants: [{ accelerator: 'v5e', chips: 16 }],
    request: own('v5litepod-16'),
    before: [own('v5litepod-16')],
  },
  { kind: 'not_granted', when: 'the type is unknown', grants: [{ chips: 16 }], request: own('v99-8') },
  { kind: 'tpu_in_use', when: 'another job uses it', grants: [], request: shared, before: [shared] },
  { kind: 'checkpoints_in_use', when: 'another job writes there', grants: [], request: named, before: [named] },
];

const tokensOf = (answer: { readonly confirmation?: ConfirmationNeeded }): readonly string[] =>
  (answer.confirmation?.reasons ?? []).flatMap(({ token }) => token ?? []);

async function assertRefused(client: Client, send: Send, tokens: readonly string[]): Promise<void> {
  const answer = await send(client, tokens);
  assert.match(answer.confirmation?.notice ?? 'done', /does not cover this request/);
  for (const token of tokensOf(answer)) assert.ok(!tokens.includes(token));
}

export function confirmationSuite(implementation: OpenClient): void {
  for (const { kind, when, grants, request: spec, before = [] } of cases)
    testStore(`a token for ${kind} (${when}) works once, for its request and user`, async (store, t) => {
      const clientOf = openClients(implementation, t, store, { current: grants });
      const [ada, bob] = [clientOf('ada'), clientOf('bob')];
      const create =
        (wanted: JobSpec, onBehalfOf = 'ada'): Send =>
        (client, confirmed = []) =>
          client.create({ spec: wanted, manifest: '', onBehalfOf, confirmed });
      const jobs = async () => (await store.list({ maxFinished: null })).jobs.length;
      for (const first of before) await createConfirmed(ada, { spec: first, manifest: '' });
      const asked = await create(spec)(ada);
      assert.deepEqual([asked.confirmation?.reasons[0]?.kind, asked.confirmation?.notice], [kind, null]);
      const tokens = tokensOf(asked);

      // Another program on the same capacity is another request.
      const other = { ...spec, command: { ...spec.command, script: 'other' } };
      await assertRefused(ada, create(other), tokens);
      await assertRefused(bob, create(spec), tokens);
      await assertRefused(bob, create(spec, 'bob'), tokens);
      assert.equal(await jobs(), before.length);
      // Of two requests with one token at the same time, one is created.
      const both = await Promise.all([create(spec)(ada, tokens), create(spec)(ada, tokens)]);
      assert.equal(both.filter(({ confirmation }) => confirmation === undefined).length, 1);
      await assertRefused(ada, create(spec), tokens);
      assert.equal(await jobs(), before.length + 1);

      // Nor does it work again once the facts are as they were.
      const newest = (await store.list({ maxFinished: null })).jobs[0];
      await ada.sendCommand(newest?.id ?? '', 'delete', { force: true });
      await assertRefused(ada, create(spec), tokens);
    });

  testStore(
    'a request with an idempotency key creates one job, also at the same time and after its confirmation',
    async (store, t) => {
      const clientOf = openClients(implementation, t, store, { current: [] });
      const [ada, bob] = [clientOf('ada'), clientOf('bob')];
      const request = { spec: localSpec(), manifest: '', idempotencyKey: 'a-1' };
      const ids = await Promise.all([1, 2, 3].map(async () => (await createConfirmed(ada, request)).id));
      const others = [
        await createConfirmed(ada, { ...request, idempotencyKey: 'a-2' }),
        // Another user has keys of its own.
        await createConfirmed(bob, request),
      ];
      assert.equal(new Set([...ids, ...others.map(({ id }) => id)]).size, 3);
      const other = { ...request, spec: localSpec({ name: 'other' }) };
      await assert.rejects(createConfirmed(ada, other), {
        code: 4,
        message: new RegExp(`another request .* created job ${ids[0]}\\.$`),
      });
      for (const idempotencyKey of ['', 'a b', 'é', 'a'.repeat(256)])
        await assert.rejects(createConfirmed(ada, { ...request, idempotencyKey }), { code: 2 });

      const asked = await ada.create({ spec: own('v5litepod-16'), manifest: '', idempotencyKey: 'a-3' });
      assert.notEqual(asked.confirmation, undefined);
      const confirmed = { spec: own('v5litepod-16'), manifest: '', idempotencyKey: 'a-3', confirmed: tokensOf(asked) };
      const [first, again] = [await ada.create(confirmed), await ada.create(confirmed)];
      assert.ok(first.kind === 'created' && again.kind === 'created' && first.id === again.id);
    },
  );

  testStore('a token for a start works once, for its command, options and user', async (store, t) => {
    const grants = { current: [{ chips: 100 }] as readonly Grant[] };
    const clientOf = openClients(implementation, t, store, grants);
    const [ada, bob] = [clientOf('ada'), clientOf('bob')];
    const { id } = await createConfirmed(ada, { spec: own('v5litepod-16'), manifest: '' });
    const cancel = () => ada.sendCommand(id, 'cancel', {});
    const start =
      (verb: 'resume' | 'rerun', budgetUsd?: number): Send =>
      (client, confirmed = []) =>
        client.sendCommand(id, verb, { onBehalfOf: 'ada', confirmed, ...(budgetUsd !== undefined && { budgetUsd }) });
    await cancel();
    grants.current = [{ accelerator: 'v4' }];
    const tokens = tokensOf(await start('rerun')(ada));
    assert.equal(tokens.length, 1);
    await assertRefused(ada, start('resume'), tokens);
    await assertRefused(ada, start('rerun', 1_000), tokens);
    await assertRefused(bob, start('rerun'), tokens);
    grants.current = [{ until: '2001-02-03' }];
    await assertRefused(ada, start('rerun'), tokens);
    grants.current = [{ accelerator: 'v4' }];
    assert.equal((await start('rerun')(ada, tokens)).confirmation, undefined);
    await cancel();
    await assertRefused(ada, start('rerun'), tokens);
  });
}
