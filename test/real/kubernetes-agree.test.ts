/**
 * Jobs that succeed and jobs that do not, on a real cluster: the output of `why`, `details`, `logs` and `wait`, which
 * must agree with kubectl.
 */
import assert from 'node:assert/strict';
import { suite } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jsonLines } from '../support/jobs.ts';
import { withoutLogArchive, kubeTest, tinyFlavor, type Kube, type ClusterUser } from '../support/kube.ts';

const flavor = (name: string, resources: object): string => JSON.stringify({ name, resources });
const requests = { cpu: '10m' };

/** One kind of job: its submission, and the expected output once it has reached its final state. */
interface Kind {
  readonly name: string;
  readonly flags: readonly string[];
  /** Its program, run by `sh -c`. */
  readonly program?: string;
  readonly phase: string;
  readonly why: RegExp;
  /** The expected details. */
  readonly details: RegExp;
  readonly logs: string;
  /** The exit code of `wait`; null when `wait` would not end. */
  readonly wait: number | null;
}

const kinds: readonly Kind[] = [
  {
    name: 'done',
    flags: ['-r', tinyFlavor],
    program: 'echo one; echo two; echo three',
    phase: 'succeeded',
    why: /^Job done succeeded/,
    details: /exit 0 /,
    logs: 'one\ntwo\nthree\n',
    wait: 0,
  },
  {
    name: 'failing',
    flags: ['-r', tinyFlavor],
    program: 'echo before; exit 3',
    phase: 'failed',
    why: /^Job failing failed .*: its program ended with exit code 3\.$/,
    details: /exit 3 /,
    logs: 'before\n',
    wait: 1,
  },
  {
    name: 'again',
    flags: ['-r', tinyFlavor, '--backoff-limit', '1'],
    program: 'echo try; exit 4',
    phase: 'failed',
    why: /^Job again failed .*: its program ended with exit code 4 \(an earlier pod failed too\)\.$/,
    details: /(?:exit 4 [^]*){2}/,
    logs: 'try\n',
    wait: 1,
  },
  {
    name: 'oom',
    flags: ['-r', flavor('tight', { requests, limits: { memory: '20M' } })],
    program: 'echo begun; x=a; while true; do x=$x$x; done',
    phase: 'failed',
    why: /^Job oom failed .*: its program ran out of memory and was killed \(OOMKilled/,
    details: /exit 137 .*OOMKilled/,
    logs: 'begun\n',
    wait: 1,
  },
  {
    name: 'greedy',
    flags: ['-r', flavor('disk', { requests, limits: { 'ephemeral-storage': '1M' } })],
    program: 'dd if=/dev/zero of=/big bs=1M count=30 2>/dev/null; sleep 300',
    phase: 'failed',
    why: /^Job greedy failed .*: its pod was evicted from node \S+\.$/,
    details: /^because +.*ephemeral/m,
    logs: '',
    wait: 1,
  },
  {
    name: 'late',
    flags: ['-r', tinyFlavor, '--timeout', '2s'],
    program: 'echo begun; sleep 300',
    phase: 'failed',
    why: /^Job late failed .*: it exceeded its time limit of .+ \(--timeout\)\.$/,
    details: /DeadlineExceeded/,
    logs: '',
    wait: 1,
  },
  {
    name: 'many',
    flags: ['-r', tinyFlavor, '--parallelism', '2', '--completions', '3'],
    program: 'echo pod $JOB_COMPLETION_INDEX',
    phase: 'succeeded',
    why: /^Job many succeeded/,
    details: /^pods +2 at once, 3 in all: 3 succeeded$/m,
    logs: '[2] pod 2\n',
    wait: 0,
  },
  {
    name: 'missing',
    flags: ['-r', tinyFlavor, '-i', 'nowhere/nothing:1'],
    phase: 'setup',
    why: /^Job missing cannot pull its image nowhere\/nothing:1\.$/,
    details: /ErrImagePull|ImagePullBackOff/,
    logs: '',
    wait: null,
  },
  {
    name: 'big',
    flags: ['-r', flavor('big', { requests: { cpu: '4000' } })],
    phase: 'queued',
    why: /^Job big waits for room: the best node, .+, has .+ cpu free, 4k requested \(.+ missing\)\.$/,
    details: /^because +Unschedulable: 0\/\d+ nodes are available/m,
    logs: '',
    wait: null,
  },
  {
    name: 'gpu',
    flags: ['-r', tinyFlavor, '--gpus', '1:A100'],
    phase: 'queued',
    why: /^Job gpu (?:waits for room|finds no node)/,
    details: /^requests +.*nvidia\.com\/gpu 1/m,
    logs: '',
    wait: null,
  },
  {
    name: 'held',
    flags: ['-r', tinyFlavor, '--suspend'],
    phase: 'stopped',
    why: /^Job held is suspended/,
    details: /^pods +1: none yet$/m,
    logs: '',
    wait: null,
  },
];

/** The parts of kubectl's JSON that are compared separately. The rest is compared as a whole. */
interface KubectlJob {
  readonly metadata: { readonly name: string; readonly creationTimestamp: string; readonly resourceVersion: string };
  readonly spec: { readonly suspend?: boolean };
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
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

interface Container {
  readonly name: string;
  readonly restarts: number;
  readonly exitCode: number | null;
  readonly reason: string | null;
  readonly state: string;
}

interface Details {
  readonly object: KubectlJob;
  readonly pods: readonly {
    readonly name: string;
    readonly uid: string;
    readonly phase: string;
    readonly node: string | null;
    readonly containers: readonly Container[];
  }[];
}

suite('jobs of every kind', () => {
  kubeTest('are shown as they are, and as kubectl shows them', async (kube) => {
    const person = kube.adminUser(withoutLogArchive);
    for (const { name, flags, program } of kinds) {
      const image = flags.includes('-i') ? [] : ['-i', 'alpine'];
      const args = program === undefined ? [] : ['--', 'sh', '-c', program];
      await person.output(['submit', '-q', ...image, ...flags, '-j', name, ...args]);
    }
    for (const kind of kinds) await assertCommandsAgree(person, kind);
    await agree(kube, person);
    // The log of all pods contains every line of a job with several pods.
    const all = await person.output('logs many --all-pods');
    assert.deepEqual(all.trim().split('\n').toSorted(), ['[0] pod 0', '[1] pod 1', '[2] pod 2']);
  });

  kubeTest('with several containers are shown per container', async (kube) => {
    const person = kube.leastPrivilegeUser(withoutLogArchive);
    const container = (name: string, program: string): object => {
      const command = ['sh', '-c', program];
      return { name, image: 'alpine', command, resources: { requests: { cpu: '10m' } } };
    };
    const spec = {
      restartPolicy: 'Never',
      initContainers: [container('first', 'echo set up')],
      containers: [container('trainer', 'echo trained'), container('watcher', 'echo watched; exit 5')],
    };
    const job = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'pair' } };
    kube.apply('pair', { ...job, spec: { backoffLimit: 0, template: { spec } } });
    await assertCommandsAgree(person, {
      name: 'pair',
      flags: [],
      phase: 'failed',
      why: /^Job pair failed .*: the container watcher ended with exit code 5\.$/,
      details: /first +exit 0 [^]*trainer +exit 0 [^]*watcher +exit 5 /,
      logs: 'trained\n',
      wait: 1,
    });
    assert.equal(await person.output('logs pair --container first'), 'set up\n');
    assert.equal(await person.output('logs pair --container watcher'), 'watched\n');
    const none = /has no container missing; it has first, trainer, watcher/;
    await person.runRefused(3, none, 'logs pair --container missing');
    await agree(kube, person);
  });

  kubeTest('beyond a quota name the quota', async (kube) => {
    const person = kube.adminUser(withoutLogArchive);
    kube.kubectl('create', 'quota', 'small', '--hard=pods=0');
    await person.submit('poor', 'true');
    await assertCommandsAgree(person, {
      name: 'poor',
      flags: [],
      phase: 'queued',
      why: /^Job poor gets no pod: the quota small of the namespace \S+ is used up \(.*pods/,
      details: /^because +FailedCreate: .*exceeded quota: small/m,
      logs: '',
      wait: null,
    });
    kube.kubectl('create', 'quota', 'jobs', '--hard=count/jobs.batch=1');
    const used = () => kube.field('.status.used', 'quota', 'jobs');
    await eventually(() => used().includes('"1"'), { withinMs: 30_000 });
    const message = /Could not create the job poorer: the quota jobs of (the namespace )?\S+ is used up/;
    await person.runRefused(1, message, [
      'submit',
      '-q',
      '-i',
      'alpine',
      '-r',
      tinyFlavor,
      '-j',
      'poorer',
      '--',
      'true',
    ]);
    assert.equal(kube.jobs(), 'job.batch/poor');
  });
});

/** Waits for the final state, then runs every command. */
async function assertCommandsAgree(
  person: ClusterUser,
  { name, phase, why, details, logs, wait }: Kind,
): Promise<void> {
  let output = '';
  const isSo = async () => {
    output = (await person.run(['why', name, '--json'])).stdout;
    const report = JSON.parse(output) as { phase: string; message: string };
    return report.phase === phase && why.test(report.message);
  };
  assert.ok(await eventually(isSo, { withinMs: 90_000, everyMs: 500 }), `${name}: ${output}`);
  const shown = await person.output(['details', '-j', name]);
  assert.match(shown, details, name);
  assert.ok(shown.includes(phase), shown);
  const printed = await person.run(['logs', '-j', name]);
  assert.deepEqual([printed.code, printed.stdout], [0, logs], `${name}: ${printed.stderr}`);
  // An empty log has a stated reason.
  if (logs === '') assert.match(printed.stderr, new RegExp(`${name} `));
  if (wait === null) return;
  const waited = await person.run(['wait', name]);
  assert.equal(waited.code, wait, `${name}: ${waited.stdout}${waited.stderr}`);
}

/** Both tools show the same for every Job of the namespace. */
async function agree(kube: Kube, person: ClusterUser): Promise<void> {
  const { items } = kube.get<{ readonly items: readonly KubectlJob[] }>('jobs', '--show-managed-fields');
  const listed = await person.output('list --all --json');
  const rows = jsonLines<{ name: string; phase: string; createdAt: string }>(listed);
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

    const shown = JSON.parse(await person.output(['details', '-j', name, '--json'])) as Details;
    // A waiting Job may change between the two reads.
    if (shown.object.metadata.resourceVersion === item.metadata.resourceVersion)
      assert.deepEqual(shown.object, item, name);
    if (ended === undefined) continue;
    const pods = kube.get<{ readonly items: readonly KubectlPod[] }>('pods', '-l', `job-name=${name}`).items;
    const ours = shown.pods.map(({ name: pod, uid, phase, node, containers }) => ({
      name: pod,
      uid,
      phase,
      node,
      ended: containers
        .filter((one) => one.state === 'terminated' && one.name !== 'first')
        .map((one) => [one.name, one.restarts, one.exitCode, one.reason]),
    }));
    const theirs = pods.map(({ metadata, spec, status }) => ({
      name: metadata.name,
      uid: metadata.uid,
      phase: status.phase,
      node: spec.nodeName ?? null,
      ended: (status.containerStatuses ?? []).flatMap(({ name: container, restartCount, state: { terminated } }) =>
        terminated === undefined ? [] : [[container, restartCount, terminated.exitCode, terminated.reason]],
      ),
    }));
    const byName = (one: { readonly name: string }, other: { readonly name: string }) =>
      one.name < other.name ? -1 : 1;
    assert.deepEqual(ours.toSorted(byName), theirs.toSorted(byName), name);
  }
}
