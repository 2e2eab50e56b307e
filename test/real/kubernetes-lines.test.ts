/**
 * The literal command lines of the Kubernetes job manager's manuals on a real cluster, as the administrator and as a
 * user with the least permissions: output, exit code, and the result in the cluster.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { kubeTest, tinyFlavor, type Kube } from '../support/kube.ts';

/** The compared parts of a Job. */
interface Made {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: { readonly template: { readonly spec: { readonly containers: readonly [Container] } } };
}

interface Container {
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly resources: object;
}

const containerOf = ({ spec }: Made): Container => spec.template.spec.containers[0];
const madeJob = (kube: Kube, name: string): Made => kube.get<Made>('job', name);
const untilComplete = (kube: Kube, name: string): string =>
  kube.kubectl('wait', '--for=condition=Complete', `job/${name}`, '--timeout=120s');

/** The name in the output of `submit`. */
const nameIn = (stdout: string): string => /^(\S+) submitted to /m.exec(stdout)?.[1] ?? '';

const tensorflow = 'ubuntu_python_tensorflow:3.1cuda11';
const devices = 'exec("from tensorflow.python.client import device_lib\\ndevice_lib.list_local_devices()")';

for (const who of ['adminUser', 'leastPrivilegeUser'] as const) {
  suite(`for ${who === 'adminUser' ? 'the administrator' : 'a user with the least permissions'}`, () => {
    kubeTest('one job from its start to its end: submit, list, logs, details, delete', async (kube) => {
      const person = kube[who]();
      const name = nameIn(await person.output('submit -i alpine -r no-gpu -- ls -al /'));
      assert.match(name, /^jobman-[a-z2-7]{8}$/);
      const job = madeJob(kube, name);
      const { image, args, resources } = containerOf(job);
      const amounts = { cpu: '1', memory: '1G' };
      assert.deepEqual(
        [image, args, resources],
        ['alpine', ['ls', '-al', '/'], { requests: amounts, limits: amounts }],
      );
      assert.equal(job.metadata.annotations?.['jobman/flavor'], 'no-gpu');
      assert.match(await person.output('list'), new RegExp(`^${name} .* no-gpu `, 'm'));

      // A user who may not list the whole cluster sees the namespace, or the published list. A short job may end early
      // on a fast cluster, so another one waits.
      await person.output('submit -q -i alpine -r no-gpu -j waits --queue lab --suspend');
      assert.match(await person.output('queue'), /^FLAVOR +JOBS +YOURS [^]*^no-gpu +[1-9]\d* +[12] /m);
      await person.output('delete waits');

      untilComplete(kube, name);
      const logs = await person.output(`logs -j ${name}`);
      assert.equal(logs, kube.kubectl('logs', `job/${name}`));
      assert.match(logs, /^total \d+\n[^]* etc\n/);
      const details = await person.output(`details -j ${name}`);
      for (const line of [
        /^\S+ \(.+\) +. succeeded\n/,
        /^image +alpine$/m,
        /^requests +cpu 1, memory 1G \(flavor no-gpu\)$/m,
        /^jobman-\S+ +\S+ +\S+ +main +exit 0 /m,
      ]) {
        assert.match(details, line);
      }

      assert.match(await person.output(`delete -j ${name}`), new RegExp(`^Job ${name} and its pods are deleted from `));
      assert.equal(kube.kubectl('get', 'jobs,pods', '-o', 'name'), '');
      for (const verb of ['details', 'delete']) assert.equal((await person.run(`${verb} -j ${name}`)).code, 3, verb);
    });

    kubeTest('GPUs: limits, the unchanged arguments, and why names the missing GPUs', async (kube) => {
      const person = kube[who]();
      for (const { flavor, command, cpu, memory } of [
        { flavor: 'small-gpu', command: ['sh', '-c', 'nvidia-smi -L'], cpu: '500m', memory: '500M' },
        { flavor: 'large-gpu', command: ['python3', '-c', devices], cpu: '1', memory: '1G' },
      ]) {
        const name = nameIn(await person.output(['submit', '-i', tensorflow, '-r', flavor, '--', ...command]));
        const job = madeJob(kube, name);
        const { image, args, resources } = containerOf(job);
        const gpu = { 'nvidia.com/gpu': '1' };
        assert.deepEqual([image, args], [tensorflow, command]);
        assert.deepEqual(resources, { requests: { cpu, memory, ...gpu }, limits: gpu });
        assert.equal(job.metadata.annotations?.['jobman/flavor'], flavor);
        const lacks = /because +Unschedulable: 0\/\d+ nodes are available: .*Insufficient nvidia\.com\/gpu/;
        let why = '';
        const isReported = async (): Promise<boolean> => lacks.test((why = await person.output(`why ${name}`)));
        assert.ok(await eventually(isReported, { withinMs: 60_000, everyMs: 250 }), why);
      }
      await person.output('delete --all --yes');
      assert.equal(kube.jobs(), '');
    });

    kubeTest('every flag of submit in the manual', async (kube) => {
      const person = kube[who]();
      const cwd = join(kube.world.folder, 'user');
      writeFileSync(join(cwd, 'tiny.json'), tinyFlavor);

      const dry = [
        ...'submit -i alpine -r tiny.json -j dry -c --dry-run -a'.split(' '),
        '{"team": "vision"}',
        '--',
        'ls',
      ];
      assert.deepEqual(containerOf(JSON.parse(await person.output(dry, { cwd })) as Made).command, ['ls']);
      assert.equal(kube.jobs(), '');

      const long = 'submit --image alpine --resources-flavor tiny.json --job-name by-file --annotations'.split(' ');
      await person.output([...long, '{"team": "vision"}', '-c', '--', 'echo', 'a "b" $$ $(HOME)'], { cwd });
      const { annotations = {} } = madeJob(kube, 'by-file').metadata;
      assert.deepEqual([annotations['team'], annotations['jobman/flavor']], ['vision', 'tiny']);
      untilComplete(kube, 'by-file');
      assert.equal(await person.output('logs -j by-file'), 'a "b" $$ $(HOME)\n');

      // Combined short flags, the flavor as JSON on the command line, and a failing program: submit itself succeeds.
      await person.output(['submit', '-ci', 'alpine', '-r', tinyFlavor, '-j', 'by-json', '--', 'sh', '-c', 'exit 3']);
      assert.deepEqual(containerOf(madeJob(kube, 'by-json')).command, ['sh', '-c', 'exit 3']);
    });

    kubeTest('settings by -s and --settings, before and after the command', async (kube) => {
      const person = kube[who]();
      const file = join(kube.world.folder, 'lab.json');
      const requests = { cpu: '10m', memory: '20M' };
      const flavor = { name: 'lab-tiny', description: 'for tests', resources: { requests } };
      const job = { defaultImage: 'busybox', resources: { default: 'lab-tiny', predefined: [flavor] } };
      writeFileSync(file, JSON.stringify({ job }));
      for (const line of [
        '-s FILE resources-flavors',
        '--settings FILE resources-flavors',
        'resources-flavors -s FILE',
      ]) {
        const shown = await person.output(line.replace('FILE', file));
        assert.match(shown, /^lab-tiny \(default\) +10m +20M +- +for tests$/m);
        assert.match(shown, /^no-gpu +1000m +1G /m);
      }
      await person.output(`-s ${file} submit -j by-settings -- echo hello`);
      const made = madeJob(kube, 'by-settings');
      assert.equal(containerOf(made).image, 'busybox');
      assert.equal(made.metadata.annotations?.['jobman/flavor'], 'lab-tiny');
    });
  });
}

kubeTest('without a cluster, commands that need none work, and the others name what is missing', async (kube) => {
  const withoutConfig = kube.adminUser({ kubeconfig: join(kube.world.folder, 'none') });
  assert.match(
    await withoutConfig.output('resources-flavors'),
    /^FLAVOR .*\nno-gpu \(default\) .*\nsmall-gpu .*\nlarge-gpu /,
  );
  await withoutConfig.output('submit -i alpine -r no-gpu --dry-run -- ls');
  const list = await withoutConfig.run('list');
  assert.equal(list.code, 5, 'no other job is shown');
  assert.match(list.stderr, /^note: The cluster is not shown: .*the kubeconfig .*none does not exist\.$/m);
  assert.match(await withoutConfig.output('--version'), /^jobman \d/);
  for (const [short, long] of [
    ['-v', '--version'],
    ['-h', '--help'],
  ] as const) {
    assert.equal(await withoutConfig.output(short), await withoutConfig.output(long));
  }
  assert.match(await withoutConfig.output([]), /^jobman \d[^]*jobman submit /);
  const message = /There is no cluster configuration: the kubeconfig /;
  await withoutConfig.runRefused(5, message, 'submit -i alpine -r no-gpu -- ls');
});
