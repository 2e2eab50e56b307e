/**
 * The files of deploy/ with real parts: the image with dockerd, the unit with systemd as the first process of a container, the
 * chart with helm on the cluster, with a PostgreSQL of this machine.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { NetConnectOpts } from 'node:net';
import { createInterface } from 'node:readline';
import { suite, test, type TestContext } from 'node:test';
import type { V1Pod } from '@kubernetes/client-node';
import { Worker } from 'node:worker_threads';
import { version } from '../../src/version.ts';
import { hasDocker, openDockerd } from '../setup/dockerd.ts';
import { createCertificates } from '../support/certificates.ts';
import { debianTar, hasDebootstrap } from '../support/debian.ts';
import { eventually } from '../support/eventually.ts';
import { helmBinary } from '../support/helm.ts';
import { jobman, startJobman } from '../support/jobman.ts';
import { kubeTest, tinyFlavor, type Kube } from '../support/kube.ts';
import { requirePostgres } from '../support/postgres.ts';
import { requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld, type World } from '../support/world.ts';

const image = `registry.example.com/jobman:${version}`;

interface Docker {
  (...args: readonly string[]): string;
  /** With the exit code and both outputs. */
  try(...args: readonly string[]): { readonly status: number | null; readonly text: string };
}

/** A daemon with a Debian, and the image built from it as users build it. Undefined after a counted skip. */
async function openDocker(t: TestContext, world: World): Promise<Docker | undefined> {
  if (!requireReal(t, 'dockerd, docker and a static busybox, as root', hasDocker())) return undefined;
  if (!requireReal(t, 'debootstrap, as root', hasDebootstrap())) return undefined;
  if (!requireReal(t, 'bundle (npm run build)', existsSync(join(root, 'dist/bundle/main.cjs')))) return undefined;
  const env = { ...world.env, PATH: process.env['PATH'] ?? '', DOCKER_HOST: await openDockerd(world) };
  const docker = Object.assign(
    (...args: readonly string[]) => {
      const { status, text } = docker.try(...args);
      assert.equal(status, 0, `docker ${args.join(' ')}\n${text}`);
      return text;
    },
    {
      try(...args: readonly string[]) {
        const { status, stdout, stderr } = spawnSync('docker', args, { env, encoding: 'utf8', cwd: world.folder });
        return { status, text: stdout + (status === 0 && args[0] !== 'logs' ? '' : stderr) };
      },
    },
  );
  docker('import', debianTar(), 'debian:12-slim');
  const built = spawnSync(join(root, 'deploy/image/build'), [image, '--network', 'host'], { env, encoding: 'utf8' });
  assert.equal(built.status, 0, built.stdout + built.stderr);
  return docker;
}

const hardened = ['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges', '--tmpfs', '/tmp'];

suite('the image', () => {
  test('serves without root, a shell and a writable file system, and as a service of systemd', async (t) => {
    const world = openWorld(t, { patienceMs: 20_000 });
    const docker = await openDocker(t, world);
    if (docker === undefined) return;

    await t.test('in a container', async () => {
      const home = join(world.folder, 'container');
      mkdirSync(home, { mode: 0o700 });
      chownSync(home, 65_532, 65_532);
      const container = docker(
        'run',
        '--detach',
        '--network',
        'host',
        ...hardened,
        '--volume',
        `${home}:/var/lib/jobman`,
        image,
        'server',
        '--listen',
        '127.0.0.1:0',
      ).trim();
      const url = await urlIn(() => docker.try('logs', container).text);
      const token = docker('exec', container, 'jobman', 'token', 'create').trim();
      assert.deepEqual(await userOf(url, token), { user: 'jobman', role: 'admin' });
      assert.match(docker('exec', container, 'jobman', 'doctor'), /^ok +controller +process 1,/m);
      const local = docker.try('exec', container, 'jobman', 'run', '--', 'ssh', '-V');
      assert.match(local.text, /Nothing was created: the machine of the controller has no shell/);
      assert.match(docker('exec', container, 'ssh', '-G', 'worker'), /^user jobman$/m);
      for (const program of ['sh', 'bash', 'apt-get'])
        assert.notEqual(docker.try('exec', container, program).status, 0);
      assert.equal(docker('diff', container).trim(), '', 'nothing is written outside the volume');
      docker('stop', '--time', '20', container);
      assert.equal(docker('inspect', '--format', '{{.State.ExitCode}}', container).trim(), '0');
    });

    await t.test('and its program as a service of systemd, whose jobs outlive a restart', async () => {
      const program = join(world.folder, 'program');
      docker('cp', `${docker('create', image).trim()}:/opt/jobman`, program);
      mkdirSync(join(program, 'node_modules/.bin'));
      writeFileSync(
        join(program, 'node_modules/.bin/node'),
        '#!/bin/sh\nexec /opt/jobman/node_modules/node/bin/node "$@"\n',
        { mode: 0o755 },
      );
      // The default capabilities of a container are too few for the sandbox of a unit.
      const rights = ['SYS_ADMIN', 'SYS_PTRACE', 'NET_ADMIN', 'DAC_READ_SEARCH'].flatMap((name) => ['--cap-add', name]);
      const machine = docker(
        'run',
        '--detach',
        ...rights,
        '--security-opt',
        'seccomp=unconfined',
        '--security-opt',
        'apparmor=unconfined',
        '--tmpfs',
        '/run',
        '--tmpfs',
        '/tmp',
        '--env',
        'container=docker',
        '--volume',
        '/sys/fs/cgroup:/sys/fs/cgroup',
        '--volume',
        `${program}:/opt/jobman:ro`,
        'debian:12-slim',
        '/lib/systemd/systemd',
      ).trim();
      const inside = (...args: readonly string[]): string => docker('exec', machine, ...args);
      const isUp = await eventually(() => docker.try('exec', machine, 'systemctl', 'is-system-running').status === 0);
      assert.ok(isUp, docker.try('logs', machine).text);
      inside('useradd', '--system', '--home-dir', '/var/lib/jobman', '--shell', '/usr/sbin/nologin', 'jobman');
      inside('ln', '-s', '/opt/jobman/bin/jobman', '/usr/local/bin/jobman');
      docker('cp', join(root, 'deploy/systemd/jobman.service'), `${machine}:/etc/systemd/system/`);
      inside('systemctl', 'enable', '--now', 'jobman');
      const journal = (): string => inside('journalctl', '--unit', 'jobman', '--output', 'cat');
      const waitForStarts = async (count: number): Promise<void> =>
        assert.ok(await eventually(() => journal().split('The server runs at').length > count), journal());
      await waitForStarts(1);

      const asJobman = ['runuser', '-u', 'jobman', '--', 'env', 'JOBMAN_HOME=/var/lib/jobman', 'HOME=/var/lib/jobman'];
      const cli = (...args: readonly string[]): string => inside(...asJobman, '/usr/local/bin/jobman', ...args);
      cli('run', '--', 'sh', '-c', 'echo begun; while [ ! -e /var/lib/jobman/go ]; do sleep 0.1; done; echo ended');
      assert.ok(await eventually(() => cli('list').includes('running')), cli('list'));
      inside('systemctl', 'restart', 'jobman');
      await waitForStarts(2);
      inside('kill', '-KILL', inside('systemctl', 'show', '--property', 'MainPID', '--value', 'jobman').trim());
      await waitForStarts(3);
      inside(...asJobman, 'touch', '/var/lib/jobman/go');
      cli('wait', '1');
      assert.equal(cli('logs', '1'), '[0] begun\n[0] ended\n');
      inside('systemctl', 'stop', 'jobman');
      assert.equal(inside('systemctl', 'show', '--property', 'Result', '--value', 'jobman').trim(), 'success');
      docker('kill', machine);
    });
  });
});

suite('the chart', () => {
  kubeTest(
    'runs two servers on PostgreSQL with TLS, and a user reaches them while one of them dies',
    async (kube, t) => {
      const { world } = kube;
      const docker = await openDocker(t, world);
      const postgres = docker && (await requirePostgres(t));
      if (docker === undefined || postgres === undefined) return;
      if (!requireReal(t, 'helm', existsSync(helmBinary))) return;
      const state = dirname(kube.admin);
      docker('save', '--output', join(world.folder, 'image.tar'), image);
      const containerd = ['-a', join(state, 'containerd/containerd.sock'), '-n', 'k8s.io'];
      execFileSync('ctr', [...containerd, 'images', 'import', join(world.folder, 'image.tar')], { stdio: 'pipe' });

      const database = await postgres.createDatabase();
      const address = kube.field('.items[0].status.addresses[0].address', 'nodes');
      const databaseUrl = new URL(postgres.urlOf(database));
      const socket = `.s.PGSQL.${databaseUrl.port || '5432'}`;
      const port = await openRelay(world, address, { path: join(databaseUrl.searchParams.get('host') ?? '', socket) });
      const url = `postgres://postgres@${address}:${port}/${database}`;
      kube.kubectl('create', 'secret', 'generic', 'jobman-database', `--from-literal=url=${url}`);
      const { certFile, keyFile, caFile } = createCertificates(join(world.folder, 'certificates'), 'DNS:localhost');
      kube.kubectl('create', 'secret', 'tls', 'jobman-tls', '--cert', certFile, '--key', keyFile);
      const home = join(world.folder, 'volume');
      // On this kind of volume the kubelet does not give the folder to the group of the pod.
      mkdirSync(home, { mode: 0o700 });
      chownSync(home, 65_532, 65_532);
      const volume = kube.namespace;
      kube.apply('volume', {
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata: { name: volume },
        spec: {
          capacity: { storage: '20Gi' },
          accessModes: ['ReadWriteMany', 'ReadWriteOnce'],
          hostPath: { path: home },
          claimRef: { namespace: kube.namespace, name: 'jobman' },
        },
      });
      world.atEnd(() => void kube.kubectl('delete', 'persistentvolume', volume, '--wait=false'));
      const helm = (...args: readonly string[]): string =>
        execFileSync(helmBinary, [...args, '--namespace', kube.namespace, '--kubeconfig', kube.admin], {
          env: { ...world.env },
          encoding: 'utf8',
        });
      const rendered = helm('template', 'jobman', join(root, 'deploy/helm/jobman')).replaceAll(
        /^ +namespace: .*\n/gm,
        '',
      );
      assert.equal(
        readFileSync(join(root, 'deploy/kubernetes/server.yaml'), 'utf8').split('\n').slice(1).join('\n'),
        rendered,
        'Write the file again; its first line says how.',
      );
      const bucket = ['data=gs://lab/jobman', 'sshKey.secret=jobman-ssh'].flatMap((value) => ['--set', value]);
      const withBucket = helm('template', 'jobman', join(root, 'deploy/helm/jobman'), ...bucket);
      assert.match(withBucket, /"data": "gs:\/\/lab\/jobman"[^]*secretName: jobman-ssh/);
      assert.doesNotMatch(withBucket, /persistentVolumeClaim|kind: PersistentVolumeClaim|jobman-shared/);
      helm('install', 'jobman', join(root, 'deploy/helm/jobman'), '--wait', '--timeout', '90s');
      t.after(() => {
        if (!t.passed)
          t.diagnostic(kube.kubectl('logs', '--selector', 'app.kubernetes.io/name=jobman', '--prefix', '--previous'));
      });
      // The volume is not removed before its pods.
      world.atEnd(() => void helm('uninstall', 'jobman', '--wait'));

      const token = kube.kubectl('exec', 'deployment/jobman', '--', 'jobman', 'token', 'create').trim();
      const forward = await openForward(kube);
      const tokenFile = join(world.folder, 'token');
      writeFileSync(tokenFile, token, { mode: 0o600 });
      const user = async (...args: readonly string[]): Promise<string> => {
        const { code, stdout, stderr } = await jobman(world, args);
        assert.equal(code, 0, stderr);
        return stdout;
      };
      await user('login', `https://localhost:${forward}`, '--ca', caFile, '--token-file', tokenFile);
      assert.match(await user('whoami'), /^user +jobman\nrole +admin$/m);
      await user('user', 'add', 'ada');
      assert.deepEqual(await postgres.query(`select name from users order by name`, database), [
        { name: 'ada' },
        { name: 'jobman' },
      ]);
      const holder = async (): Promise<string> =>
        String((await postgres.query('select holder from lease', database))[0]?.['holder']);
      const pods = kube
        .get<{ readonly items: readonly V1Pod[] }>('pods')
        .items.map(({ metadata }) => metadata?.name ?? '');
      assert.equal(pods.length, 2);
      const leader = (await holder()).split(/[@ ]/)[1] ?? '';
      assert.ok(pods.includes(leader), `${leader} is none of ${pods.join()}`);
      kube.kubectl('delete', 'pod', leader, '--grace-period=0', '--force');
      const hasMoved = async (): Promise<boolean> => !(await holder()).includes(leader);
      assert.ok(await eventually(hasMoved, { withinMs: 30_000, everyMs: 200 }), await holder());
      const other = await openForward(kube);
      await user('login', `https://localhost:${other}`, '--ca', caFile, '--token-file', tokenFile, '--name', 'other');
      assert.match(await user('user'), /^ada/m);

      await t.test('and is restored from a backup into another database, as the docs say', async () => {
        kube.kubectl('rollout', 'status', 'deployment/jobman', '--timeout=90s');
        const manifest = join(world.folder, 'kept.yaml');
        const kept = { job: { name: 'kept' }, tpu: { accelerator: 'v4-8', zone: 'us-central2-b', project: 'lab' } };
        writeFileSync(manifest, JSON.stringify({ ...kept, command: { run: 'true' } }));
        const id = (await user('create', manifest, '--no-check', '--yes', '--quiet')).trim();
        const restored = await postgres.createDatabase();
        const [, section = ''] = readFileSync(join(root, 'docs/deploying.md'), 'utf8').split('For a [backup]');
        const [backup = '', ...rest] = [...section.matchAll(/^```sh\n([^]*?)^```/gm)].map(
          ([, commands = '']) => commands,
        );
        const run = (commands: string): void => {
          const script = commands
            .replaceAll('--namespace jobman ', `--namespace ${kube.namespace} `)
            .replace(/'postgres:[^']*'/, `postgres://postgres@${address}:${port}/${restored}`);
          const env = { ...world.env, PATH: process.env['PATH'] ?? '', KUBECONFIG: kube.admin };
          const { status, stderr } = spawnSync('bash', ['-euc', script], {
            cwd: world.folder,
            env,
            encoding: 'utf8',
          });
          assert.equal(status, 0, `${script}\n${stderr}`);
        };
        cpSync(join(root, 'deploy'), join(world.folder, 'deploy'), { recursive: true });
        run(backup);
        const folder = join(home, 'jobs/jobman', id);
        rmSync(folder, { recursive: true });
        run(rest.slice(0, 3).join(''));
        kube.kubectl('rollout', 'status', 'deployment/jobman', '--timeout=90s');
        const url = `https://localhost:${await openForward(kube)}`;
        await user('login', url, '--ca', caFile, '--token-file', tokenFile, '--name', 'restored');
        assert.match(await user('list'), /^000001 .* kept /m);
        assert.ok(existsSync(join(folder, 'config.yaml')));
        assert.ok(!existsSync(join(home, 'restored')));
        await user('cancel', id, '--yes');
      });

      await t.test('and one with a bucket and an empty home, which runs jobs in this cluster and on TPUs', async () => {
        helm('uninstall', 'jobman', '--wait');
        const cloud = startJobman(world, ['emulator', 'serve', '--speed', '60'], { withinMs: 280_000 });
        world.atEnd(() => void cloud.child.kill('SIGTERM'));
        await cloud.waitForOutput(/^READY /m);
        const endpoint = JSON.parse(readFileSync(join(world.home, 'emulator/endpoint.json'), 'utf8')) as Endpoint;
        const bucketUrl = `${endpoint.url}/storage/v1/b`;
        await fetch(`${bucketUrl}?project=lab`, { method: 'POST', body: JSON.stringify({ name: 'lab' }) });
        // On the network of the node, the API server and the TPU emulator are on loopback. There is no proxy for services.
        const { hostname, port: apiPort } = new URL(kube.server());
        const env = { KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: apiPort };
        // The emulator serves only the user who started it.
        const cloudPort = await openRelay(world, '127.0.0.1', { port: Number(new URL(endpoint.url).port) });
        const settings = { tpu: { endpoint: `http://127.0.0.1:${cloudPort}`, sshPort: endpoint.sshPort } };
        const values = {
          replicas: 1,
          data: 'gs://lab/jobman',
          jobNamespaces: [kube.namespace],
          settings,
          pod: { hostNetwork: true },
          env: Object.entries(env).map(([name, value]) => ({ name, value })),
        };
        const file = join(world.folder, 'values.json');
        writeFileSync(file, JSON.stringify(values));
        helm('install', 'jobman', join(root, 'deploy/helm/jobman'), '--values', file, '--wait', '--timeout', '90s');
        const inPod = (...args: readonly string[]): string =>
          kube.kubectl('exec', 'deployment/jobman', '--', 'jobman', ...args).trim();
        helm('upgrade', 'jobman', join(root, 'deploy/helm/jobman'), '--reset-then-reuse-values', '--wait');
        assert.equal(inPod('settings', 'get', 'server.data'), 'gs://lab/jobman', 'the upgrade kept the values');

        const login = async (): Promise<void> => {
          const url = `https://localhost:${await openForward(kube)}`;
          await user('login', url, '--ca', caFile, '--token-file', tokenFile, '--name', `from-${url.split(':')[2]}`);
        };
        await login();
        await user('submit', '-q', '-i', 'alpine', '-r', tinyFlavor, '-j', 'in-pod', '--', 'echo', 'from a pod');
        await user('wait', 'in-pod');
        assert.equal(await user('logs', 'in-pod'), 'from a pod\n');
        assert.match(await user('list', '--all'), new RegExp(`in-pod .*in-cluster/${kube.namespace}`));
        await user('delete', 'in-pod');
        assert.equal(kube.jobs(), '');

        const code = join(world.folder, 'code');
        mkdirSync(code);
        writeFileSync(join(code, 'data.txt'), 'from the copy\n');
        const manifest = join(world.folder, 'job.yaml');
        writeFileSync(
          manifest,
          JSON.stringify({
            job: { name: 'on-tpu', workdir: code },
            tpu: { project: 'lab', accelerator: 'v4-8', zone: 'us-central2-b' },
            command: { run: 'cat data.txt' },
          }),
        );
        const id = (await user('create', manifest, '--yes', '--quiet')).trim();
        await user('wait', id);
        const logs = await user('logs', id);
        assert.match(logs, /from the copy\n$/);
        const listed = (await (await fetch(`${bucketUrl}/lab/o`)).json()) as {
          readonly items: readonly { name: string }[];
        };
        const names = listed.items.map(({ name }) => name);
        for (const pattern of [/^jobman\/blobs\//, /^jobman\/jobs\/.*worker_0\.log\//])
          assert.ok(
            names.some((name) => pattern.test(name)),
            `${pattern} is not in ${names.join('\n')}`,
          );

        // Another pod has an empty home.
        kube.kubectl('delete', 'pod', '--selector', 'app.kubernetes.io/name=jobman', '--wait');
        kube.kubectl('rollout', 'status', 'deployment/jobman', '--timeout=90s');
        await login();
        assert.equal(await user('logs', id), logs);
        assert.equal(await user('logs', 'in-pod'), 'from a pod\n', 'the archive is not in the bucket');
      });
    },
  );
});

interface Endpoint {
  readonly url: string;
  readonly sshPort: number;
}

/** Forwards TCP connections of pods, in a thread that no command of the test blocks. */
async function openRelay(world: World, host: string, to: NetConnectOpts): Promise<number> {
  const program = `
    const { connect, createServer } = require('node:net');
    const { parentPort, workerData } = require('node:worker_threads');
    createServer((incoming) => {
      const outgoing = connect(workerData.to);
      const end = () => [incoming, outgoing].forEach((socket) => socket.destroy());
      for (const one of [incoming, outgoing]) one.on('error', end);
      incoming.pipe(outgoing).pipe(incoming);
    }).listen(0, workerData.host, function () { parentPort.postMessage(this.address().port); });`;
  const relay = new Worker(program, { eval: true, workerData: { to, host } });
  world.atEnd(async () => void (await relay.terminate()));
  const [port] = (await once(relay, 'message')) as [number];
  return port;
}

/** A port on loopback that leads to the service. */
async function openForward(kube: Kube): Promise<number> {
  const args = ['--kubeconfig', kube.admin, '--namespace', kube.namespace, 'port-forward', 'service/jobman', ':443'];
  const forward = spawn('kubectl', args, { env: { ...kube.world.env }, stdio: ['ignore', 'pipe', 'ignore'] });
  kube.world.atEnd(() => void forward.kill());
  for await (const line of createInterface({ input: forward.stdout })) {
    const [, port] = /^Forwarding from 127\.0\.0\.1:(\d+)/.exec(line) ?? [];
    if (port !== undefined) return Number(port);
  }
  throw new Error('kubectl port-forward ended');
}

async function urlIn(log: () => string): Promise<string> {
  const url = await eventually(() => /The server runs at (https?:\/\/\S+\d)/.exec(log())?.[1]);
  assert.ok(url !== undefined, log());
  return url;
}

async function userOf(url: string, token: string): Promise<object> {
  const answer = await fetch(`${url}/v1/user`, { headers: { authorization: `Bearer ${token}` } });
  const { user, role } = (await answer.json()) as { readonly user: string; readonly role: string };
  return { user, role };
}
