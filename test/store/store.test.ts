// The contract of every store, on each database.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, it } from 'node:test';
import type { ListQuery } from '../../src/app/client.ts';
import { listPage } from '../../src/app/list-query.ts';
import type { JobFilter, NewJob, PassRecord, Store, StoredJob, UsageFilter } from '../../src/app/ports.ts';
import { jobRow, finalRows } from '../../src/app/views.ts';
import type { Decision } from '../../src/core/model/decision.ts';
import type { Event } from '../../src/core/model/event.ts';
import type { Job } from '../../src/core/model/job.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import { recordPass } from '../../src/core/model/recorded-pass.ts';
import { day, minute } from '../../src/core/model/time.ts';
import { checkGuard, factsNeeded } from '../../src/core/policy/guards.ts';
import { usageOf } from '../../src/reports/usage.ts';
import { openDatabase } from '../../src/store/open-database.ts';
import { sql } from '../../src/store/sql.ts';
import { openStore } from '../../src/store/store.ts';
import { suiteOnBoth } from '../support/stores.ts';
import { localSpec, noon, readyAllocation, runningAttempt, tpuSpec, withAttempts } from '../support/builders.ts';

/** Opens two stores over one new, empty database; `close` closes both and deletes it. */
type OpenPair = () => Promise<{
  readonly store: Store;
  readonly other: Store;
  readonly close: () => Promise<void>;
}>;

const ada = (changes: Partial<NewJob> = {}): NewJob => ({
  owner: 'ada',
  spec: localSpec(),
  manifest: 'job:\n  name: iris\n',
  at: noon,
  ...changes,
});

const silent: Event = { kind: 'unreachable', at: noon + 1, allocation: 1, message: 'no answer' };

/** The job after the pass that finished it. */
const finished = (job: Job, at: number): Job => ({
  ...job,
  startRequest: null,
  finish: { at, verdict: 'succeeded', reason: 'succeeded' },
});

function storeSuite(name: string, open: OpenPair): void {
  describe(`the store on ${name}`, () => {
    let store: Store;
    let other: Store;
    let close: () => Promise<void> = async () => {};

    beforeEach(async () => {
      await close();
      ({ store, other, close } = await open());
    });
    after(() => close());

    async function commit(
      stored: Pick<StoredJob, 'job' | 'revision'>,
      changes: Partial<Parameters<Store['commit']>[0]> = {},
      to = store,
    ) {
      return to.commit({
        job: stored.job,
        revision: stored.revision,
        events: [],
        foldedOutcomes: [],
        wakeAt: null,
        epoch: null,
        ...changes,
      });
    }

    it('lets one of two requests use a persistent TPU; a later one waits, and begins once the TPU is free', async () => {
      const guard = { grants: [], request: '', confirmed: [] };
      const spec = tpuSpec({}, { ownership: 'persistent', name: 'lab-v4' });
      const racing = await Promise.all([
        store.insertGuarded(ada({ spec }), guard),
        other.insertGuarded(ada({ spec }), guard),
      ]);
      const [first, ...more] = racing.filter((stored) => stored !== 'unconfirmed');
      assert.ok(first !== undefined);
      assert.deepEqual(more, []);
      const waiting = await other.insert(ada({ spec }));
      assert.equal(waiting.job.startRequest?.waitsForTpu, true);
      const needed = factsNeeded({ owner: 'ada', spec, job: null }, [], noon);
      const { onTpu } = await store.guardFacts(needed, noon);
      assert.deepEqual(
        onTpu.map(({ id }) => id),
        [first.job.id, waiting.job.id],
      );

      const begun = (job: Job) => withAttempts({ ...job, startRequest: null }, [readyAllocation], [runningAttempt]);
      assert.equal(await commit(waiting, { job: begun(waiting.job) }), 'tpu_in_use');
      assert.equal((await store.load(waiting.job.id))?.revision, 1);
      assert.equal(await commit(first, { job: finished(first.job, noon + 1) }), 'committed');
      assert.equal(await commit(waiting, { job: begun(waiting.job) }), 'committed');
      const again: Job = { ...first.job, startRequest: { startMode: 'rerun', at: noon + 2 } };
      assert.equal(await commit({ job: again, revision: 2 }, { guard }), 'unconfirmed');
      assert.equal(await commit({ job: again, revision: 2 }), 'tpu_in_use');
      const patient: Job = { ...again, startRequest: { startMode: 'rerun', at: noon + 2, waitsForTpu: true } };
      assert.equal(await commit({ job: patient, revision: 2 }), 'committed');
    });

    it('takes a confirmation token once, and only for its request', async () => {
      const spec = tpuSpec({}, { ownership: 'persistent', name: 'lab-v4' });
      const elsewhere = tpuSpec({}, { ownership: 'persistent', name: 'lab-v5' });
      for (const first of [spec, elsewhere]) await store.insert(ada({ spec: first }));
      const request = { owner: 'ada', spec, job: null };
      const facts = await store.guardFacts(factsNeeded(request, [], noon), noon);
      const { reasons } = checkGuard(request, { grants: [], request: '', confirmed: [] }, facts, noon);
      const guard = { grants: [], request: '', confirmed: reasons.map(({ token }) => token ?? '') };
      assert.equal(await store.insertGuarded(ada({ spec: elsewhere }), guard), 'unconfirmed');
      assert.equal(await store.insertGuarded(ada({ spec, owner: 'bob' }), guard), 'unconfirmed');
      const racing = await Promise.all([store, other].map((one) => one.insertGuarded(ada({ spec }), guard)));
      assert.equal(racing.filter((stored) => stored === 'unconfirmed').length, 1);
      assert.equal(await store.insertGuarded(ada({ spec }), guard), 'unconfirmed');
    });

    it('lets no requests exceed the chips of a grant together', async () => {
      const spec = tpuSpec({}, { ownership: 'ephemeral', accelerator: 'v5litepod-16' });
      const guard = { grants: [{ accelerator: 'v5e', chips: 40 }], request: '', confirmed: [] };
      const racing = await Promise.all(
        Array.from({ length: 8 }, async (_, index) =>
          (index % 2 === 0 ? store : other).insertGuarded(ada({ spec }), guard),
        ),
      );
      const [first, ...more] = racing.filter((stored) => stored !== 'unconfirmed');
      assert.equal(more.length, 1);
      assert.ok(first !== undefined);
      const events = [{ kind: 'finished', at: noon, verdict: 'cancelled', reason: 'stopped' } as const];
      await commit(first, { job: finished(first.job, noon + 1), events });
      assert.notEqual(await store.insertGuarded(ada({ spec }), guard), 'unconfirmed');
    });

    it('runs simultaneous operations together and undoes only those that fail', async () => {
      const { job } = await store.insert(ada());
      const neverInserted = { ...job, id: '000777' };
      const results = await Promise.allSettled([
        store.insert(ada()),
        commit({ job: neverInserted, revision: 1 }, { events: [silent] }),
        commit({ job, revision: 1 }, { events: [silent] }),
        other.insert(ada()),
      ]);
      assert.deepEqual(
        results.map((result) => result.status),
        ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
      );
      const { jobs } = await other.list({ maxFinished: null });
      assert.deepEqual(jobs.map((one) => one.id).toSorted(), ['000001', '000002', '000003']);
      assert.equal((await other.load(job.id))?.revision, 2);
      assert.deepEqual(
        (await other.events(job.id, 1)).map((stored) => stored.event),
        [silent],
      );

      // The statements of a controller's commits run in between each other.
      const { lease } = await store.takeLease('one', '1', noon, minute, false);
      const controllers = { events: [silent], epoch: lease.epoch };
      const twice = await Promise.allSettled([
        commit({ job, revision: 2 }, controllers),
        commit({ job: neverInserted, revision: 1 }, controllers),
        commit({ job, revision: 2 }, controllers),
        ...jobs.filter(({ id }) => id !== job.id).map((one) => commit({ job: one, revision: 1 }, controllers)),
        store.addOutcome(job.id, { subject: { kind: 'release', allocation: 1 }, at: noon, result: { kind: 'done' } }),
        store.addOutcome('000777', { subject: { kind: 'release', allocation: 1 }, at: noon, result: { kind: 'done' } }),
      ]);
      assert.deepEqual(
        twice.map((result) => (result.status === 'fulfilled' ? (result.value ?? 'written') : result.status)),
        ['committed', 'rejected', 'stale', 'committed', 'committed', 'written', 'rejected'],
      );
      assert.equal((await other.outcomes(job.id)).length, 1);
      const numbers = (await other.eventsAfter(0, 100)).map(({ number }) => number);
      assert.deepEqual(
        numbers,
        numbers.map((_, index) => index + 1),
      );
    });

    it('numbers jobs from 000001 and writes the first line of their history', async () => {
      const first = await store.insert(ada());
      const second = await store.insert(ada());
      assert.deepEqual([first.job.id, second.job.id], ['000001', '000002']);
      assert.equal(first.revision, 1);
      assert.equal(first.job.installation, await store.installationId());
      assert.deepEqual(await store.events('000001', 0), [{ seq: 1, event: { kind: 'created', at: noon, by: 'ada' } }]);
    });

    it('returns the spec that an earlier version has stored in the format of this one', async () => {
      const capacity = { kind: 'local', ownership: 'persistent', workdir: '/srv/iris' };
      const { command } = localSpec();
      const secretsOf = {
        1: { A: { kind: 'environment', variable: 'B' }, C: { kind: 'file', path: '/home/ada/c' } },
        2: { A: { kind: 'job', secret: 'A', variable: 'B' }, C: { kind: 'localFile', path: '/home/ada/c' } },
      };
      const workdir = { from: '/home/ada/code' };
      const version1 = {
        ...localSpec(),
        version: 1,
        capacity,
        workdir,
        command: { ...command, secrets: secretsOf[1] },
      };
      const { job } = await store.insert(ada({ spec: version1 as unknown as JobSpec }));
      const expected = { ...localSpec(), workdir: { tree: null }, command: { ...command, secrets: secretsOf[2] } };
      assert.deepEqual((await other.load(job.id))?.job.spec, expected);
      const key = { from: '/home/ada/id', to: '~/.ssh/id', mode: 0o600 };
      const [step] = tpuSpec().steps;
      const keyed = (spec: object, capacityKey: unknown, file: object) => ({
        ...tpuSpec(),
        ...spec,
        capacity: { ...tpuSpec().capacity, privateKey: capacityKey },
        steps: [{ ...step, files: [{ ...file, to: key.to, mode: key.mode }] }],
      });
      const keyed1 = keyed({ version: 1 }, key.from, { kind: 'local', from: key.from }) as unknown as JobSpec;
      const localKey = { kind: 'localFile', path: key.from };
      const { job: withKey } = await store.insert(ada({ spec: keyed1 }));
      assert.deepEqual(
        (await other.load(withKey.id))?.job.spec,
        keyed({}, localKey, { kind: 'secret', secret: localKey }),
      );
      const { jobs } = await other.list({ maxFinished: null });
      assert.equal(jobs[0]?.spec.version, 2);
    });

    it('returns the complete job with its manifest, also through another connection', async () => {
      const { job } = await store.insert(ada({ spec: tpuSpec({ tags: ['a', 'a', 'b'] }) }));
      for (const reader of [store, other]) {
        assert.deepEqual(await reader.load(job.id), { job, revision: 1, wakeAt: 0 });
      }
    });

    describe('recorded passes', () => {
      const observation = { admitted: true, allocations: [], workers: [], outcomes: [] };
      const request = { kind: 'request', allocation: 1 } as const;
      /** A pass that records the number of its owner's attempts. */
      async function pass(number: number, changes: Partial<Decision> = {}, limits: Partial<PassRecord> = {}) {
        const { job, revision } = (await store.load('000001'))!;
        const now = noon + number * minute;
        const decision = { job, events: [], actions: [], wakeAt: undefined, ...changes };
        const recorded = recordPass(observation, decision, { now, version: '1.0.0' });
        const record = { pass: recorded, maxCount: 9, since: noon, ...limits };
        await commit({ job: decision.job, revision }, { events: decision.events, record });
      }
      async function change(changes: Partial<Job>, events: readonly Event[] = []) {
        const { job, revision } = (await store.load('000001'))!;
        await commit({ job: { ...job, ...changes }, revision }, { events });
      }
      const steps = async () =>
        (await store.passes('000001')).map(({ seq, situation, events, inputs, repeats }) => ({
          seq,
          situation,
          repeats,
          events: events.length,
          desiredAt: inputs && [inputs.before.desiredAt, inputs.after.desiredAt],
        }));

      beforeEach(async () => void (await store.insert(ada())));

      it('are read with the job before and after each, also after a command', async () => {
        const { job } = (await store.load('000001'))!;
        const changed = { ...job, desiredAt: 1, situation: 'running' };
        await pass(1, { job: changed, events: [silent], actions: [request] });
        await change({ desiredAt: 2 });
        await pass(3, { job: { ...changed, desiredAt: 3, endedBy: 'bob' }, events: [silent, silent] });
        assert.deepEqual(await steps(), [
          { seq: 1, situation: 'running', repeats: 0, events: 1, desiredAt: [noon, 1] },
          { seq: 2, situation: null, repeats: 0, events: 0, desiredAt: null },
          { seq: 3, situation: 'running', repeats: 0, events: 2, desiredAt: [2, 3] },
        ]);
        const [first, , third] = await other.passes('000001');
        assert.deepEqual(first?.inputs?.before, job);
        assert.deepEqual(first?.inputs?.pass.actions, { 'request/1': {} });
        assert.deepEqual(first?.inputs?.pass.facts, { admitted: true, allocations: {}, workers: {} });
        assert.deepEqual(third?.inputs?.after, (await store.load('000001'))?.job);
      });

      it('have no inputs if another version has recorded them in another form', async () => {
        const { job } = (await store.load('000001'))!;
        const decision = { job, events: [silent], actions: [], wakeAt: undefined };
        const old = { ...recordPass(observation, decision, { now: noon, version: '0.9.0' }), format: 1 };
        await pass(1, { events: [silent] });
        await pass(2, { events: [silent] }, { pass: old });
        await pass(3, { events: [silent] });
        assert.deepEqual(
          (await store.passes('000001')).map(({ inputs }) => inputs !== null),
          [true, false, true],
        );
      });

      it('are counted instead of stored while they repeat the last one', async () => {
        await pass(1, { events: [silent], actions: [request] });
        for (const number of [2, 3, 4]) await pass(number, { actions: [request] });
        await pass(5);
        const [first, second, ...more] = await store.passes('000001');
        assert.deepEqual([first?.repeats, first?.repeatedAt, second?.repeats], [3, noon + 4 * minute, 0]);
        assert.deepEqual(more, []);
      });

      it('are removed beyond their number and their age, of other jobs too', async () => {
        await pass(1, { events: [silent] });
        await store.insert(ada());
        const second = (await store.load('000002'))!;
        const decision = { job: second.job, events: [silent], actions: [], wakeAt: undefined };
        const recorded = recordPass(observation, decision, { now: noon, version: '1.0.0' });
        await commit(second, { events: [silent], record: { pass: recorded, maxCount: 9, since: noon } });
        for (let number = 2; number <= 21; number += 1) {
          assert.equal((await store.passes('000002')).length, 1);
          await pass(number, { events: [silent] }, { maxCount: 3, since: noon + minute });
        }
        assert.deepEqual(
          (await steps()).map(({ seq }) => seq),
          [19, 20, 21],
        );
        assert.deepEqual(await store.passes('000002'), []);
      });

      it('are removed when recording is off', async () => {
        await pass(1, { events: [silent] });
        const stored = (await store.load('000001'))!;
        await commit(stored, { record: null });
        await change({ desiredAt: 1 });
        assert.deepEqual(await store.passes('000001'), []);
      });
    });

    it('writes the usage of a job with its events, and returns the rows of a period', async () => {
      const stored = await store.insert(ada({ spec: tpuSpec({ tags: ['nightly'] }) }));
      const requested: Event = {
        kind: 'allocation_requested',
        at: noon,
        allocation: 1,
        name: 'a',
        ownership: 'ephemeral',
      };
      const waiting = withAttempts(stored.job, [{}], [{}]);
      assert.equal(await commit({ ...stored, job: waiting }, { events: [requested] }), 'committed');
      const [row, ...others] = await other.usage({});
      assert.deepEqual(others, []);
      assert.deepEqual(row, {
        job: '000001',
        uid: null,
        source: 'tpu',
        allocation: 1,
        name: 'vit-000001-1',
        owner: 'ada',
        jobName: 'vit',
        tags: ['nightly'],
        project: 'lab',
        location: 'us-west4-a',
        accelerator: 'v5litepod-16',
        pricing: 'spot',
        chips: 16,
        ownership: 'ephemeral',
        use: 'waiting',
        attempt: null,
        from: noon,
        until: null,
        pricePerHourUsd: 0,
        pricesOf: null,
        simulated: false,
      });
      const ready = withAttempts(stored.job, [readyAllocation], [runningAttempt]);
      const seen: Event = {
        kind: 'allocation_seen',
        at: noon + minute,
        allocation: 1,
        state: 'ready',
        message: 'READY',
      };
      assert.equal(await commit({ job: ready, revision: 2 }, { events: [seen] }), 'committed');
      assert.deepEqual(await other.usage({}), usageOf(ready));
      const uses = async (filter: UsageFilter) => (await store.usage(filter)).map(({ use }) => use);
      assert.deepEqual(await uses({ until: noon + minute }), ['waiting']);
      assert.deepEqual(await uses({ since: noon + minute, until: noon + 2 * minute }), ['setup']);
      assert.deepEqual(await uses({ owners: ['bob'] }), []);
      assert.deepEqual(await uses({ jobs: [] }), []);
      assert.equal((await uses({ jobs: ['000001'], owners: ['ada'] })).length, 3);
      // Without events nothing has happened.
      assert.equal(await commit({ job: waiting, revision: 3 }), 'committed');
      assert.deepEqual(await other.usage({}), usageOf(ready));
    });

    it('loads many jobs in the requested order and omits missing ones', async () => {
      for (let jobs = 0; jobs < 3; jobs += 1) await store.insert(ada());
      const found = await store.loadMany(['000003', '000009', 'iris', '000001']);
      assert.deepEqual(
        found.map(({ job }) => job.id),
        ['000003', '000001'],
      );
      assert.equal(await store.load('000009'), undefined);
      assert.equal(await store.load('1; drop table job'), undefined);
      assert.deepEqual(await store.loadMany([]), []);
      assert.deepEqual(await store.events('000009', 0), []);
    });

    it('gives two jobs of one name that are created at once their own ids', async () => {
      const made = await Promise.all(
        Array.from({ length: 120 }, (_, index) => (index % 20 === 0 ? other : store).insert(ada())),
      );
      assert.equal(new Set(made.map(({ job }) => job.id)).size, 120);
    });

    it('commits the job, its events, its next check and the end of its outcomes together', async () => {
      const made = await store.insert(ada());
      await store.addOutcome(made.job.id, {
        subject: { kind: 'start', attempt: 1, worker: 0 },
        at: noon,
        result: { kind: 'done' },
      });
      const [waiting] = await store.outcomes(made.job.id);
      assert.ok(waiting);
      const job: Job = { ...made.job, desired: 'stopped' };
      assert.equal(
        await commit(made, { job, events: [silent], foldedOutcomes: [waiting.id], wakeAt: noon + 5_000 }),
        'committed',
      );
      assert.deepEqual(await other.load(job.id), { job, revision: 2, wakeAt: noon + 5_000 });
      assert.deepEqual(
        (await other.events(job.id, 1)).map(({ seq, event }) => [seq, event]),
        [[2, silent]],
      );
      assert.deepEqual(await other.outcomes(job.id), []);
      assert.equal(await other.nextWake(), noon + 5_000);
    });

    it('drops a commit of another revision completely', async () => {
      const made = await store.insert(ada());
      assert.equal(await commit(made, { events: [silent] }), 'committed');
      const late: Job = { ...made.job, desired: 'deleted' };
      assert.equal(await commit(made, { job: late, events: [silent], wakeAt: noon }), 'stale');
      assert.equal((await store.load(made.job.id))?.job.desired, 'running');
      assert.equal((await store.events(made.job.id, 0)).length, 2);
      assert.equal(await store.nextWake(), null);
    });

    it('accepts exactly one of many commits of one revision', async () => {
      const made = await store.insert(ada());
      const results = await Promise.all(
        Array.from({ length: 10 }, (_, index) => commit(made, { events: [silent] }, index % 2 === 0 ? store : other)),
      );
      assert.equal(results.filter((result) => result === 'committed').length, 1);
      assert.equal((await store.events(made.job.id, 0)).length, 2);
    });

    it('refuses the commit of a controller that has lost the lease', async () => {
      const made = await store.insert(ada());
      const first = await store.takeLease('one', '0.1.0', noon, minute, false);
      assert.deepEqual(first, {
        taken: true,
        lease: { holder: 'one', epoch: 1, version: '0.1.0', expiresAt: noon + minute },
      });
      const second = await other.takeLease('two', '0.1.0', noon + 500, minute, false);
      assert.equal(second.taken, false);
      assert.equal(second.lease.holder, 'one');

      // It expires at once.
      await store.takeLease('one', '0.1.0', noon + 500, 0, false);
      const third = await other.takeLease('two', '0.1.0', noon + 500, minute, false);
      assert.deepEqual([third.taken, third.lease.epoch], [true, 2]);
      assert.equal(await commit(made, { epoch: 1, events: [silent] }), 'lease_lost');
      assert.equal(await commit(made, { epoch: 2 }), 'committed');
    });

    it('keeps the epoch while the same holder renews, and never repeats one', async () => {
      await store.takeLease('one', '0.1.0', noon, 1_000, false);
      assert.equal((await store.takeLease('one', '0.1.0', noon + 900, 1_000, false)).lease.epoch, 1);
      await store.releaseLease('two');
      assert.equal((await store.lease(noon))?.holder, 'one');
      await store.releaseLease('one');
      assert.equal(await store.lease(noon), undefined);
      const made = await store.insert(ada());
      assert.equal(await commit(made, { epoch: 1 }), 'lease_lost');
      assert.equal((await store.takeLease('one', '0.1.0', noon, 1_000, false)).lease.epoch, 2);
      assert.equal((await other.takeLease('two', '0.1.0', noon, 1_000, true)).lease.epoch, 3);
    });

    it('gives the lease of a dead controller only to the next holder of the same lock', async () => {
      await store.takeLease('one@here', '0.1.0', noon, minute, true);
      assert.equal((await store.takeLease('two@there', '0.1.0', noon, 1_000, true)).taken, false);
      assert.equal((await store.takeLease('three@here', '0.1.0', noon, 1_000, true)).taken, true);
    });

    it('knows the newest pause without a renewal, and joins two that are close', async () => {
      const at = async (passed: number, holder = 'one'): Promise<unknown> =>
        (await store.takeLease(holder, '0.1.0', noon + passed * minute, minute, true)).lease.pause;
      assert.equal(await at(0), undefined);
      assert.equal(await at(1), undefined);
      await store.releaseLease('one');
      const pause = { from: noon + minute, until: noon + 30 * minute };
      assert.deepEqual(await at(30, 'two'), pause);
      for (let passed = 31; passed <= 40; passed += 1) assert.deepEqual(await at(passed, 'two'), pause);
      assert.deepEqual(await at(60, 'three'), { from: noon + 40 * minute, until: noon + 60 * minute });
      assert.deepEqual(await at(65, 'three'), { from: noon + 40 * minute, until: noon + 65 * minute });
      // The clock is set back.
      assert.deepEqual(await at(50, 'three'), { from: noon + 40 * minute, until: noon + 50 * minute });
    });

    it('keeps the newest outcome of an action, and does not delete one that no pass has folded', async () => {
      const made = await store.insert(ada());
      const subject = { kind: 'request', allocation: 1 } as const;
      await store.addOutcome(made.job.id, { subject, at: noon, result: { kind: 'done' } });
      const [seen] = await store.outcomes(made.job.id);
      assert.ok(seen);
      const newer = { subject, at: noon + 5, result: { kind: 'unclear', evidence: { message: 'no reply' } } } as const;
      await store.addOutcome(made.job.id, newer);
      await commit(made, { foldedOutcomes: [seen.id] });
      assert.deepEqual(
        (await store.outcomes(made.job.id)).map(({ outcome }) => outcome),
        [newer],
      );
    });

    it('knows which jobs are due: by their time or by an outcome', async () => {
      const jobs = [];
      for (let made = 0; made < 4; made += 1) jobs.push(await store.insert(ada({ at: noon + made })));
      const [first, second, third, fourth] = jobs;
      assert.ok(first && second && third && fourth);
      await commit(first, { wakeAt: noon + 9_000 });
      await commit(second, { wakeAt: null });
      await commit(third, { wakeAt: noon + 2_000 });
      await commit(fourth, { wakeAt: noon + 1_000 });
      assert.equal(await store.nextWake(), noon + 1_000);
      assert.deepEqual(await store.dueJobs(noon + 5_000, 10), ['000004', '000003']);
      assert.deepEqual(await store.dueJobs(noon + 5_000, 1), ['000004']);
      assert.deepEqual(await store.dueJobs(noon, 10), []);
      await store.addOutcome('000002', {
        subject: { kind: 'release', allocation: 1 },
        at: noon,
        result: { kind: 'done' },
      });
      assert.deepEqual(await store.dueJobs(noon + 5_000, 10), ['000002', '000004', '000003']);
    });

    it('counts changes, and not passes that changed nothing', async () => {
      assert.equal(await store.changeCount(), 0);
      const made = await store.insert(ada());
      const before = await other.changeCount();
      assert.ok(before > 0);
      await commit(made, { wakeAt: noon + 1 });
      assert.equal(await other.changeCount(), before);
      await commit({ ...made, revision: 2 }, { events: [silent] });
      assert.equal(await other.changeCount(), before + 1);
    });

    it('lists unfinished jobs, and the given number of those that finished last', async () => {
      for (let made = 0; made < 6; made += 1) {
        const stored = await store.insert(ada());
        // Later jobs finished earlier, so that the order is not that of the ids.
        if (made >= 2) await commit(stored, { job: finished(stored.job, noon - made) });
      }
      const page = await store.list({ maxFinished: 2 });
      assert.deepEqual(
        page.jobs.map((job) => job.id),
        ['000002', '000001', '000003', '000004'],
      );
      assert.equal(page.more, 2);
      const all = await store.list({ maxFinished: null });
      assert.deepEqual([all.jobs.length, all.more], [6, 0]);
      const exactly = await store.list({ maxFinished: 4 });
      assert.deepEqual([exactly.jobs.length, exactly.more], [6, 0]);
      assert.equal((await store.list({ maxFinished: 0 })).more, 4);
    });

    it('has pages in which no job comes twice or is left out while jobs are created, finish, run again and are deleted', async () => {
      const made: StoredJob[] = [];
      for (let one = 0; one < 40; one += 1) made.push(await store.insert(ada({ at: noon + one })));
      const change = async (index: number, next: (job: Job) => Job) => {
        const stored = await store.load(made[index]?.job.id ?? '');
        if (stored !== undefined) await commit(stored, { job: next(stored.job) });
      };
      const remove = (job: Job): Job => ({ ...finished(job, noon), removed: true });
      for (let index = 0; index < 40; index += 2) await change(index, (job) => finished(job, noon + 1_000 - index));
      const readRows = (page: NonNullable<JobFilter['page']>) =>
        store.listRows({ maxFinished: null, page }, (job) => jobRow(job, noon));
      const seen: string[] = [];
      let query: ListQuery = { limit: 3 };
      for (let page = 0; ; page += 1) {
        const { rows, next } = await listPage(readRows, query);
        seen.push(...rows.map(({ id }) => id));
        if (next === undefined) break;
        query = { limit: 3, cursor: next };
        await store.insert(ada());
        await change(39 - 2 * page, (job) => finished(job, noon + 5_000));
        await change(2 * page, (job) => ({ ...job, finish: null }));
        if (page === 4) for (const index of [4, 30]) await change(index, remove);
      }
      const ids = made.map(({ job }) => job.id).toReversed();
      assert.deepEqual(
        seen,
        ids.filter((id) => id !== made[4]?.job.id),
      );

      const since = await store.list({ maxFinished: null, createdSince: noon + 38, page: { before: 40, limit: 9 } });
      assert.deepEqual(
        since.jobs.map(({ id }) => id),
        ['000039'],
      );
      const running = await store.list({ maxFinished: null, isFinished: false });
      assert.ok(running.jobs.length > 0 && running.jobs.every(({ finish }) => finish === null));
      const over = await store.list({ maxFinished: 5, isFinished: true });
      assert.ok(over.jobs.length === 5 && over.jobs.every(({ finish }) => finish !== null) && over.more > 0);
    });

    it('filters a list and its count by id, owner, name, glob and tag', async () => {
      const specs = [
        localSpec({ name: 'llama-1', tags: ['night'] }),
        localSpec({ name: 'llama_2' }),
        localSpec({ name: 'Llama-100%', tags: ['night', 'big'] }),
      ];
      for (const spec of specs) await store.insert(ada({ spec }));
      await store.insert(ada({ owner: 'bob', spec: localSpec({ name: 'llama-1' }) }));
      const ids = async (filter: Partial<Parameters<Store['list']>[0]>) =>
        (await store.list({ maxFinished: null, ...filter })).jobs.map((job) => job.id);
      assert.deepEqual(await ids({ owners: ['bob'] }), ['000004']);
      assert.deepEqual(await ids({ name: 'llama-1', owners: ['ada', 'bob'] }), ['000004', '000001']);
      assert.deepEqual(await ids({ owners: [] }), []);
      assert.deepEqual(await ids({ name: 'llama-1' }), ['000004', '000001']);
      assert.deepEqual(await ids({ name: 'llama-1', owners: ['ada'] }), ['000001']);
      assert.deepEqual(await ids({ tag: 'night' }), ['000003', '000001']);
      assert.deepEqual(await ids({ nameGlob: 'llama-*' }), ['000004', '000003', '000001']);
      assert.deepEqual(await ids({ nameGlob: 'llama_?' }), ['000002']);
      assert.deepEqual(await ids({ nameGlob: '*%' }), ['000003']);
      const third = await store.load('000003');
      assert.ok(third);
      await commit(third, { job: finished(third.job, noon) });
      assert.equal((await store.list({ maxFinished: 0, tag: 'night' })).more, 1);
      assert.equal((await store.list({ maxFinished: 0, owners: ['bob'] })).more, 0);
    });

    it('hides a removed job from lists and keeps its rows', async () => {
      const made = await store.insert(ada());
      await commit(made, { job: { ...finished(made.job, noon), removed: true } });
      assert.deepEqual((await store.list({ maxFinished: null })).jobs, []);
      assert.equal((await store.list({ maxFinished: null, includeRemoved: true })).jobs.length, 1);
      assert.equal((await store.load(made.job.id))?.job.removed, true);
    });

    it('lists outlines: every field that decides, no long texts', async () => {
      const secret = 'a text that is long';
      const spec = tpuSpec({ command: { ...tpuSpec().command, script: secret, env: { TOKEN: secret } } });
      await store.insert(ada({ spec }));
      const [job] = (await store.list({ maxFinished: null })).jobs;
      assert.ok(job);
      assert.equal(JSON.stringify(job).includes(secret), false);
      assert.deepEqual(job.spec.recovery, spec.recovery);
      assert.deepEqual(
        job.spec.steps.map((step) => [step.name, step.key]),
        spec.steps.map((step) => [step.name, step.key]),
      );
    });

    it('stores the row of a finished job until the job runs again, and computes the others', async () => {
      const live = await store.insert(ada());
      const ended = await store.insert(ada());
      await commit(ended, { job: finished(ended.job, noon) });
      const made: string[] = [];
      const list = () =>
        other.listRows({ maxFinished: null }, (job) => {
          made.push(job.id);
          return jobRow(job, noon);
        });
      const page = await list();
      assert.deepEqual(made, [live.job.id]);
      assert.deepEqual(
        page.rows.map(({ id, phase }) => [id, phase]),
        [
          ['000001', 'queued'],
          ['000002', 'succeeded'],
        ],
      );
      assert.deepEqual(page.rows[1], finalRows.rowOf(finished(ended.job, noon)));
      await commit({ ...ended, revision: 2 });
      await list();
      assert.deepEqual(made, [live.job.id, ended.job.id, live.job.id]);
    });

    it('knows the next check of each job', async () => {
      const made = await store.insert(ada());
      assert.equal(await other.wakeAt(made.job.id), 0);
      assert.deepEqual(await store.dueJobs(noon - day, 10), ['000001']);
      await commit(made, { wakeAt: noon + 7_000 });
      assert.equal(await other.wakeAt(made.job.id), noon + 7_000);
      await commit({ ...made, revision: 2 });
      assert.equal(await other.wakeAt(made.job.id), null);
      assert.equal(await other.wakeAt('000009'), null);
    });

    it('finds the jobs that requested the same capacity, newest first, and no others', async () => {
      const asked = { accelerator: 'v5litepod-16', zone: 'us-west4-a', pricing: 'spot' };
      await store.insert(ada({ spec: tpuSpec() }));
      await store.insert(ada({ spec: tpuSpec({}, { zone: 'us-east5-b' }) }));
      await store.insert(ada({ spec: tpuSpec({}, { pricing: 'ondemand' }) }));
      await store.insert(ada());
      // The same text elsewhere in the outline does not match.
      const name = '"accelerator":"v5litepod-16","zone":"us-west4-a"';
      await store.insert(ada({ spec: tpuSpec({ name }, { accelerator: 'v6e-8', zone: 'us-east5-b' }) }));
      // An underscore is not a wildcard.
      await store.insert(ada({ spec: tpuSpec({}, { zone: 'us-west4_a' }) }));
      await store.insert(ada({ spec: tpuSpec(), at: noon + 5 }));
      const ids = (jobs: readonly Job[]) => jobs.map(({ id }) => id);
      assert.deepEqual(ids(await other.similarJobs(asked, 0, 10)), ['000007', '000001']);
      assert.deepEqual(ids(await other.similarJobs(asked, 0, 1)), ['000007']);
      assert.deepEqual(ids(await other.similarJobs(asked, noon + 1, 10)), ['000007']);
      assert.deepEqual(ids(await other.similarJobs({ ...asked, zone: 'us-west4_a' }, 0, 10)), ['000006']);
      assert.deepEqual(await other.similarJobs({ ...asked, zone: 'nowhere' }, 0, 10), []);
    });

    it('remembers orphans until they are deleted', async () => {
      const orphan = {
        backend: 'tpu',
        resource: 'lab/us-west4-a/nodes/vit-000001-1',
        installation: 'abc123',
        job: '000001',
        allocation: 1,
        state: 'READY',
      } as const;
      await store.recordOrphan(orphan);
      await store.recordOrphan({ ...orphan, state: 'DELETING' });
      assert.deepEqual(await other.orphans(), [{ ...orphan, state: 'DELETING' }]);
      await other.forgetOrphan(orphan);
      await other.forgetOrphan(orphan);
      assert.deepEqual(await store.orphans(), []);
    });

    it('has one installation id', async () => {
      const mine = await store.installationId();
      assert.match(mine, /^[a-z0-9]{6}$/);
      assert.equal(await other.installationId(), mine);
    });
  });
}

// As in the simulator: both stores are the same one, which is gone when it is closed.
storeSuite('SQLite in memory', () => {
  const store = openStore({ file: ':memory:', finalRows: async () => finalRows });
  return Promise.resolve({ store, other: store, close: () => store.close() });
});

suiteOnBoth('two connections', (newAddress) => {
  storeSuite('a database', async () => {
    const address = await newAddress();
    const rows = { finalRows: async () => finalRows };
    const [store, other] = [openStore({ ...address, ...rows }), openStore({ ...address, ...rows })];
    return { store, other, close: async () => void (await Promise.all([store.close(), other.close()])) };
  });

  it('has a unique index for one live job on a persistent TPU, which every statement meets', async () => {
    const address = await newAddress();
    const store = openStore(address);
    const spec = tpuSpec({}, { ownership: 'persistent', name: 'lab-v4' });
    for (const owner of ['ada', 'bob']) await store.insert(ada({ owner, spec }));
    await store.close();
    const database = openDatabase(address);
    const live = sql<{ number: number }>`select number from job where live = 1 and holds is not null`;
    const liveJobs = () => database.read(async (db) => (await live.execute(db)).rows.map(({ number }) => number));
    assert.deepEqual(await liveJobs(), [1]);
    const begin = sql`update job set live = 1, holds = (select holds from job where number = 1) where number = 2`;
    await assert.rejects(
      database.write((db) => begin.execute(db)),
      /unique/i,
    );
    assert.deepEqual(await liveJobs(), [1]);
    await database.close();
  });
});
