/**
 * Jobs that go well and jobs that do not, on a real cluster: what `why`, `details`, `logs` and `wait` say of each, and that
 * jobman and kubectl agree on all that both show.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import type { Ended } from '../support/jobman.ts';
import { openKube, type Kube } from '../support/kube.ts';
import { administrator, leastRights, type Person } from '../support/kube-people.ts';
import { openWorld } from '../support/world.ts';

/** Of no interest to this test is what follows the submission. */
const settings = { kubernetes: { keepLogs: false } };

const flavor = (name: string, resources: object = { requests: { cpu: '10m', memory: '20M' } }): string =>
  JSON.stringify({ name, resources });
const tiny = flavor('tiny');
const requests = { cpu: '10m' };

/** One kind of job: how it is submitted, and what is said of it once it is as it will stay. */
interface Kind {
  readonly name: string;
  readonly flags: readonly string[];
  /** What it runs, by `sh -c`. */
  readonly program?: string;
  readonly phase: string;
  readonly why: RegExp;
  /** What is in its details. */
  readonly details: RegExp;
  readonly logs: string;
  /** The exit code of `wait`; null where it would wait on. */
  readonly wait: number | null;
}

const kinds: readonly Kind[] = [
  {
    name: 'done',
    flags: ['-r', tiny],
    program: 'echo one; echo two; echo three',
    phase: 'succeeded',
    why: /^done succeeded/,
    details: /exit 0 /,
    logs: 'one\ntwo\nthree\n',
    wait: 0,
  },
  {
    name: 'failing',
    flags: ['-r', tiny],
    program: 'echo before; exit 3',
    phase: 'failed',
    why: /^failing failed .*: its program ended with exit code 3\.$/,
    details: /exit 3 /,
    logs: 'before\n',
    wait: 1,
  },
  {
    name: 'again',
    flags: ['-r', tiny, '--backoff-limit', '1'],
    program: 'echo try; exit 4',
    phase: 'failed',
    why: /^again failed .*: its program ended with exit code 4 \(an earlier pod failed too\)\.$/,
    details: /(?:exit 4 [^]*){2}/,
    logs: 'try\n',
    wait: 1,
  },
  {
    name: 'oom',
    flags: ['-r', flavor('tight', { requests, limits: { memory: '20M' } })],
    program: 'echo begun; x=a; while true; do x=$x$x; done',
    phase: 'failed',
    why: /^oom failed .*: its program used more memory than it may have and was killed \(OOMKilled\)/,
    details: /exit 137 .*OOMKilled/,
    logs: 'begun\n',
    wait: 1,
  },
  {
    name: 'greedy',
    flags: ['-r', flavor('disk', { requests, limits: { 'ephemeral-storage': '1M' } })],
    program: 'dd if=/dev/zero of=/big bs=1M count=30 2>/dev/null; sleep 300',
    phase: 'failed',
    why: /^greedy failed .*: its pod was evicted from the node \S+\.$/,
    details: /^because +.*ephemeral/m,
    logs: '',
    wait: 1,
  },
  {
    name: 'late',
    flags: ['-r', tiny, '--timeout', '2s'],
    program: 'echo begun; sleep 300',
    phase: 'failed',
    why: /^late failed .*: it ran longer than its limit of .+ \(--timeout\)\.$/,
    details: /DeadlineExceeded/,
    logs: '',
    wait: 1,
  },
  {
    name: 'many',
    flags: ['-r', tiny, '--parallelism', '2', '--completions', '3'],
    program: 'echo pod $JOB_COMPLETION_INDEX',
    phase: 'succeeded',
    why: /^many succeeded/,
    details: /^pods +2 at once, 3 in all: 3 succeeded$/m,
    logs: '[2] pod 2\n',
    wait: 0,
  },
  {
    name: 'missing',
    flags: ['-r', tiny, '-i', 'nowhere/nothing:1'],
    phase: 'setup',
    why: /^missing cannot get its image nowhere\/nothing:1\.$/,
    details: /ErrImagePull|ImagePullBackOff/,
    logs: '',
    wait: null,
  },
  {
    name: 'big',
    flags: ['-r', flavor('big', { requests: { cpu: '4000' } })],
    phase: 'queued',
    why: /^big waits for room: the best node, .+, has .+ cpu free of the 4k that it asks for: .+ are missing\.$/,
    details: /^because +Unschedulable: 0\/\d+ nodes are available/m,
    logs: '',
    wait: null,
  },
  {
    name: 'gpu',
    flags: ['-r', tiny, '--gpus', '1:A100'],
    phase: 'queued',
    why: /^gpu (?:waits for room|finds no node)/,
    details: /^asks +.*nvidia\.com\/gpu 1/m,
    logs: '',
    wait: null,
  },
  {
    name: 'held',
    flags: ['-r', tiny, '--suspend'],
    phase: 'stopped',
    why: /^held is suspended/,
    details: /^pods +1: none yet$/m,
    logs: '',
    wait: null,
  },
];

interface Why {
  readonly phase: string;
  readonly sentence: string;
}

/** The parts of kubectl's JSON that are compared one by one; of the rest the whole is compared. */
interface KubectlJob {
  readonly metadata: { readonly name: string; readonly creationTimestamp: string; readonly resourceVersion: string };
  readonly spec: {
    readonly suspend?: boolean;
    readonly template: { readonly spec: { readonly containers: readonly { readonly image: string }[] } };
  };
  readonly status: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly ready?: number;
  };
}

interface KubectlPod {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec: { readonly nodeName?: string };
  readonly status: {
    readonly phase: string;
    readonly containerStatuses?: readonly {
      readonly name: string;
      readonly restartCount: number;
      readonly state: { readonly terminated?: { readonly exitCode: number; readonly reason: string } };
    }[];
  };
}

interface Details {
  readonly phase: string;
  readonly job: KubectlJob;
  readonly pods: readonly {
    readonly name: string;
    readonly uid: string;
    readonly phase: string;
    readonly node: string | null;
    readonly containers: readonly {
      readonly name: string;
      readonly restarts: number;
      readonly exitCode: number | null;
      readonly reason: string | null;
      readonly state: string;
    }[];
  }[];
}

interface Row {
  readonly name: string;
  readonly phase: string;
  readonly createdAt: string;
  readonly accelerator: string;
}

suite('jobs of every kind', () => {
  test('are told as they are, and as kubectl tells them', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const person = administrator(world, kube, { settings });
    for (const { name, flags, program } of kinds) {
      const image = flags.includes('-i') ? [] : ['-i', 'alpine'];
      const words = program === undefined ? [] : ['--', 'sh', '-c', program];
      const made: Ended = await person.ask(['submit', '-q', ...image, ...flags, '-j', name, ...words]);
      assert.equal(made.code, 0, `${name}: ${made.stderr}`);
    }
    for (const kind of kinds) await isTold(person, kind);
    await agree(kube, person);
    // By its pods every word of a job that several made is had.
    const all = await person.ask(['logs', 'many', '--all-pods']);
    assert.deepEqual(all.stdout.trim().split('\n').toSorted(), ['[0] pod 0', '[1] pod 1', '[2] pod 2']);
  });

  test('of several containers are told container by container', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const person = leastRights(world, kube, { settings });
    const container = (name: string, program: string): object => ({
      name,
      image: 'alpine',
      command: ['sh', '-c', program],
      resources: { requests: { cpu: '10m' } },
    });
    const template = {
      spec: {
        restartPolicy: 'Never',
        initContainers: [container('first', 'echo set up')],
        containers: [container('trainer', 'echo trained'), container('watcher', 'echo watched; exit 5')],
      },
    };
    const job = {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'pair' },
      spec: { backoffLimit: 0, template },
    };
    writeFileSync(join(world.folder, 'pair.json'), JSON.stringify(job));
    kube.kubectl('create', '-f', join(world.folder, 'pair.json'));
    const pair: Kind = {
      name: 'pair',
      flags: [],
      phase: 'failed',
      why: /^pair failed .*: the container watcher ended with exit code 5\.$/,
      details: /first +exit 0 [^]*trainer +exit 0 [^]*watcher +exit 5 /,
      logs: 'trained\n',
      wait: 1,
    };
    await isTold(person, pair);
    for (const [name, said] of [
      ['first', 'set up\n'],
      ['watcher', 'watched\n'],
    ] as const) {
      assert.equal((await person.ask(['logs', 'pair', '--container', name])).stdout, said);
    }
    const none = await person.ask(['logs', 'pair', '--container', 'nobody']);
    assert.equal(none.code, 3);
    assert.match(none.stderr, /has no container nobody; it has first, trainer, watcher/);
    await agree(kube, person);
  });

  test('that the namespace has no room for say which quota is used up', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const person = administrator(world, kube, { settings });
    kube.kubectl('create', 'quota', 'small', '--hard=pods=0');
    assert.equal((await person.ask(['submit', '-q', '-i', 'alpine', '-r', tiny, '-j', 'poor', '--', 'true'])).code, 0);
    await isTold(person, {
      name: 'poor',
      flags: [],
      phase: 'queued',
      why: /^poor gets no pod: the quota small of \S+ is used up \(.*pods/,
      details: /^because +FailedCreate: .*exceeded quota: small/m,
      logs: '',
      wait: null,
    });
    const counted = kube.kubectl('create', 'quota', 'jobs', '--hard=count/jobs.batch=1');
    assert.match(counted, /created/);
    await eventually(() => kube.kubectl('get', 'quota', 'jobs', '-o', 'jsonpath={.status.used}').includes('"1"'), {
      withinMs: 30_000,
    });
    const refused = await person.ask(['submit', '-q', '-i', 'alpine', '-r', tiny, '-j', 'poorer', '--', 'true']);
    assert.equal(refused.code, 1, refused.stderr);
    assert.match(refused.stderr, /Could not create the job poorer: the quota jobs of \S+ is used up/);
    assert.equal(kube.kubectl('get', 'jobs', '-o', 'name').trim(), 'job.batch/poor');
  });
});

/** Waits until it is as it will stay, then asks each command. */
async function isTold(person: Person, { name, phase, why, details, logs, wait }: Kind): Promise<void> {
  let said = '';
  const isSo = await eventually(
    async () => {
      said = (await person.ask(['why', name, '--json'])).stdout;
      const told = JSON.parse(said) as Why;
      return told.phase === phase && why.test(told.sentence);
    },
    { withinMs: 90_000, everyMs: 500 },
  );
  assert.ok(isSo, `${name}: ${said}`);
  const shown = await person.ask(['details', '-j', name]);
  assert.equal(shown.code, 0, shown.stderr);
  assert.match(shown.stdout, details, name);
  assert.ok(shown.stdout.includes(phase), shown.stdout);
  const printed = await person.ask(['logs', '-j', name]);
  assert.deepEqual([printed.code, printed.stdout], [0, logs], `${name}: ${printed.stderr}`);
  // Silence has a reason.
  if (logs === '') assert.match(printed.stderr, new RegExp(`${name} `));
  if (wait === null) return;
  const waited = await person.ask(['wait', name]);
  assert.equal(waited.code, wait, `${name}: ${waited.stdout}${waited.stderr}`);
}

/** What both show of every Job of the namespace is the same. */
async function agree(kube: Kube, person: Person): Promise<void> {
  const { items } = JSON.parse(kube.kubectl('get', 'jobs', '-o', 'json', '--show-managed-fields')) as {
    readonly items: readonly KubectlJob[];
  };
  const listed = await person.ask(['list', '--all', '--json']);
  const rows = listed.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Row);
  assert.deepEqual(rows.map(({ name }) => name).toSorted(), items.map(({ metadata }) => metadata.name).toSorted());
  for (const item of items) {
    const { name } = item.metadata;
    const row = rows.find((one) => one.name === name);
    assert.equal(Date.parse(row?.createdAt ?? ''), Date.parse(item.metadata.creationTimestamp), name);
    const holds = (type: string): boolean =>
      item.status.conditions?.some((one) => one.type === type && one.status === 'True') === true;
    const ended = holds('Complete') ? 'succeeded' : holds('Failed') ? 'failed' : undefined;
    if (ended !== undefined) assert.equal(row?.phase, ended, name);
    else if (item.spec.suspend === true) assert.equal(row?.phase, 'stopped', name);
    else assert.ok(['queued', 'setup', 'running'].includes(row?.phase ?? ''), `${name}: ${row?.phase}`);

    const shown = JSON.parse((await person.ask(['details', '-j', name, '--json'])).stdout) as Details;
    // A Job that waits may be written to between the two looks.
    if (shown.job.metadata.resourceVersion === item.metadata.resourceVersion) assert.deepEqual(shown.job, item, name);
    if (ended === undefined) continue;
    const { items: pods } = JSON.parse(kube.kubectl('get', 'pods', '-l', `job-name=${name}`, '-o', 'json')) as {
      readonly items: readonly KubectlPod[];
    };
    const byName = <T extends { readonly name: string }>(all: readonly T[]): readonly T[] =>
      all.toSorted((one, other) => (one.name < other.name ? -1 : 1));
    assert.deepEqual(
      byName(
        shown.pods.map(({ name: pod, uid, phase, node, containers }) => ({
          name: pod,
          uid,
          phase,
          node,
          ended: containers
            .filter(({ state, name: container }) => state === 'terminated' && container !== 'first')
            .map(({ name: container, restarts, exitCode, reason }) => ({ container, restarts, exitCode, reason })),
        })),
      ),
      byName(
        pods.map(({ metadata, spec, status }) => ({
          name: metadata.name,
          uid: metadata.uid,
          phase: status.phase,
          node: spec.nodeName ?? null,
          ended: (status.containerStatuses ?? []).flatMap(({ name: container, restartCount, state }) =>
            state.terminated === undefined
              ? []
              : [
                  {
                    container,
                    restarts: restartCount,
                    exitCode: state.terminated.exitCode,
                    reason: state.terminated.reason,
                  },
                ],
          ),
        })),
      ),
      name,
    );
  }
}
