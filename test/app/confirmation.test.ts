// Requests that need no confirmation: by zone, type, pricing, day and the chips in use.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { checkRequest, warningsFor, withResumeFrom } from '../../src/app/confirmation.ts';
import { heldCapacity, type Grant, type UserSpending } from '../../src/core/policy/grants.ts';
import type { GuardedRequest, GuardFacts } from '../../src/core/policy/guards.ts';
import type { Job } from '../../src/core/model/job.ts';
import { type JobSpec, type TpuSpec, jobIdPlaceholder, type CommandSpec } from '../../src/core/model/spec.ts';
import { aJob, withAttempts, localSpec, noon, readyAllocation, tpuSpec, runningAttempt } from '../support/builders.ts';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createPlan } from '../../src/app/plan.ts';
import { localFolders } from '../../src/files/local-folders.ts';
import { newestCheckpoint } from '../../src/app/show.ts';
import type { Store } from '../../src/app/ports.ts';
import { openWorld } from '../support/world.ts';

const capacity = tpuSpec().capacity;
assert.ok(capacity.kind === 'tpu');
/** 16 chips: four workers. */
const asked: TpuSpec = {
  ...capacity,
  project: 'lab',
  accelerator: 'v5litepod-16',
  zone: 'us-west4-a',
  pricing: 'spot',
  ownership: 'ephemeral',
};
const jobOf = (different: Partial<TpuSpec>, changes: Partial<Job> = {}): Job =>
  aJob({ ...tpuSpec(), capacity: { ...asked, ...different } }, changes);
const base = asked;

function checkWith(
  facts: GuardFacts,
  grants: readonly Grant[],
  request: GuardedRequest,
  confirmed: readonly string[] = [],
  price: number | null = 4,
) {
  const parts = {
    store: { guardFacts: () => Promise.resolve(facts) },
    now: () => noon,
    grants: async () => grants,
    pricePerHour: () => (price === null ? null : { usdPerHour: price, pricesOf: '2026-08-01' }),
  };
  return checkRequest(parts, request, { text: 'the request', confirmed });
}

async function reasonsFor(...given: Parameters<typeof checkWith>) {
  return (await checkWith(...given)).confirmation?.reasons ?? [];
}

/** The sentence about the grants, or null. */
async function why(grants: readonly Grant[], different: Partial<TpuSpec> = {}, others: readonly Job[] = []) {
  const facts = {
    onTpu: [],
    onCheckpoints: [],
    held: others.flatMap(heldCapacity),
    spending: [],
    limits: null,
    newest: null,
  };
  const spec = { ...tpuSpec(), capacity: { ...asked, ...different } };
  const reasons = await reasonsFor(facts, grants, { owner: 'ada', spec, job: null });
  return reasons.find(({ kind }) => kind === 'not_granted')?.message ?? null;
}

suite('within the grants', () => {
  const inside: readonly (readonly [string, readonly Grant[], Partial<TpuSpec>?])[] = [
    ['without any grant nothing is limited', []],
    ['an empty grant limits nothing', [{}]],
    ['by the very type', [{ accelerator: 'v5litepod-16' }]],
    ['by the generation', [{ accelerator: 'v5e' }]],
    ['by a star', [{ accelerator: 'v5litepod-*', zone: 'us-*' }]],
    ['by the second of two', [{ accelerator: 'v4' }, { accelerator: 'v5e' }]],
    ['with as many chips as are granted', [{ chips: 16 }]],
    ['on the last day', [{ until: new Date(noon).toISOString().slice(0, 10) }]],
    ['on the TPU emulator, whatever is granted', [{ accelerator: 'v4' }], { project: 'emulator' }],
    ['with a persistent TPU, for which nothing is asked', [{ accelerator: 'v4' }], { ownership: 'persistent' }],
  ];
  for (const [name, grants, different] of inside)
    test(name, async () => assert.equal(await why(grants, different), null));
});

suite('outside of the grants', () => {
  const outside: readonly (readonly [string, readonly Grant[], string, Partial<TpuSpec>?])[] = [
    ['another type', [{ accelerator: 'v4' }], 'v5litepod-16 spot in us-west4-a is not in your grants'],
    ['another zone', [{ zone: 'us-east5-b' }], 'v5litepod-16 spot in us-west4-a is not in your grants'],
    [
      'a part of a name is not the name',
      [{ zone: 'us-west4' }],
      'v5litepod-16 spot in us-west4-a is not in your grants',
    ],
    [
      'another pricing',
      [{ pricing: 'spot' }],
      'v5litepod-16 ondemand in us-west4-a is not in your grants',
      { pricing: 'ondemand' },
    ],
    ['too late', [{ until: '2001-02-03' }], 'v5litepod-16 spot in us-west4-a: its grant ended on 2001-02-03'],
    ['too large', [{ chips: 8 }], 'v5litepod-16 spot in us-west4-a: it has 16 chips, and 8 are granted'],
    [
      'several slices count each',
      [{ chips: 31 }],
      'v5litepod-16 spot in us-west4-a: it has 32 chips, and 31 are granted',
      { nodeCount: 2 },
    ],
    [
      'of an unknown type',
      [{ chips: 8 }],
      'v99-8 spot in us-west4-a: its number of chips is unknown, and 8 are granted',
      { accelerator: 'v99-8' },
    ],
  ];
  for (const [name, grants, message, different] of outside)
    test(name, async () => assert.equal(await why(grants, different), message));

  test('with one of its alternatives', async () => {
    const alternative = { ...asked, zone: 'europe-west4-b', accelerator: 'v5litepod-8' };
    assert.equal(
      await why([{ zone: 'us-*' }], { alternatives: [alternative] }),
      'v5litepod-8 spot in europe-west4-b is not in your grants',
    );
    assert.equal(await why([{ accelerator: 'v5e' }], { alternatives: [alternative] }), null);
  });
});

suite('held capacity counts', () => {
  const finish = { at: noon, verdict: 'stopped', reason: 'stopped' } as const;
  const grants = [{ accelerator: 'v5e', chips: 32 }];
  const full = 'v5litepod-16 spot in us-west4-a: it has 16 chips, and 32 are granted (32 used by 000001 and 000002)';
  const holding = withAttempts(jobOf({}, { id: '000001' }), [readyAllocation], []);

  test('of running jobs, stopped jobs and jobs created just now', async () => {
    const kept = {
      ...withAttempts(jobOf({}, { id: '000002' }), [readyAllocation], []),
      finish,
      desired: 'stopped',
    } as const;
    assert.equal(await why(grants, {}, [holding]), null);
    assert.equal(await why(grants, {}, [holding, kept]), full);
    assert.equal(await why(grants, {}, [holding, jobOf({}, { id: '000002' })]), full);
  });

  test('in the zone that holds it, not in the first requested one', async () => {
    const other = { ...asked, accelerator: 'v4-16', zone: 'us-central2-b' };
    const moved = withAttempts(
      jobOf({ alternatives: [other] }, { id: '000002' }),
      [{ ...readyAllocation, alternative: 1 }],
      [],
    );
    assert.equal(await why(grants, {}, [holding, moved]), null);
  });

  test('but not released, simulated, persistent or local capacity', async () => {
    const others = [
      { ...withAttempts(jobOf({}, { id: '000002' }), [{ ...readyAllocation, goneAt: noon }], []), finish },
      jobOf({ project: 'emulator' }, { id: '000003' }),
      jobOf({ ownership: 'persistent' }, { id: '000004' }),
      aJob(localSpec(), { id: '000005' }),
    ];
    assert.equal(await why(grants, {}, [holding, ...others]), null);
  });
});

suite('before a request', () => {
  const spec: JobSpec = { ...tpuSpec(), capacity: { ...asked, pricePerHourUsd: 4 } };
  const free: readonly Grant[] = [];
  let grants: readonly Grant[] = [{ accelerator: 'v5e', chips: 16 }];
  let spending: readonly UserSpending[] = [];
  const check = (
    others: readonly Job[],
    { wanted = spec, job = null, price = 4, confirmed = [] }: Partial<Asked> = {},
    rules = grants,
  ) => {
    const facts = {
      onTpu: [],
      onCheckpoints: [],
      held: others.flatMap(heldCapacity),
      spending,
      limits: null,
      newest: null,
    };
    return reasonsFor(facts, rules, { owner: 'ada', spec: wanted, job }, confirmed, price);
  };
  interface Asked {
    readonly wanted: JobSpec;
    readonly job: Job | null;
    readonly price: number | null;
    readonly confirmed: readonly string[];
  }
  const first = withAttempts(jobOf({}, { id: '000001' }), [readyAllocation], []);
  const finish = { at: noon, verdict: 'stopped', reason: 'stopped' } as const;

  test('the price is reported if it is known', async () => {
    assert.deepEqual(await check([]), []);
    assert.equal((await check([first]))[0]?.cost, 'about $4.00/h');
    assert.equal((await check([first], { price: null }))[0]?.cost, null);
  });

  test('without grants a new job needs a confirmation and may proceed; a restarted or free job does not', async () => {
    const [question] = await check([], {}, free);
    assert.deepEqual(
      [question?.kind, question?.message, question?.cost, question?.mayProceed],
      ['price', 'The job requests v5litepod-16 spot in us-west4-a', 'about $4.00/h', true],
    );
    const stopped = { ...jobOf({}, { id: '000002' }), finish, desired: 'cancelled' } as const;
    assert.deepEqual(await check([], { job: stopped }, free), []);
    const simulated = { ...spec, capacity: { ...asked, project: 'emulator' } };
    assert.deepEqual(await check([], { wanted: simulated }, free), []);
  });

  test('a restarted job does not conflict with itself, and its kept capacity needs no confirmation', async () => {
    const stopped = { ...jobOf({}, { id: '000002' }), finish, desired: 'cancelled' } as const;
    assert.deepEqual(await check([stopped], { job: stopped }), []);
    assert.notDeepEqual(await check([first, stopped], { job: stopped }), []);
    const kept = {
      ...withAttempts(jobOf({}, { id: '000002' }), [readyAllocation], []),
      finish,
      desired: 'stopped',
    } as const;
    assert.deepEqual(await check([first, kept], { job: kept }), []);
    const under = jobOf({}, { id: '000002' });
    assert.deepEqual(await check([first, under], { job: under }), []);
  });

  test('a token covers its reason until the request or the facts change', async () => {
    const [asked] = await check([first]);
    const confirmed = [asked?.token ?? ''];
    assert.deepEqual(await check([first], { confirmed }), []);
    const running = withAttempts(first, [readyAllocation], [runningAttempt]);
    assert.deepEqual(
      await check([running], { confirmed }),
      [],
      'the phase of the other job is not a fact of the reason',
    );
    const second = jobOf({}, { id: '000003' });
    const larger = { ...spec, capacity: { ...base, nodeCount: 2 } };
    for (const [name, others, request] of [
      ['another job holds chips now', [first, second], {}],
      ['another request', [first], { wanted: larger }],
      ['a stored job', [first], { job: { ...second, finish, desired: 'cancelled' as const } }],
    ] as const) {
      const [again] = await check(others, { confirmed, ...request });
      assert.notEqual(again?.token, undefined, name);
      assert.notEqual(again?.token, asked?.token, name);
    }
    const facts = {
      onTpu: [],
      onCheckpoints: [],
      held: [first, second].flatMap(heldCapacity),
      spending,
      limits: null,
      newest: null,
    };
    const { confirmation } = await checkWith(facts, grants, { owner: 'ada', spec, job: null }, confirmed);
    assert.match(confirmation?.notice ?? '', /was for another request, or the facts have changed since/);
  });

  test('a used-up budget of the owner refuses the job, also on the TPU emulator; dollars are counted apart there', async () => {
    grants = [{ accelerator: 'v5e', chips: 16, budgetUsd: 500, budgetPeriod: 'week' }];
    const { zone, accelerator, pricing } = asked;
    const row = { zone, accelerator, pricing, simulated: false, rateUsd: 4 } as const;
    const spent = (week: number) => ({ day: 1, week, month: 900 });
    spending = [
      { ...row, owners: ['ada'], spentUsd: spent(380) },
      { ...row, owners: ['ada'], simulated: true, spentUsd: spent(502.3) },
      { ...row, owners: ['bob'], spentUsd: spent(5_000) },
      { ...row, owners: ['ada'], accelerator: 'v4-8', spentUsd: spent(5_000) },
    ];
    assert.deepEqual(await check([]), []);
    assert.equal(
      (await check([first]))[0]?.cost,
      'about $4.00/h; the budget of ada for v5e: $120.00 of $500.00 are left this week; the next week begins on 23 Nov (UTC)',
    );
    const [simulated] = await check([], { wanted: { ...spec, capacity: { ...asked, project: 'emulator' } } });
    assert.equal(
      simulated?.message,
      'the budget of ada for v5e is used up: $502.30 of $500.00 have been spent this week; the next week begins on 23 Nov (UTC)',
    );
    assert.equal(simulated.token, null);
    assert.match(simulated.remedy, /budgetUsd of that grant \(setting `grants`\), or wait for the next week/);
    spending = [{ ...row, owners: ['ada'], spentUsd: spent(500) }];
    const kept = {
      ...withAttempts(jobOf({}, { owner: 'ada' }), [readyAllocation], []),
      finish,
      desired: 'stopped',
    } as const;
    assert.equal((await check([], { job: kept, confirmed: ['any'] }))[0]?.token, null);
    const persistent = { ...spec, capacity: { ...asked, ownership: 'persistent' as const } };
    assert.deepEqual(await check([], { wanted: persistent }), []);
  });
});

// ------------------------------------------------------------------------------------------ checkpoint folders

function withCommand(spec: JobSpec, command: Partial<CommandSpec>): JobSpec {
  return { ...spec, command: { ...spec.command, ...command } };
}

const named = { checkpointDir: '~/b/vit', checkpoints: 'named', checkpointStorage: 'gs://b/vit' } as const;

test('the folder of another unfinished job needs a confirmation, with its name; a shared one causes a warning', async () => {
  const request = (checkpoints: 'named' | 'shared') => ({
    owner: 'ada',
    spec: { ...withCommand(localSpec(), named), command: { ...localSpec().command, ...named, checkpoints } },
    job: null,
  });
  const facts = { onTpu: [], onCheckpoints: [aJob(tpuSpec())], held: [], spending: [], limits: null, newest: null };
  const [asked] = await reasonsFor(facts, [], request('named'));
  assert.equal(
    asked?.message,
    "job 000042 (vit) of ada, which is queued, keeps its checkpoints in the same folder (~/b/vit), and each job could overwrite the other's",
  );
  const shared = await checkWith(facts, [], request('shared'));
  assert.equal(shared.confirmation, null);
  assert.match(
    warningsFor(request('shared'), shared, noon).join(),
    /is also used by job 000042 \(vit, queued\): each job may/,
  );
});

test('a plan has a placeholder for the id, and describes a job without a command', () => {
  const named = { ...withCommand(tpuSpec(), { script: `echo ${jobIdPlaceholder}` }), name: `vit-${jobIdPlaceholder}` };
  assert.equal(createPlan(named, null).name, 'vit-<job id>');
  assert.match(createPlan(named, null).command, /echo <job id>$/);
  const bare = withCommand(tpuSpec(), { script: '', isSetupOnly: true });
  assert.equal(createPlan(bare, null).command, 'none: the TPU is set up and released');
  const kept = { ...bare, finish: { capacity: 'keep', keepForMs: null } } as const;
  assert.equal(createPlan(kept, null).command, 'none: the TPU is set up and kept until you release it');
});

test('a plan says how long the budget lasts, unless the capacity is free', () => {
  const spec = tpuSpec();
  const withBudget = { ...spec, limits: { ...spec.limits, budgetUsd: 50 } };
  const budgetAt = (price: number | null) => createPlan(withBudget, price).limits.find((line) => /budget/.test(line));
  assert.equal(budgetAt(5), 'budget $50.00: about 10h00m at $5.00/h');
  assert.equal(budgetAt(0), 'budget $50.00');
  assert.equal(budgetAt(null), 'budget $50.00');
});

test('resume_from becomes the folder of that job', async () => {
  const source = aJob(withCommand(tpuSpec(), { checkpointDir: '~/b/000042-abc123', checkpoints: 'own' }));
  const store = (job: Job) => ({ load: () => Promise.resolve({ job, revision: 1 }) }) as unknown as Store;
  const from = (spec: JobSpec) => withCommand(spec, { resumeFrom: { kind: 'job', job: '42' } });
  const { command } = await withResumeFrom(store(source), from(tpuSpec()), ['ada'], noon);
  assert.deepEqual(command.resumeFrom, { kind: 'folder', path: '~/b/000042-abc123', job: '000042' });
  await assert.rejects(
    withResumeFrom(store(aJob(tpuSpec())), from(tpuSpec()), ['ada'], noon),
    /cannot resume from job 000042 \(vit\), whose manifest has no job\.checkpoint_dir/,
  );
  await assert.rejects(
    withResumeFrom(store(source), from(localSpec()), ['ada'], noon),
    /its checkpoints are on its workers/,
  );
});

test('show has only a checkpoint that the job would resume from', async (t) => {
  const { home } = openWorld(t);
  const folder = join(home, 'checkpoints');
  mkdirSync(folder, { recursive: true });
  const spec = withCommand(localSpec(), { checkpointDir: folder, checkpoints: 'named' });
  const job = withAttempts(aJob(spec), [readyAllocation], [runningAttempt]);
  const make = (name: string, at: number): void => {
    writeFileSync(join(folder, name), '');
    utimesSync(join(folder, name), at, at);
  };
  make('step_9', 9_000);
  assert.equal(newestCheckpoint(localFolders, job), null, 'nothing says that it is its own');
  writeFileSync(join(folder, '.jobman-start.0'), 'abc123/000042/1\nstep_9\tx\n');
  utimesSync(join(folder, '.jobman-start.0'), 9_500, 9_500);
  assert.equal(newestCheckpoint(localFolders, job), null);
  make('step_1', 1_000);
  assert.equal(newestCheckpoint(localFolders, job)?.name, 'step_1');
  make('step_9', 9_600);
  assert.equal(newestCheckpoint(localFolders, job)?.name, 'step_9', 'written again');
  writeFileSync(join(folder, '.jobman-start.0'), 'abc123/000043/1\n');
  assert.equal(newestCheckpoint(localFolders, job), null);
  rmSync(join(folder, '.jobman-start.0'));
  execFileSync('mkfifo', [join(folder, '.jobman-start.0')]);
  assert.equal(newestCheckpoint(localFolders, job), null, 'and a FIFO is not waited for');
});
