/**
 * The literal lines of the Kubernetes job manager's manuals on a real cluster, each as it stands there, as the administrator
 * and as somebody with the least rights: what they print, how they end, and what kubectl sees afterwards.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import type { Ended } from '../support/jobman.ts';
import { openKube, type Kube } from '../support/kube.ts';
import { administrator, leastRights, type Person } from '../support/kube-people.ts';
import { openWorld, type World } from '../support/world.ts';

/** What is looked at of a Job. */
interface Made {
  readonly metadata: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly image: string;
          readonly command?: readonly string[];
          readonly args?: readonly string[];
          readonly resources: object;
        }[];
      };
    };
  };
}

const madeJob = (kube: Kube, name: string): Made => JSON.parse(kube.kubectl('get', 'job', name, '-o', 'json')) as Made;

/** The name that `submit` says. */
const nameIn = (stdout: string): string => /^(\S+) submitted to /m.exec(stdout)?.[1] ?? '';

const tensorflow = 'ubuntu_python_tensorflow:3.1cuda11';
const devices = 'exec("from tensorflow.python.client import device_lib\\ndevice_lib.list_local_devices()")';

for (const [who, personOf] of [
  ['the administrator', administrator],
  ['somebody with the least rights', leastRights],
] as const) {
  suite(`for ${who}`, () => {
    test('the day of a job: submit, list, logs, details, delete', async (t) => {
      const { kube, person } = open(t, personOf);
      if (kube === undefined || person === undefined) return;

      const submitted = await person.ask(['submit', '-i', 'alpine', '-r', 'no-gpu', '--', 'ls', '-al', '/']);
      assert.equal(submitted.code, 0, submitted.stderr);
      const name = nameIn(submitted.stdout);
      assert.match(name, /^jobman-[a-z2-7]{8}$/);
      const job = madeJob(kube, name);
      const [container] = job.spec.template.spec.containers;
      const amounts = { cpu: '1', memory: '1G' };
      assert.deepEqual([container?.image, container?.args], ['alpine', ['ls', '-al', '/']]);
      assert.deepEqual(container?.resources, { requests: amounts, limits: amounts });
      assert.equal(job.metadata.annotations?.['jobman/flavor'], 'no-gpu');

      const listed = await person.ask(['list']);
      assert.equal(listed.code, 0, listed.stderr);
      assert.match(listed.stdout, new RegExp(`^${name} .* no-gpu `, 'm'));

      // Whoever may not list the whole cluster is told of the namespace, or of what somebody has published.
      // The job itself may be over on a fast cluster, so there is one that waits.
      const waits = ['submit', '-q', '-i', 'alpine', '-r', 'no-gpu', '-j', 'waits', '--queue', 'lab', '--suspend'];
      assert.equal((await person.ask(waits)).code, 0);
      const queued = await person.ask(['queue']);
      assert.equal(queued.code, 0, queued.stderr);
      assert.match(queued.stdout, /^FLAVOR +JOBS +YOURS /m);
      assert.match(queued.stdout, /^no-gpu +[1-9]\d* +[12] /m);
      assert.equal((await person.ask(['delete', 'waits'])).code, 0);

      await untilComplete(kube, name);
      const logs = await person.ask(['logs', '-j', name]);
      assert.equal(logs.code, 0, logs.stderr);
      assert.equal(logs.stdout, kube.kubectl('logs', `job/${name}`));
      assert.match(logs.stdout, /^total \d+\n[^]* etc\n/);

      const details = await person.ask(['details', '-j', name]);
      assert.equal(details.code, 0, details.stderr);
      assert.match(details.stdout, /^\S+ \(.+\) +. succeeded\n/);
      assert.match(details.stdout, /^image +alpine$/m);
      assert.match(details.stdout, /^asks +cpu 1, memory 1G \(flavor no-gpu\)$/m);
      assert.match(details.stdout, /^jobman-\S+ +\S+ +\S+ +main +exit 0 /m);

      const deleted = await person.ask(['delete', '-j', name]);
      assert.equal(deleted.code, 0, deleted.stderr);
      assert.match(deleted.stdout, new RegExp(`^${name} is deleted: `));
      assert.equal(kube.kubectl('get', 'jobs,pods', '-o', 'name'), '');
      for (const verb of ['details', 'logs', 'delete']) {
        const gone: Ended = await person.ask([verb, '-j', name]);
        // Logs may outlive their job.
        if (verb !== 'logs') assert.equal(gone.code, 3, `${verb}: ${gone.stdout}${gone.stderr}`);
      }
    });

    test('GPUs: what is asked for gets limits, the words arrive as they were typed, and why says what is missing', async (t) => {
      const { kube, person } = open(t, personOf);
      if (kube === undefined || person === undefined) return;
      const lines = [
        { flavor: 'small-gpu', words: ['sh', '-c', 'nvidia-smi -L'], cpu: '500m', memory: '500M' },
        { flavor: 'large-gpu', words: ['python3', '-c', devices], cpu: '1', memory: '1G' },
      ];
      for (const { flavor, words, cpu, memory } of lines) {
        const submitted: Ended = await person.ask(['submit', '-i', tensorflow, '-r', flavor, '--', ...words]);
        assert.equal(submitted.code, 0, submitted.stderr);
        const name = nameIn(submitted.stdout);
        const job = madeJob(kube, name);
        const [container] = job.spec.template.spec.containers;
        assert.deepEqual([container?.image, container?.args], [tensorflow, words]);
        const gpu = { 'nvidia.com/gpu': '1' };
        assert.deepEqual(container?.resources, { requests: { cpu, memory, ...gpu }, limits: gpu });
        assert.equal(job.metadata.annotations?.['jobman/flavor'], flavor);
        const lacks = /because +Unschedulable: 0\/\d+ nodes are available: .*Insufficient nvidia\.com\/gpu/;
        let why = '';
        const isTold = async (): Promise<boolean> => lacks.test((why = (await person.ask(['why', name])).stdout));
        assert.ok(await eventually(isTold, { withinMs: 60_000, everyMs: 250 }), why);
      }
      const all = await person.ask(['delete', '--all', '--yes']);
      assert.equal(all.code, 0, all.stderr);
      assert.equal(kube.kubectl('get', 'jobs', '-o', 'name'), '');
    });

    test('every flag of submit that the manual has', async (t) => {
      const { world, kube, person } = open(t, personOf);
      if (kube === undefined || person === undefined) return;
      const cwd = join(world.folder, 'user');
      const flavor = { name: 'tiny', resources: { requests: { cpu: '10m', memory: '20M' } } };
      writeFileSync(join(cwd, 'tiny.json'), JSON.stringify(flavor));

      const dry = await person.ask(
        [...'submit -i alpine -r tiny.json -j dry -c --dry-run -a'.split(' '), '{"team": "vision"}', '--', 'ls'],
        { cwd },
      );
      assert.equal(dry.code, 0, dry.stderr);
      const asked = JSON.parse(dry.stdout) as Made;
      assert.deepEqual(asked.spec.template.spec.containers[0]?.command, ['ls']);
      assert.equal(kube.kubectl('get', 'jobs', '-o', 'name'), '');

      const long = 'submit --image alpine --resources-flavor tiny.json --job-name by-file --annotations';
      const made = await person.ask(
        [...long.split(' '), '{"team": "vision"}', '-c', '--', 'echo', 'a "b" $$ $(HOME)'],
        { cwd },
      );
      assert.equal(made.code, 0, made.stderr);
      const job = madeJob(kube, 'by-file');
      assert.equal(job.metadata.annotations?.['team'], 'vision');
      assert.equal(job.metadata.annotations?.['jobman/flavor'], 'tiny');
      await untilComplete(kube, 'by-file');
      assert.equal((await person.ask(['logs', '-j', 'by-file'])).stdout, 'a "b" $$ $(HOME)\n');

      // The short flags together, the flavor as JSON on the line, a job whose program fails: submit has done its work.
      const flags = ['-ci', 'alpine', '-r', JSON.stringify(flavor), '-j', 'by-json'];
      const failing = await person.ask(['submit', ...flags, '--', 'sh', '-c', 'exit 3']);
      assert.equal(failing.code, 0, failing.stderr);
      assert.deepEqual(madeJob(kube, 'by-json').spec.template.spec.containers[0]?.command, ['sh', '-c', 'exit 3']);
      assert.equal((await person.ask(['delete', '--all', '--yes'])).code, 0);
    });

    test('settings by -s and --settings, before a command and behind it', async (t) => {
      const { world, kube, person } = open(t, personOf);
      if (kube === undefined || person === undefined) return;
      const file = join(world.folder, 'lab.json');
      const flavor = {
        name: 'lab-tiny',
        description: 'for tests',
        resources: { requests: { cpu: '10m', memory: '20M' } },
      };
      writeFileSync(
        file,
        JSON.stringify({ job: { defaultImage: 'busybox', resources: { default: 'lab-tiny', predefined: [flavor] } } }),
      );
      for (const words of [
        ['-s', file, 'resources-flavors'],
        ['--settings', file, 'resources-flavors'],
        ['resources-flavors', '-s', file],
      ]) {
        const shown: Ended = await person.ask(words);
        assert.equal(shown.code, 0, shown.stderr);
        assert.match(shown.stdout, /^lab-tiny \(default\) +10m +20M +- +for tests$/m);
        assert.match(shown.stdout, /^no-gpu +1000m +1G /m);
      }
      const submitted = await person.ask(['-s', file, 'submit', '-j', 'by-settings', '--', 'echo', 'hello']);
      assert.equal(submitted.code, 0, submitted.stderr);
      const job = madeJob(kube, 'by-settings');
      assert.equal(job.spec.template.spec.containers[0]?.image, 'busybox');
      assert.equal(job.metadata.annotations?.['jobman/flavor'], 'lab-tiny');
      assert.equal((await person.ask(['delete', '-j', 'by-settings'])).code, 0);
    });
  });
}

suite('without any cluster', () => {
  test('commands that need none work, and those that do say what is missing', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const nobody = administrator(world, kube, { kubeconfig: join(world.folder, 'none') });
    const flavors = await nobody.ask(['resources-flavors']);
    assert.equal(flavors.code, 0, flavors.stderr);
    assert.match(flavors.stdout, /^FLAVOR .*\nno-gpu \(default\) .*\nsmall-gpu .*\nlarge-gpu /);
    const dry = await nobody.ask(['submit', '-i', 'alpine', '-r', 'no-gpu', '--dry-run', '--', 'ls']);
    assert.equal(dry.code, 0, dry.stderr);
    const list = await nobody.ask(['list']);
    assert.equal(list.code, 5, 'there is no other job to show');
    assert.match(list.stderr, /^note: The cluster is not shown: .*there is no kubeconfig .*none\.$/m);
    assert.match((await nobody.ask(['--version'])).stdout, /^jobman \d/);
    assert.equal((await nobody.ask(['-v'])).stdout, (await nobody.ask(['--version'])).stdout);
    assert.equal((await nobody.ask(['-h'])).stdout, (await nobody.ask(['--help'])).stdout);
    const first = await nobody.ask([]);
    assert.equal(first.code, 0, first.stderr);
    assert.match(first.stdout, /^jobman \d[^]*jobman submit /);
    const submitted = await nobody.ask(['submit', '-i', 'alpine', '-r', 'no-gpu', '--', 'ls']);
    assert.equal(submitted.code, 5, submitted.stdout);
    assert.match(submitted.stderr, /No cluster is known here: there is no kubeconfig /);
  });
});

type Opened = { readonly world: World } & (
  | { readonly kube: Kube; readonly person: Person }
  | { readonly kube: undefined; readonly person: undefined }
);

function open(
  t: Parameters<typeof openWorld>[0] & { skip(message?: string): void },
  personOf: typeof administrator,
): Opened {
  const world = openWorld(t);
  const kube = openKube(t, world);
  return kube === undefined ? { world, kube, person: undefined } : { world, kube, person: personOf(world, kube) };
}

async function untilComplete(kube: Kube, name: string): Promise<void> {
  kube.kubectl('wait', '--for=condition=Complete', `job/${name}`, '--timeout=120s');
}
