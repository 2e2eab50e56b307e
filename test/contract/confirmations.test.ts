// Confirmation tokens: each covers one reason against one request, while its facts are the same.

import assert from 'node:assert/strict';
import type { CreateRequest } from '../../src/app/client.ts';
import { clientFor } from '../../src/app/store-client.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import type { Grant } from '../../src/core/policy/grants.ts';
import type { JobmanStore } from '../../src/store/store.ts';
import { aMember, noon, tpuSpec } from '../support/builders.ts';
import { clientParts } from '../support/client-parts.ts';
import { testStore } from '../support/stores.ts';
import { openWorld, type Scope } from '../support/world.ts';

function openClient(t: Scope, store: JobmanStore, grants: readonly Grant[]) {
  const { home } = openWorld(t);
  const parts = clientParts(home, store, { now: () => noon, grants: () => Promise.resolve(grants) });
  return clientFor(async () => aMember('ada'), parts);
}

const chips = tpuSpec({}, { ownership: 'ephemeral', accelerator: 'v5litepod-16' });
const shared = (name: string) => tpuSpec({}, { ownership: 'persistent', name });

const cases: readonly { readonly kind: string; readonly request: JobSpec; readonly other: JobSpec }[] = [
  { kind: 'not_granted', request: chips, other: tpuSpec({}, { ownership: 'ephemeral', accelerator: 'v5litepod-32' }) },
  { kind: 'tpu_in_use', request: shared('lab-v4'), other: shared('lab-v5') },
];

for (const { kind, request: spec, other } of cases)
  testStore(`a token for ${kind} is refused a second time, and for another request`, async (store, t) => {
    const client = openClient(t, store, [{ accelerator: 'v5e', chips: 16 }]);
    const ask = (request: JobSpec, ...confirmed: readonly string[]) =>
      client.create({ spec: request, manifest: '', confirmed } satisfies CreateRequest);
    const jobs = async () => (await store.list({ maxFinished: null })).jobs.length;
    // The first jobs need no confirmation, and are the reason against the next ones.
    for (const first of kind === 'tpu_in_use' ? [spec, other] : [spec])
      assert.equal((await ask(first)).kind, 'created');
    const before = await jobs();
    const asked = await ask(spec);
    assert.ok(asked.kind === 'confirmation_required');
    const [reason] = asked.confirmation.reasons;
    assert.deepEqual([reason?.kind, asked.confirmation.notice], [kind, null]);
    const token = reason?.token ?? '';

    const refused = async (request: JobSpec) => {
      const answer = await ask(request, token);
      assert.ok(answer.kind === 'confirmation_required');
      assert.match(answer.confirmation.notice ?? '', /does not cover this request/);
      assert.notEqual(answer.confirmation.reasons[0]?.token, token);
    };
    await refused(other);
    assert.equal(await jobs(), before);
    assert.equal((await ask(spec, token)).kind, 'created');
    await refused(spec);
    assert.equal(await jobs(), before + 1);

    // Of two requests with one token at the same time, one is created.
    const next = await ask(spec);
    const again = next.kind === 'confirmation_required' ? (next.confirmation.reasons[0]?.token ?? '') : '';
    const both = await Promise.all([ask(spec, again), ask(spec, again)]);
    assert.deepEqual(both.map((answer) => answer.kind).toSorted(), ['confirmation_required', 'created']);
    assert.equal(await jobs(), before + 2);
  });
