// The contract of every Client: its answers, and the rows, files and changes of the database that it causes. The suite calls
// only its methods, over JSON; the state of a job changes in the store, as by a controller.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import type { Change, Client, LogSearch } from '../../src/app/client.ts';
import type { AuditRow } from '../../src/app/audit.ts';
import { generationOf } from '../../src/catalogue/accelerators.ts';
import { digestOf } from '../../src/catalogue/digest.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { attemptFile, jobFolder } from '../../src/files/job-folder.ts';
import type { ClientParts } from '../../src/app/store-client.ts';
import type { WorkerRoutes } from '../../src/app/worker-access.ts';
import type { StepRunner } from '../../src/app/manual-step.ts';
import { createLogFiles } from '../../src/files/log-files.ts';
import type { Store } from '../../src/app/ports.ts';
import type { Job } from '../../src/core/model/job.ts';
import type { Actor, Role } from '../../src/core/model/user.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import { day, hour, minute, second, type Instant } from '../../src/core/model/time.ts';
import { defaultSettings } from '../../src/app/settings.ts';
import { openStore, type JobmanStore } from '../../src/store/store.ts';
import { openWorld } from '../support/world.ts';
import {
  aJob,
  aMember,
  endedAttempt,
  withAttempts,
  localSpec,
  noon,
  readyAllocation,
  runningAttempt,
  tpuSpec,
} from '../support/builders.ts';
import { badInputSuite } from './bad-input.ts';
import { cloudSuite } from './clouds.ts';
import { confirmationSuite } from './confirmations.ts';
import { jobSourceSuite } from './job-source.ts';
import { overJson } from './over-json.ts';
import { pageSuite } from './pages.ts';
import { permissionSuite } from './permissions.ts';
import { clientParts } from '../support/client-parts.ts';
import { createConfirmed } from '../support/create-confirmed.ts';

export interface Fixture {
  readonly home: string;
  readonly store: JobmanStore;
  readonly client: Client;
  /** The client of a member over another store. */
  clientOver(store: Store, user?: string, role?: Role): Client;
  /** The jobs that a controller was notified of. */
  readonly hinted: readonly string[];
  clock: number;
  create(spec?: JobSpec, owner?: string): Promise<string>;
  /** Replaces the job's state, as passes of the controller would. */
  lives(id: string, life: (job: Job) => Job, wakeAt?: Instant): Promise<void>;
}

function fixtureOf(openClient: OpenClient, t: TestContext, own: Partial<ClientParts>): Fixture {
  const world = openWorld(t);
  const { home } = world;
  const store = openStore({ file: join(home, 'state.db') });
  const hinted: string[] = [];
  const fixture = { clock: noon };
  const clientOver = (record: Store, user = 'ada', role: Role = 'member'): Client =>
    openClient(
      async () => aMember(user, { role }),
      clientParts(home, store, {
        store: {
          ...record,
          users: () => Promise.resolve([{ name: 'bob', role: 'member', logins: ['bob1'] }]),
          async notify(wakeUp) {
            if (wakeUp.topic === 'job') hinted.push(wakeUp.id);
          },
        },
        now: () => fixture.clock,
        pricePerHour: ({ capacity }) => (capacity.kind === 'tpu' ? { usdPerHour: 2.5, pricesOf: '2026-08-01' } : null),
        ...own,
      }),
    );
  const client = clientOver(store);
  world.atEnd(() => client.close());
  return Object.assign(fixture, {
    home,
    store,
    client,
    clientOver,
    hinted,
    async create(spec: JobSpec = localSpec(), owner = 'ada') {
      return (await createConfirmed(clientOver(store, owner), { spec, manifest: 'job:\n  name: iris\n' })).id;
    },
    async lives(id: string, life: (job: Job) => Job, wakeAt: Instant | null = null) {
      const stored = await store.load(id);
      assert.ok(stored);
      const { job, revision } = stored;
      const result = await store.commit({
        job: { ...life(job), id, installation: job.installation },
        revision,
        events: [],
        foldedOutcomes: [],
        wakeAt,
        epoch: null,
      });
      assert.equal(result, 'committed');
    },
  });
}

async function refusal(asking: Promise<unknown>): Promise<JobmanError> {
  const error = await asking.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof JobmanError, String(error));
  return error;
}

const stoppedLife = (spec: JobSpec, allocation = readyAllocation): Job => ({
  ...withAttempts(
    aJob(spec, { desired: 'stopped', desiredAt: noon }),
    [allocation],
    [{ ...runningAttempt, ...endedAttempt('stopped', { message: 'stopped' }) }],
  ),
  finish: { at: noon + hour, verdict: 'stopped', reason: 'stopped' },
});

/** A client of that actor over the parts, in this process or behind a server. */
export type OpenClient = (whoAmI: () => Promise<Actor>, parts: ClientParts) => Client;

export function clientSuite(implementation: OpenClient): void {
  const answered = new Set<string>();
  const open: OpenClient = (whoAmI, parts) =>
    overJson(implementation(whoAmI, parts), (method) => void answered.add(method));
  permissionSuite(open);
  pageSuite(open);
  confirmationSuite(open);
  const openFixture = (t: TestContext, own: Partial<ClientParts> = {}) => fixtureOf(open, t, own);
  badInputSuite(openFixture);
  jobSourceSuite(openFixture);
  cloudSuite(openFixture);

  test('create stores the job with its price, and its snapshot and copies for its owner only', async (t) => {
    const fixture = openFixture(t);
    const { id, row } = await createConfirmed(fixture.client, { spec: tpuSpec(), manifest: 'job: {name: vit}\n' });
    assert.equal(id, '000001');
    assert.deepEqual([row.phase, row.owner, row.accelerator], ['queued', 'ada', 'v5litepod-16']);
    assert.deepEqual(fixture.hinted, ['000001']);

    const folder = join(fixture.home, 'jobs/ada/000001');
    assert.equal(readFileSync(join(folder, 'config.yaml'), 'utf8'), 'job: {name: vit}\n');
    assert.equal(statSync(join(folder, 'config.yaml')).mode & 0o777, 0o600);
    assert.match(readFileSync(join(folder, 'events.jsonl'), 'utf8'), /"seq":1,"kind":"created"/);
    assert.match(readFileSync(join(folder, 'logs/job.log'), 'utf8'), /created by ada; recovery pre/);
    assert.deepEqual(readdirSync(join(fixture.home, 'jobs/ada')), ['000001']);

    const view = await fixture.client.show('1');
    assert.equal(view.spec.capacity.kind === 'tpu' && view.spec.capacity.pricePerHourUsd, 2.5);
    assert.equal(view.folder.path, folder);
    assert.deepEqual(view.attempts, []);
  });

  test('why reports a possible hang of a running program, from the end of its log', async (t) => {
    const fixture = openFixture(t);
    const limits = { ...tpuSpec().limits, failedCallTimeoutMs: 5 * minute };
    const id = await fixture.create(tpuSpec({ limits, command: { ...tpuSpec().command, runsOn: 'controller' } }));
    await fixture.lives(id, (job) => withAttempts(aJob(job.spec), [readyAllocation], [runningAttempt]));
    const path = attemptFile(jobFolder(fixture.home, 'ada', id), 1, 'controller');
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, 'E0000 GRPC error: reset\n');
    utimesSync(path, noon / 1_000, noon / 1_000);
    const { message: sentence, nextAt } = await fixture.client.why(id);
    assert.match(sentence, /may hang: a call between workers failed\.$/);
    assert.equal(nextAt, noon + 5 * minute);
    writeFileSync(path, 'E0000 GRPC error: reset\nep = 3\n');
    assert.doesNotMatch((await fixture.client.why(id)).message, /hang/);
  });

  test('an unwritable snapshot stops create, and nothing is stored', async (t) => {
    const fixture = openFixture(t);
    await fixture.create();
    mkdirSync(join(fixture.home, 'jobs'), { recursive: true });
    writeFileSync(join(fixture.home, 'jobs/bob'), 'a file in the way');
    const error = await refusal(fixture.create(localSpec(), 'bob'));
    assert.equal(error.code, exitCode.unreachable);
    assert.equal((await fixture.client.list({ all: true })).rows.length, 1);
  });

  test('a ref is an id or a name', async (t) => {
    const fixture = openFixture(t);
    await fixture.create(localSpec({ name: 'iris' }));
    await fixture.create(localSpec({ name: 'vit' }), 'bob');
    for (const ref of ['1', '01', '000001', 'iris']) assert.equal((await fixture.client.why(ref)).id, '000001');
    assert.equal((await fixture.client.why('vit')).id, '000002');

    for (const ref of ['9', '0']) assert.equal((await refusal(fixture.client.show(ref))).code, 3);
    const unknown = await refusal(fixture.client.show('irsi'));
    assert.equal(unknown.code, 3);
    assert.match(unknown.message, /no job named "irsi"\. Did you mean iris\?/);
    const commas = await refusal(fixture.client.show('1, vit'));
    assert.equal(commas.message, 'There is no job named "1, vit". Separate several jobs by spaces: 1 vit');
  });

  suite('of several jobs with one name', () => {
    const finish = (fixture: Fixture, id: string): Promise<unknown> =>
      fixture.lives(id, (job) => ({
        ...stoppedLife(job.spec),
        owner: 'ada',
        finish: { at: noon + hour, verdict: 'stopped', reason: 'stopped' },
      }));

    test('a command that reads takes the newest', async (t) => {
      const fixture = openFixture(t);
      for (let count = 0; count < 3; count += 1) await fixture.create(localSpec({ name: 'iris' }));
      await finish(fixture, '000003');
      const { client } = fixture;
      assert.equal((await client.show('iris')).id, '000003');
      assert.equal((await client.why('iris')).id, '000003');
      assert.equal(await client.resolveName('iris', 'read'), '000003');
    });

    test('a command that changes takes the only unfinished one', async (t) => {
      const fixture = openFixture(t);
      for (let count = 0; count < 3; count += 1) await fixture.create(localSpec({ name: 'iris' }));
      await finish(fixture, '000001');
      await finish(fixture, '000003');
      assert.equal(await fixture.client.resolveName('iris', 'change'), '000002');
      const { id } = await fixture.client.sendCommand('iris', 'stop', {});
      assert.equal(id, '000002');
    });

    test('a command that changes lists the candidates when several are unfinished, or none', async (t) => {
      const fixture = openFixture(t);
      for (let count = 0; count < 3; count += 1) await fixture.create(localSpec({ name: 'iris' }));
      await finish(fixture, '000002');
      const several = await refusal(fixture.client.sendCommand('iris', 'stop', {}));
      assert.equal(several.code, 4);
      assert.match(several.message, /^2 unfinished jobs named "iris": give an id\./);
      assert.deepEqual(
        several.lines.map((line) => line.split(/ {2,}/).slice(0, 2)),
        [
          ['000003', 'queued'],
          ['000001', 'queued'],
        ],
      );
      assert.match(several.lines[0] ?? '', /created .* ago$/);
      await finish(fixture, '000001');
      await finish(fixture, '000003');
      const none = await refusal(fixture.client.sendCommand('iris', 'rerun', {}));
      assert.match(none.message, /^3 finished jobs named "iris"/);
      assert.equal(none.lines.length, 3);
    });
  });

  test('of two jobs with one name, a user means their own', async (t) => {
    const fixture = openFixture(t);
    await fixture.create(localSpec({ name: 'iris' }), 'bob');
    await fixture.create(localSpec({ name: 'iris' }), 'ada');
    assert.equal((await fixture.client.why('iris')).id, '000002');
  });

  test('lists filter by owner, tag, name and phase, and count the hidden jobs', async (t) => {
    const fixture = openFixture(t);
    for (let jobs = 0; jobs < 53; jobs += 1) {
      const id = await fixture.create(localSpec({ name: `run-${jobs}`, tags: jobs % 2 === 0 ? ['even'] : [] }));
      if (jobs >= 1) await fixture.lives(id, (job) => stoppedLife(job.spec));
    }
    await fixture.create(localSpec({ name: 'other' }), 'bob1');
    const ids = async (query: Parameters<Client['list']>[0]) =>
      (await fixture.client.list(query)).rows.map((row) => row.id);

    const page = await fixture.client.list({});
    assert.deepEqual([page.rows.length, page.more], [52, 2]);
    assert.deepEqual(
      page.rows.map((row) => row.id),
      page.rows.map((row) => row.id).toSorted((one, other) => Number(other) - Number(one)),
      'the order of the column that the list begins with',
    );
    assert.deepEqual([page.rows[0]?.id, page.rows.at(-1)?.id], ['000054', '000001'], 'no unfinished job is left out');
    assert.equal((await fixture.client.list({ all: true })).rows.length, 54);
    assert.deepEqual(await ids({ user: 'bob' }), ['000054'], 'of a login of the user');
    assert.equal((await fixture.client.list({ tag: 'even', all: true })).rows.length, 27);
    assert.deepEqual(await ids({ name: 'run-0' }), ['000001']);
    assert.deepEqual(await ids({ name: 'run-5?' }), ['000053', '000052', '000051']);
    assert.deepEqual(await ids({ phases: ['queued'] }), ['000054', '000001']);
    const stopped = await fixture.client.list({ phases: ['stopped'] });
    assert.deepEqual([stopped.rows.length, stopped.more], [50, 2]);
    assert.equal((await fixture.client.list({ phases: ['stopped'], all: true })).rows.length, 52);

    const first = await fixture.client.list({ limit: 50, phases: ['stopped'] });
    assert.deepEqual([first.rows.length, first.rows[0]?.id, first.rows.at(-1)?.id], [50, '000053', '000004']);
    assert.deepEqual(await ids({ cursor: first.next ?? '', phases: ['stopped'] }), ['000003', '000002']);
    assert.equal((await fixture.client.list({ limit: 54 })).next, undefined);
    assert.deepEqual(await ids({ limit: 1, name: 'run-*', phases: ['queued'] }), ['000001'], 'beyond the first block');
    assert.deepEqual(await ids({ limit: 2, zone: 'us-east5-b' }), [], 'a local job is in no zone');
    assert.deepEqual(await ids({ createdSince: noon + day }), []);
    for (const wrong of [{ cursor: 'x' }, { limit: 0 }, { limit: 1.5 }])
      await assert.rejects(fixture.client.list(wrong), { code: exitCode.usage });
    const tpu = await fixture.create(tpuSpec());
    const { zone, accelerator } = (await fixture.client.list({ limit: 1 })).rows[0] ?? {};
    assert.deepEqual(await ids({ zone: zone ?? '', accelerator: accelerator ?? '' }), [tpu]);
    assert.deepEqual(await ids({ accelerator: generationOf(accelerator ?? '')?.name ?? '', limit: 5 }), [tpu]);
    assert.deepEqual(await ids({ accelerator: 'v2' }), []);

    const history = await fixture.client.events('000054', 0);
    assert.deepEqual(await fixture.client.events('000054', 0, 1), history.slice(0, 1));
  });

  test('stop and cancel report capacity that was not ready or is lost', async (t) => {
    const fixture = openFixture(t);
    for (const [allocation, attempt, expected] of [
      [
        { ...readyAllocation, readyAt: null, hosts: null, workers: null },
        {},
        'Its v5litepod-16 was not ready yet and is being released.',
      ],
      [
        { ...readyAllocation, lastObserved: { state: 'lost', detail: 'PREEMPTED', at: noon } },
        runningAttempt,
        'It keeps nothing: its v5litepod-16 is lost.',
      ],
    ] as const) {
      const id = await fixture.create(tpuSpec());
      await fixture.lives(id, (job) => withAttempts(aJob(job.spec), [allocation], [attempt]));
      const { message } = await fixture.client.sendCommand(id, 'stop', {});
      assert.equal(message, `Stopping job ${id} (vit). ${expected}`);
    }
    const id = await fixture.create(tpuSpec());
    const requested = { ...readyAllocation, readyAt: null, hosts: null, workers: null };
    await fixture.lives(id, (job) => withAttempts(aJob(job.spec), [requested], [{}]));
    const { message } = await fixture.client.sendCommand(id, 'cancel', {});
    assert.equal(message, `Cancelling job ${id} (vit). Its v5litepod-16 was not ready yet and is being released.`);
  });

  test('one cancel of several jobs cancels all of them, or none', async (t) => {
    const fixture = openFixture(t);
    const [first, second, other] = [
      await fixture.create(localSpec()),
      await fixture.create(localSpec()),
      await fixture.create(localSpec(), 'bob1'),
    ];
    const desired = async () => (await fixture.store.loadMany([first, second, other])).map(({ job }) => job.desired);
    await assert.rejects(fixture.client.sendCommand(first, 'cancel', { replaces: [second, other] }), /bob1/);
    assert.deepEqual(await desired(), ['running', 'running', 'running']);
    assert.equal((await fixture.client.sendCommand(first, 'cancel', {})).ok, true);
    const again = await fixture.client.sendCommand(first, 'cancel', { replaces: [second] });
    assert.match(again.message, /already being cancelled/);
    assert.deepEqual(await desired(), ['cancelled', 'cancelled', 'running']);
  });

  test('a command for a job that has changed since it was read changes nothing', async (t) => {
    const fixture = openFixture(t);
    const id = await fixture.create();
    const { revision } = await fixture.client.show(id);
    const sent = (verb: 'stop' | 'cancel', ifRevision: number) => fixture.client.sendCommand(id, verb, { ifRevision });
    const answers = await Promise.allSettled([sent('stop', revision), sent('cancel', revision)]);
    const refused = answers.filter((answer) => answer.status === 'rejected').map(({ reason }) => reason as JobmanError);
    assert.deepEqual(
      refused.map(({ message, code, errorCode, lines }) => [message, code, errorCode, lines]),
      [[`Job ${id} has changed since it was read, so the command was not given.`, 4, 'changed', ['jobman show 1']]],
    );
    const stored = await fixture.store.load(id);
    assert.equal((await refusal(sent('stop', revision))).errorCode, 'changed', 'even a command without effect');
    assert.deepEqual(await fixture.store.load(id), stored);
    assert.equal((await sent('cancel', (await fixture.client.show(id)).revision)).ok, true);
    const eve = fixture.clientOver(fixture.store, 'eve');
    assert.equal(
      (await eve.sendCommand(id, 'cancel', { ifRevision: 0 })).refusedFor,
      'ada',
      'the permission comes first',
    );
  });

  test('stop reports the kept capacity, its hourly cost and how to release it', async (t) => {
    const fixture = openFixture(t);
    const id = await fixture.create(tpuSpec());
    await fixture.lives(id, (job) => withAttempts(aJob(job.spec), [readyAllocation], [runningAttempt]));
    const answer = await fixture.client.sendCommand(id, 'stop', {});
    assert.deepEqual(answer, {
      id,
      ok: true,
      exitCode: 0,
      message:
        'Stopping job 000001 (vit). It keeps its v5litepod-16, which costs about $2.50/h. Release it: jobman stop 1 --release',
    });
    assert.deepEqual(fixture.hinted, [id, id]);
    assert.deepEqual(await fixture.store.dueJobs(fixture.clock, 10), [id]);
    assert.match(readFileSync(join(fixture.home, 'jobs/ada/000001/logs/job.log'), 'utf8'), /ada requested stop/);

    const again = await fixture.client.sendCommand(id, 'stop', {});
    assert.match(again.message, /is already stopping\. It keeps its v5litepod-16/);
    assert.equal(fixture.hinted.length, 2, 'a command without effect wakes no controller');

    const released = await fixture.client.sendCommand(id, 'stop', { release: true });
    assert.equal(released.message, 'Stopping job 000001 (vit). Its TPU is being released.');
  });

  test('a command after the end reports its remaining effect', async (t) => {
    const fixture = openFixture(t);
    const finished = (job: Job, verdict: 'succeeded' | 'stopped', allocation = readyAllocation): Job => ({
      ...withAttempts(
        aJob(job.spec, { desired: verdict === 'stopped' ? 'stopped' : 'running' }),
        [allocation],
        [runningAttempt],
      ),
      finish: { at: noon, verdict, reason: verdict },
    });
    const kept = await fixture.create(tpuSpec());
    await fixture.lives(kept, (job) => finished(job, 'succeeded'));
    const sendAndRead = async (id: string, verb: 'cancel' | 'stop') => {
      const { ok, message } = await fixture.client.sendCommand(id, verb, { release: true });
      return [ok, message];
    };
    const letGo = 'Job 000001 (vit) has already succeeded. Its TPU is being released.';
    assert.deepEqual(await sendAndRead(kept, 'cancel'), [true, letGo]);
    assert.deepEqual(await sendAndRead(kept, 'cancel'), [true, letGo], 'twice is not a mistake');
    assert.equal((await fixture.client.show(kept)).phase, 'succeeded');

    const stopped = await fixture.create(tpuSpec());
    await fixture.lives(stopped, (job) => finished(job, 'stopped'));
    assert.deepEqual(await sendAndRead(stopped, 'stop'), [
      true,
      'Job 000002 (vit) has already been stopped. Its TPU is being released.',
    ]);

    const empty = await fixture.create(tpuSpec());
    await fixture.lives(empty, (job) =>
      finished(job, 'succeeded', { ...readyAllocation, releasedAt: noon, goneAt: noon }),
    );
    assert.deepEqual(await sendAndRead(empty, 'cancel'), [
      false,
      'Job 000003 (vit) has already succeeded and holds no capacity.',
    ]);
  });

  test('resume mentions no checkpoint without a folder, and delete no capacity without any', async (t) => {
    const fixture = openFixture(t);
    const withFolder = (spec: JobSpec): JobSpec => ({ ...spec, command: { ...spec.command, checkpointDir: '~/ck' } });
    const answers: string[] = [];
    for (const spec of [withFolder(tpuSpec()), localSpec()]) {
      const id = await fixture.create({ ...spec, name: 'vit' });
      await fixture.lives(id, (job) => stoppedLife(job.spec));
      for (const verb of ['resume', 'delete'] as const)
        answers.push((await fixture.client.sendCommand(id, verb, {})).message);
    }
    assert.deepEqual(answers, [
      'Resuming job 000001 (vit) from its last checkpoint.',
      'Deleting job 000001 (vit). It leaves the list once its TPU is released.',
      'Resuming job 000002 (vit). Its manifest has no job.checkpoint_dir, so the program must find its own checkpoint.',
      'Deleting job 000002 (vit).',
    ]);
  });

  test('delete of a finished job without capacity reports that it is deleted', async (t) => {
    const fixture = openFixture(t);
    const id = await fixture.create({ ...localSpec(), name: 'vit' });
    await fixture.lives(id, (job) => stoppedLife(job.spec));
    const answer = await fixture.client.sendCommand(id, 'delete', {});
    assert.deepEqual([answer.ok, answer.message], [true, 'Deleted job 000001 (vit).']);
    assert.deepEqual((await fixture.client.list({ all: true })).rows, []);
  });

  test('delete of a job whose output is still being copied lets the controller copy the rest', async (t) => {
    const fixture = openFixture(t);
    const [copying, copied] = [await fixture.create(), await fixture.create()];
    await fixture.lives(copying, (job) => stoppedLife(job.spec), fixture.clock - second);
    await fixture.lives(copied, (job) => stoppedLife(job.spec));
    for (const id of [copying, copied]) await fixture.client.sendCommand(id, 'delete', {});
    assert.deepEqual(await fixture.store.dueJobs(fixture.clock, 10), [copying]);
  });

  test('a manifest instead of a job points to create', async (t) => {
    const fixture = openFixture(t);
    await assert.rejects(fixture.client.show('good.yaml'), (error: { message: string; lines: readonly string[] }) => {
      assert.equal(error.message, 'There is no job named "good.yaml".');
      assert.match(error.lines.join(), /^jobman create good\.yaml /);
      return true;
    });
  });

  test('a job of another user is refused with a message and exit code', async (t) => {
    const fixture = openFixture(t);
    const id = await fixture.create(localSpec(), 'bob');
    const answer = await fixture.client.sendCommand(id, 'cancel', {});
    assert.deepEqual([answer.ok, answer.exitCode], [false, 4]);
    assert.match(answer.message, /^Job 000001 \(iris\) belongs to bob/);
    assert.equal((await fixture.client.show(id)).desired, 'running');
  });

  test('a command and a commit of the controller at the same time are both kept', async (t) => {
    const fixture = openFixture(t);
    const id = await fixture.create();
    const { store } = fixture;
    // The controller commits between the client's read and its write, three times.
    let meetings = 0;
    const busy: Store = {
      ...store,
      async commit(commit) {
        if (commit.epoch === null && meetings < 3) {
          meetings += 1;
          await fixture.lives(id, (job) => withAttempts(job, [{ name: `pass ${meetings}` }], [{}]));
        }
        return store.commit(commit);
      },
    };
    const client = fixture.clientOver(busy);
    assert.equal((await client.sendCommand(id, 'cancel', {})).ok, true);
    const stored = await store.load(id);
    assert.equal(stored?.job.desired, 'cancelled');
    assert.equal(stored?.job.allocations[0]?.name, 'pass 3');
  });

  test('a forced delete removes the job from the list and records its orphans', async (t) => {
    const fixture = openFixture(t);
    const id = await fixture.create(tpuSpec());
    await fixture.lives(id, (job) => withAttempts(aJob(job.spec), [readyAllocation], [runningAttempt]));
    const answer = await fixture.client.sendCommand(id, 'delete', { force: true });
    assert.match(answer.message, /^Deleted job .* Its TPU may still exist .* Release it: jobman gc$/);
    assert.deepEqual((await fixture.client.list({ all: true })).rows, []);
    const [orphan, ...others] = await fixture.store.orphans();
    assert.deepEqual(others, []);
    assert.equal(orphan?.resource, 'projects/lab/locations/us-west4-a/queuedResources/vit-000042-1');
    assert.equal(orphan?.installation, await fixture.store.installationId());
  });

  test('a forced delete of a local job lets the controller end its program', async (t) => {
    const fixture = openFixture(t);
    const id = await fixture.create(localSpec());
    await fixture.lives(id, (job) =>
      withAttempts(aJob(job.spec), [{ ...readyAllocation, workers: 1 }], [runningAttempt]),
    );
    const answer = await fixture.client.sendCommand(id, 'delete', { force: true });
    assert.match(answer.message, /^Deleted job .* Its program is being ended\.$/);
    assert.deepEqual(await fixture.store.dueJobs(fixture.clock, 10), [id]);

    const over = await fixture.create(localSpec());
    await fixture.lives(over, (job) =>
      withAttempts(aJob(job.spec), [{ ...readyAllocation, workers: 1 }], [endedAttempt('stopped', { message: '' })]),
    );
    await fixture.client.sendCommand(over, 'delete', { force: true });
    assert.deepEqual(await fixture.store.dueJobs(fixture.clock, 10), [id], 'an ended program needs no controller');
  });

  test('why and show report the used slots and the jobs ahead of a local job, of all owners', async (t) => {
    const fixture = openFixture(t);
    for (const owner of ['ada', 'bob']) {
      const id = await fixture.create(localSpec(), owner);
      await fixture.lives(id, (job) =>
        withAttempts(aJob(job.spec, { owner }), [{ ...readyAllocation, workers: 1 }], [runningAttempt]),
      );
    }
    await fixture.create(localSpec(), 'bob');
    const id = await fixture.create();
    const sentence = `Job ${id} is queued: 2 of 2 slots on this machine in use, 1 job ahead.`;
    assert.equal((await fixture.client.why(id)).message, sentence);
    assert.equal((await fixture.client.show(id)).why.message, sentence);
  });

  test('show has the attempts, the allocations with their addresses, and the newest line of each worker', async (t) => {
    const fixture = openFixture(t);
    const id = await fixture.create(tpuSpec());
    await fixture.lives(id, (job) => withAttempts(aJob(job.spec), [readyAllocation], [runningAttempt]));
    const logs = join(fixture.home, 'jobs/ada/000001/logs/attempt_1');
    mkdirSync(logs, { recursive: true });
    writeFileSync(join(logs, 'command_worker_0.log'), 'step 1\nstep 2\r\n\n10%\r20%\r');
    fixture.clock = noon + hour;
    utimesSync(join(logs, 'command_worker_0.log'), 0, (fixture.clock - minute) / 1000);

    const view = await fixture.client.show(id);
    assert.equal(view.worker0Address, '192.0.2.0');
    assert.deepEqual(
      view.attempts.map(({ attempt, workers, reason }) => [attempt, workers, reason]),
      [[1, [0, 1, 2, 3], null]],
    );
    assert.deepEqual(view.allocations[0]?.workers[3], { worker: 3, internalIp: '10.0.0.3', externalIp: '192.0.2.3' });
    assert.equal(view.allocations[0]?.state, 'ready');
    assert.deepEqual(view.workers[0], {
      worker: 0,
      address: '192.0.2.0',
      message: 'running',
      logAgeMs: minute,
      lastLine: '20%',
    });
    assert.deepEqual([view.workers[1]?.logAgeMs, view.workers[1]?.lastLine], [null, null]);
    assert.equal(view.why.message, 'Job 000001 has been running for 58m on 4 workers.');
  });

  test('show names the last known checkpoint of a TPU job and its folder in the bucket, unless it has started over', async (t) => {
    const fixture = openFixture(t);
    const spec = tpuSpec();
    const command = { ...spec.command, checkpointDir: 'gs://my-bucket/ck' };
    const id = await fixture.create({ ...spec, command });
    const lost = { ...runningAttempt, ...endedAttempt('preempted', { message: 'gone' }, noon) };
    const resumedFromEntry = { startMode: 'resume', resumedFrom: { entry: 'step_9', savedAt: noon } } as const;
    const resumed = { ...runningAttempt, ...resumedFromEntry, allocation: 1 };
    const show = async (...attempts: Parameters<typeof withAttempts>[2]) => {
      await fixture.lives(id, (job) => withAttempts(aJob(job.spec), [readyAllocation], attempts));
      const { checkpointUrl, resumedFrom } = await fixture.client.show(id);
      return { checkpointUrl, resumedFrom };
    };
    assert.deepEqual(await show(lost, resumed), {
      checkpointUrl: 'gs://my-bucket/ck',
      resumedFrom: { attempt: 2, name: 'step_9', savedAt: noon },
    });
    const over = await show(
      lost,
      { ...lost, ...resumedFromEntry, allocation: 1 },
      { ...runningAttempt, startMode: 'rerun', allocation: 1 },
    );
    assert.equal(over.resumedFrom, null);
  });

  test('logs returns the files of the newest started attempt, or of the query', async (t) => {
    const fixture = openFixture(t);
    const id = await fixture.create(tpuSpec());
    await fixture.lives(id, (job) =>
      withAttempts(
        aJob(job.spec),
        [{ ...readyAllocation, releasedAt: noon, goneAt: noon }, {}],
        [{ ...runningAttempt, ...endedAttempt('preempted', { message: 'gone' }) }, {}],
      ),
    );
    const logFiles = createLogFiles({ home: fixture.home, history: (one, after) => fixture.store.events(one, after) });
    const stored = await fixture.store.load(id);
    assert.ok(stored);
    for (const worker of [10, 2, 0])
      await logFiles.append(stored.job, { attempt: 1, worker, file: 'log' }, Buffer.from('hello\n'));
    await logFiles.appendStepLog(stored.job, 'docker', 1, Buffer.from('pulled\n'));

    const newest = await fixture.client.logs(id, {});
    assert.deepEqual(
      newest.map(({ id: log, worker, attempt, step, size }) => [log, worker, attempt, step, size]),
      [
        ['attempt_1/command_worker_0', 0, 1, null, 6],
        ['attempt_1/command_worker_2', 2, 1, null, 6],
        ['attempt_1/command_worker_10', 10, 1, null, 6],
      ],
    );
    assert.deepEqual(
      (await fixture.client.logs(id, { worker: 2 })).map(({ worker }) => worker),
      [2],
    );
    assert.deepEqual(await fixture.client.logs(id, { worker: 3 }), []);
    assert.deepEqual(await fixture.client.logs(id, { attempt: 2 }), []);
    assert.deepEqual(
      (await fixture.client.logs(id, { step: 'docker' })).map(({ worker }) => worker),
      [1],
    );
    assert.equal((await fixture.client.logs(id, { step: 'job' })).length, 1);
    assert.deepEqual(await fixture.client.logs(id, { step: 'tpu' }), []);

    const all = await fixture.client.logs(id, { all: true });
    assert.deepEqual(
      all.map((log) => log.id),
      ['job', 'docker_worker_1', ...newest.map((log) => log.id)],
    );

    assert.match((await refusal(fixture.client.logs(id, { attempt: 7 }))).message, /no attempt 7; it has 2 attempts/);
    assert.match(
      (await refusal(fixture.client.logs(id, { step: 'dokcer' }))).message,
      /has no step "dokcer"\. Did you mean docker\?/,
    );
    assert.match((await refusal(fixture.client.logs(id, { worker: 4 }))).message, /not run on worker 4/);
  });

  test('readLog returns a part from an offset on, and is complete at the end of what an ended program printed', async (t) => {
    const fixture = openFixture(t);
    const id = await fixture.create(tpuSpec());
    const ended = { ...runningAttempt, ...endedAttempt('preempted', { message: 'gone' }) };
    await fixture.lives(id, (job) => withAttempts(aJob(job.spec), [readyAllocation, {}], [ended, runningAttempt]));
    const logFiles = createLogFiles({ home: fixture.home, history: (one, after) => fixture.store.events(one, after) });
    const { job } = (await fixture.store.load(id)) ?? {};
    assert.ok(job);
    const text = 'step 1\nstep 2\n';
    for (const attempt of [1, 2]) await logFiles.append(job, { attempt, worker: 0, file: 'log' }, Buffer.from(text));
    const read = async (log: string, from: number, maxBytes: number) => {
      const { bytes, ...rest } = await fixture.client.readLog(id, log, from, maxBytes);
      return { text: Buffer.from(bytes).toString(), ...rest };
    };
    const of = (attempt: number) => `attempt_${attempt}/command_worker_0`;
    fixture.clock = Date.now() + hour;
    assert.deepEqual(await read(of(1), 7, 4), { text: 'step', from: 7, end: 14, isComplete: false });
    assert.deepEqual(await read(of(1), 7, 100), { text: 'step 2\n', from: 7, end: 14, isComplete: true });
    assert.deepEqual(await read(of(1), 14, 100), { text: '', from: 14, end: 14, isComplete: true });
    assert.deepEqual(await read(of(2), 0, 100), { text: text, from: 0, end: 14, isComplete: false });
    const parts = [of(2), of(1)].map((log) => ({ id: log, from: 7, maxBytes: 4 }));
    const several = await Array.fromAsync(fixture.client.readLogs(id, parts));
    assert.deepEqual(
      several.map(({ bytes, from }) => [Buffer.from(bytes).toString(), from]),
      [
        ['step', 7],
        ['step', 7],
      ],
    );
    const search = async (searched: string | null, direction: LogSearch['direction'], from: number) => {
      const logs = [of(1), of(2)].map((log) => ({ id: log, from }));
      return (await Array.fromAsync(fixture.client.searchLogs(id, { text: searched, direction, logs }))).at(-1);
    };
    const found = (offset: number) => ({ kind: 'result', line: { id: of(1), offset, time: null } });
    assert.deepEqual(await search('TEP 2', 'next', 0), found(7));
    assert.deepEqual(await search('step', 'next', 7), found(7));
    assert.deepEqual(await search('step', 'previous', 7), found(0));
    assert.deepEqual(await search('.', 'next', 0), { kind: 'result', line: null }, 'not a pattern');
    assert.deepEqual(await search(null, 'next', 0), { kind: 'result', line: null }, 'no line reports an error');
    const each = {
      text: '2',
      direction: 'next',
      logs: [of(1), of(2)].map((log) => ({ id: log, from: 0 })),
      inEach: true,
    };
    assert.deepEqual(
      (await Array.fromAsync(fixture.client.searchLogs(id, each as LogSearch))).filter(({ kind }) => kind === 'result'),
      [of(1), of(2)].map((log) => ({ kind: 'result', line: { id: log, offset: 7, time: null } })),
    );
    assert.deepEqual(
      (await fixture.client.logs(id, { attempt: 1 })).map(({ isComplete }) => isComplete),
      [true],
    );
    for (const wrong of [
      'attempt_3/command_worker_0',
      'attempt_1/../../config',
      '../config.yaml',
      'other_worker_0',
      '',
    ])
      assert.equal((await refusal(read(wrong, 0, 10))).code, 3, wrong);
    assert.equal((await refusal(read(of(1), -1, 10))).code, 2);
    assert.equal((await refusal(read(of(1), 0, 0.5))).code, 2);
  });

  test(
    'changesSince yields events and grown logs as they happen, and continues after a cursor',
    { timeout: 20_000 },
    async (t) => {
      const fixture = openFixture(t);
      const id = await fixture.create(tpuSpec());
      await fixture.lives(id, (job) => withAttempts(aJob(job.spec), [readyAllocation], [runningAttempt]));
      const logFiles = createLogFiles({
        home: fixture.home,
        history: (one, after) => fixture.store.events(one, after),
      });
      const { job } = (await fixture.store.load(id)) ?? {};
      assert.ok(job);
      const print = (text: string) => logFiles.append(job, { attempt: 1, worker: 0, file: 'log' }, Buffer.from(text));
      fixture.clock = Date.now() - hour;
      const seen: Change[] = [];
      for await (const change of fixture.client.changesSince(null, [`${Number(id)}`])) {
        seen.push(change);
        if (seen.length === 1) await print('step 1\n');
        if (seen.length === 2) await fixture.client.sendCommand(id, 'stop', {});
        if (seen.length >= 4) break;
      }
      const described = (changes: readonly Change[]) =>
        changes.map((one) =>
          one.kind === 'event' ? one.event.kind : one.kind === 'log' ? `${one.log.id} ${one.log.size}` : one.kind,
        );
      assert.deepEqual(described(seen), ['jobs', 'attempt_1/command_worker_0 7', 'command_received', 'jobs']);
      await print('step 2\n');
      const later: Change[] = [];
      for await (const change of fixture.client.changesSince(seen[1]?.cursor ?? null)) {
        later.push(change);
        if (change.kind === 'log') break;
      }
      assert.deepEqual(described(later), ['command_received', 'jobs', 'attempt_1/command_worker_0 14']);
      const first = fixture.client.changesSince('x')[Symbol.asyncIterator]();
      assert.match((await refusal(first.next())).message, /is not a cursor/);
      const named = fixture.client.changesSince(null, [job.spec.name])[Symbol.asyncIterator]();
      assert.match((await refusal(named.next())).message, /is not the id of a job/);
    },
  );

  suite('a ticket', () => {
    const hosts = [
      { internalIp: '10.0.0.1', externalIp: '192.0.2.1' },
      { internalIp: null, externalIp: null },
    ];
    const routes: WorkerRoutes = {
      requireOriginal: () => Promise.resolve(),
      removeRunFolders: async () => [],
      connect: () => assert.fail('a ticket makes no connection'),
      login: async ({ allocation }, worker) => {
        const host = allocation.hosts?.[worker]?.externalIp ?? null;
        if (host === null) throw new JobmanError('no address yet', exitCode.unreachable);
        const keys = { privateKey: null, pinName: `w${worker}`, hostKeys: ['ssh-ed25519 AAAA'], addKey: null };
        return { worker, host, port: 22, user: 'ada', usesUserConfig: true, ...keys };
      },
    };

    test('has the login to each worker, or the reason why there is none, if asked for', async (t) => {
      const fixture = openFixture(t, { workerRoutes: async () => routes });
      const id = await fixture.create(tpuSpec());
      await fixture.lives(id, (job) => withAttempts(aJob(job.spec), [{ ...readyAllocation, hosts }], [runningAttempt]));
      const { job } = (await fixture.store.load(id)) ?? {};
      const ticket = { job: id, allocation: 1, workers: 2, container: `${job?.installation}/${id}` };
      assert.deepEqual(await fixture.client.workerTicket('vit'), { ...ticket, logins: null });
      const { logins } = await fixture.client.workerTicket('vit', { logins: true });
      assert.deepEqual(logins, [
        {
          worker: 0,
          host: '192.0.2.1',
          port: 22,
          user: 'ada',
          privateKey: null,
          pinName: 'w0',
          hostKeys: ['ssh-ed25519 AAAA'],
          usesUserConfig: true,
          addKey: null,
        },
        { worker: 1, problem: 'no address yet' },
      ]);
    });

    test('is refused with the reason without workers', async (t) => {
      const fixture = openFixture(t, { workerRoutes: async () => routes });
      const [waiting, over, local] = [
        await fixture.create(tpuSpec()),
        await fixture.create(tpuSpec()),
        await fixture.create(localSpec()),
      ];
      const gone = { ...readyAllocation, releasedAt: noon, goneAt: noon };
      await fixture.lives(over, (job) => stoppedLife(job.spec, gone));
      for (const [id, message] of [
        [waiting, 'Job 000001 has no workers yet. Explain: jobman why 1'],
        [over, 'Job 000002 has finished (stopped) and has no workers. Resume: jobman resume 2'],
        [local, 'Job 000003 is a local job and has no remote workers.'],
      ] as const)
        assert.equal((await refusal(fixture.client.workerTicket(id))).message, message);
    });
  });

  test('a step that is run again is recorded, also on workers where its reader did not wait for its end', async (t) => {
    let rowsAtStart: Promise<readonly AuditRow[]> | undefined;
    const runner: StepRunner = {
      async run(worker, { step }, { onOutput }) {
        rowsAtStart ??= fixture.client.audit({ limit: 1 });
        await onOutput(Buffer.from(`${step.name} on ${worker}`));
        if (worker > 1) await new Promise(() => undefined);
        return worker === 0 ? { kind: 'done' } : { kind: 'failed', evidence: { message: 'no room', exitCode: 3 } };
      },
      close: () => undefined,
    };
    const fixture = openFixture(t, { openStepRunner: async () => runner });
    const id = await fixture.create(tpuSpec());
    await fixture.lives(id, (job) => stoppedLife(job.spec));
    const seen: unknown[] = [];
    for await (const progress of fixture.client.runStep('vit', 'docker', { force: true })) {
      seen.push(progress.kind === 'output' ? Buffer.from(progress.bytes).toString() : progress);
      if (seen.length === 7) break;
    }
    assert.deepEqual(seen.slice(0, 5), [
      { kind: 'begun', job: id, workers: [0, 1, 2, 3] },
      ...[0, 1, 2, 3].map((worker) => `docker on ${worker}`),
    ]);
    assert.deepEqual(seen.slice(5), [
      { kind: 'ended', worker: 0, message: null, exitCode: 0 },
      { kind: 'ended', worker: 1, message: 'no room', exitCode: 3 },
    ]);
    const row = { actor: 'ada', operation: 'setup', outcome: 'allowed', detail: { step: 'docker', force: true } };
    const [written] = (await rowsAtStart) ?? [];
    assert.partialDeepStrictEqual(written, row);
    assert.deepEqual((await fixture.client.audit({ limit: 1 }))[0], written);
    const left = 'ada detached before it ended';
    const { event } = (await fixture.client.events(id, 0)).at(-1) ?? {};
    assert.deepEqual(event, {
      kind: 'step_run_manually',
      at: noon,
      by: 'ada',
      allocation: 1,
      step: 'docker',
      force: true,
      workers: 4,
      failed: [
        { worker: 1, message: 'no room' },
        { worker: 2, message: left },
        { worker: 3, message: left },
      ],
    });
  });

  test('clean removes the files of finished jobs only', async (t) => {
    const fixture = openFixture(t);
    const [over, holding, live, foreign] = [
      await fixture.create(),
      await fixture.create(tpuSpec()),
      await fixture.create(),
      await fixture.create(localSpec(), 'bob'),
    ];
    const gone = { ...readyAllocation, hosts: null, releasedAt: noon, goneAt: noon };
    await fixture.lives(over, (job) => stoppedLife(job.spec, gone));
    await fixture.lives(holding, (job) => stoppedLife(job.spec));
    await fixture.lives(foreign, (job) => ({ ...stoppedLife(job.spec, gone), owner: 'bob' }));
    mkdirSync(join(fixture.home, 'runs', over), { recursive: true });
    const folder = (id: string, owner = 'ada') => join(fixture.home, 'jobs', owner, id);

    assert.match((await fixture.client.clean(live)).message, /has not finished/);
    assert.match((await fixture.client.clean(holding)).message, /still holds its TPU/);
    assert.match((await fixture.client.clean(foreign)).message, /belongs to bob/);

    const cleanable = async () => (await fixture.client.listCleanable()).map(({ id }) => id);
    assert.deepEqual(await cleanable(), [over]);
    assert.equal((await fixture.client.clean(over)).ok, true);
    assert.equal(existsSync(folder(over)), false);
    assert.equal(existsSync(join(fixture.home, 'runs', over)), false);
    assert.deepEqual([folder(holding), folder(live), folder(foreign, 'bob')].map(existsSync), [true, true, true]);
    assert.deepEqual(await cleanable(), []);
    assert.match((await fixture.client.clean(over)).message, /no files left/);
    assert.equal((await fixture.client.show(over)).id, over, 'its record stays');
  });

  test('clean tries a machine again that did not answer', async (t) => {
    const kept = [['worker 0: gpu1 does not answer'], [], []];
    const workerRoutes = async () => ({
      requireOriginal: () => Promise.resolve(),
      removeRunFolders: async () => kept.shift() ?? assert.fail('it was called too often'),
      login: () => assert.fail('a clean needs no login'),
      connect: () => assert.fail('a clean makes no connection'),
    });
    const pools = async () => [{ name: 'gpu1', ssh: null, slots: 1, gpus: null }];
    const fixture = openFixture(t, { workerRoutes, pools });
    const id = await fixture.create(
      localSpec({ capacity: { kind: 'hosts', ownership: 'persistent', hosts: ['gpu1'] } }),
    );
    await fixture.lives(id, (job) => stoppedLife(job.spec, { ...readyAllocation, releasedAt: noon, goneAt: noon }));
    const cleanable = async () => (await fixture.client.listCleanable()).length;
    assert.match((await fixture.client.clean(id)).message, /not those on worker 0: gpu1 does not answer/);
    assert.equal(await cleanable(), 1);
    assert.match((await fixture.client.clean(id)).message, /^Removed the files/);
    assert.equal(await cleanable(), 0);
    assert.match((await fixture.client.clean(id)).message, /no files left/);
  });

  test('a plan has the requests and the rules, and stores nothing', async (t) => {
    const fixture = openFixture(t);
    const plan = await fixture.client.plan(tpuSpec());
    assert.equal(plan.pricePerHourUsd, 2.5);
    assert.match(
      plan.requests.join('\n'),
      /queued resource and node vit-<job id>-1 in us-west4-a of lab\nv5litepod-16, spot/,
    );
    assert.deepEqual(
      plan.steps.map((step) => step.split(',')[0]),
      ['ssh', 'docker'],
    );
    assert.match(plan.command, /^on every worker:\npython3 train\.py$/);
    assert.match(plan.rules.join('\n'), /preset pre: 100 preemptions allowed\npreempted -> resume on a new allocation/);
    assert.match(plan.limits.join('\n'), /stopped with TERM, killed after 30s/);
    assert.match((await fixture.client.plan(localSpec())).requests.join(), /a slot on this machine$/);
    assert.deepEqual(readdirSync(join(fixture.home, '..')).includes('home'), false, 'not even the home is made');
    const slots = (await fixture.client.hostQueues())[0]?.slots ?? 0;
    for (let job = 0; job <= slots; job += 1) await fixture.create(localSpec());
    assert.match(
      (await fixture.client.plan(localSpec())).requests.join('\n'),
      new RegExp(`\na wait on this machine: 0 of ${slots} slots? used, ${slots + 1} jobs before this one$`),
    );
    const { rows, more, hosts } = await fixture.client.queue();
    assert.deepEqual([rows.length, more, hosts], [slots + 1, 0, await fixture.client.hostQueues()]);
    assert.deepEqual(rows.at(-1)?.queuePosition, {
      pool: 'localhost',
      position: slots + 1,
      queueLength: slots + 1,
      gpusAhead: null,
    });
  });

  test('a machine of the controller without a shell refuses a job and its plan', async (t) => {
    const { client } = openFixture(t, { hasShell: () => false });
    const [created, planned] = [client.create({ spec: localSpec(), manifest: '' }), client.plan(localSpec())];
    for (const asking of [created, planned]) {
      const { code, message } = await refusal(asking);
      assert.equal(code, exitCode.usage);
      assert.match(message, /^Nothing was created: the machine of the controller has no shell/);
    }
    assert.equal((await client.plan(tpuSpec())).name, 'vit');
  });

  test('reading an empty home finds no jobs and creates no file', async (t) => {
    const fixture = openFixture(t);
    assert.deepEqual(await fixture.client.list({}), { rows: [], more: 0, notes: [] });
    assert.equal((await refusal(fixture.client.show('1'))).code, 3);
    assert.equal(await fixture.client.installationId(), null);
    assert.equal(await fixture.client.isControllerRunning(), true);
    await fixture.client.checkLabCommand('book');
    assert.equal(existsSync(fixture.home), false);
  });

  test('a closed client has freed its connections, and opens them again for a later call', async (t) => {
    const fixture = openFixture(t);
    const { client } = fixture;
    const id = await fixture.create();
    await client.close();
    await client.close();
    assert.equal((await client.show(id)).id, id);
  });

  test('contents and a named secret are stored for the actor, and the secret is deleted again', async (t) => {
    const { client } = openFixture(t);
    assert.equal((await client.whoAmI()).user, 'ada');
    const content = Buffer.from('lr: 3e-4');
    const digest = digestOf(content);
    await client.putBlobs([{ digest, content }]);
    assert.deepEqual(await client.hasBlobs([digest]), [digest]);
    assert.equal(await client.setSecret('wandb', content), 'added');
    await client.deleteSecret('wandb');
    assert.deepEqual(await client.secrets(), []);
  });

  test('a recipient gets a test message, and a failure is an answer', async (t) => {
    const { client } = openFixture(t, {
      channels: async () => ({
        settings: { ...defaultSettings(1).notify, to: ['slack'] },
        send: async ({ recipient }) =>
          recipient === 'slack' ? { kind: 'sent', detail: 'ok' } : { kind: 'failed', error: 'no such channel' },
        secretProblems: async () => new Map(),
        openSecrets: async () => [{ host: 'login', path: '/home/ada/slack-url' }],
      }),
    });
    assert.deepEqual(
      (await client.recipients()).map(({ recipient, problem }) => [recipient, problem]),
      [['slack', 'no such channel is set (notify.channels)']],
    );
    assert.deepEqual(await client.testRecipient('slack'), { isSent: true, message: 'ok' });
    assert.deepEqual(await client.testRecipient('gone'), { isSent: false, message: 'no such channel' });
    assert.equal((await client.openSecrets())[0]?.host, 'login');
  });

  test('a manifest becomes a spec once the files and variables that it names are sent, and all its problems are one error', async (t) => {
    const { client } = openFixture(t);
    const text = [
      'job: {name: iris, env: {A: "${oc.env:A}"}, secrets: {TOKEN: ./token}, files: ["data.txt:d.txt"]}',
      'tpu: {project: my-project, accelerator: v4-8, zone: us-central2-b}',
      'command: {cmd: ls}',
    ].join('\n');
    const request = { text, folder: '/home/ada/work', home: '/home/ada', file: 'train.yaml' };
    const first = await client.readManifest(request);
    assert.ok(first.kind === 'wanted');
    assert.deepEqual(new Set(first.paths), new Set(['/home/ada/work/token', '/home/ada/work/data.txt']));
    assert.deepEqual(first.variables, ['A']);
    const file = { kind: 'file', bytes: 3, isExecutable: false } as const;
    const described = {
      ...request,
      variables: { A: 'b' },
      files: { '/home/ada/work/token': file, '/home/ada/work/data.txt': file },
    };
    const second = await client.readManifest(described);
    assert.deepEqual(second, { kind: 'wanted', paths: [], contents: ['/home/ada/work/data.txt'], variables: [] });
    const base64 = Buffer.from('abc').toString('base64');
    const whole = { ...described, files: { ...described.files, '/home/ada/work/data.txt': { ...file, base64 } } };
    const read = await client.readManifest({ ...whole, sets: ['job.name=flower'] });
    assert.ok(read.kind === 'spec');
    assert.deepEqual(
      [read.spec.name, read.spec.command.env['A'], read.secrets],
      ['flower', 'b', [{ secret: 'TOKEN', path: '/home/ada/work/token' }]],
    );
    assert.deepEqual(await client.hasBlobs([digestOf(Buffer.from('abc'))]), [digestOf(Buffer.from('abc'))]);

    const wrong = { ...request, text: 'local: {}\njob: {nam: a, max_runtime: -1}\ncommand: {cmd: ls}\n' };
    await assert.rejects(client.readManifest(wrong), ({ code, lines, problems }: JobmanError) => {
      assert.deepEqual([code, problems.map(({ key }) => key)], [exitCode.usage, ['job.nam', 'job.max_runtime']]);
      assert.match(lines[0] ?? '', /^train\.yaml:2:7: job\.nam: Unknown key/);
      return true;
    });
    for (const long of ['#'.repeat(2 ** 19), '[a]\n'.repeat(20_000)])
      await assert.rejects(client.readManifest({ ...request, text: long }), /too large: a server parses up to 256 KiB/);
  });

  test('a text without its folder becomes a spec if it names nothing of its machine, else each such name is a problem', async (t) => {
    const { client } = openFixture(t);
    const tpu = 'tpu: {project: emulator, accelerator: v4-8, zone: us-central2-b}';
    const read = await client.readManifest({ text: `${tpu}\ncommand: {cmd: ls}` });
    assert.ok(read.kind === 'spec');
    assert.equal((await client.plan(read.spec)).typicalWait, null);
    // The folder is on the machine of the controller, which may have it.
    const local = await client.readManifest({ text: 'local: {workdir: /data/vit}\ncommand: {cmd: ls}' });
    assert.ok(local.kind === 'spec');
    assert.equal(local.spec.command.workdir, '/data/vit');

    const problems = async (text: string) => {
      const error: unknown = await client.readManifest({ text }).catch((caught: unknown) => caught);
      assert.ok(error instanceof JobmanError);
      return error.problems.map(({ line, key, message }) => `${line} ${key}: ${message}`);
    };
    const sent =
      'only the text of the manifest was sent; to send its files too, create the job on your machine: jobman create FILE';
    const absolute = 'must be an absolute path: the folder of the manifest is not known';
    const named = 'job: {workdir: ., files: [train.py], secrets: {A: ~/.token, B: env}, env: {C: "${oc.env:C}"}}';
    assert.deepEqual(await problems(`${named}\n${tpu}\ncommand: {cmd: ls}`), [
      `1 job.workdir: /… cannot be read: ${sent}`,
      `1 job.files[0]: train.py cannot be read: ${sent}`,
      '1 job.secrets.A: names a file of your machine; store its content with jobman secret set NAME, and write secret:NAME',
      '1 job.secrets.B: the environment variable B is not set on this machine',
      '1 job.env.C: the environment variable C is not set; write a default after a comma',
    ]);
    assert.deepEqual(await problems('local: {}\njob: {checkpoint_dir: out}\ncommand: {cmd: ls}'), [
      `3 command.workdir: ${absolute}`,
      `2 job.checkpoint_dir: ${absolute}`,
    ]);
  });

  test('the hosts and the own prices of the settings are shown', async (t) => {
    const { client } = openFixture(t);
    assert.deepEqual([(await client.hosts()).map(({ name }) => name), await client.ownPrices()], [['localhost'], []]);
  });

  test('every method has answered over JSON', () => {
    const methods = Object.keys(open(() => Promise.reject(new Error('no actor')), {} as never));
    assert.deepEqual(
      methods.filter((method) => !answered.has(method)),
      [],
    );
  });
}
