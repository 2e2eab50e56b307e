/** The module docker with a real daemon: a pulled image, a built image, and commands in containers. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { metricsOfReport } from '../../src/core/model/metric-lines.ts';
import { markScript } from '../../src/remote/mark.ts';
import { dockerStep } from '../../src/setup/docker.ts';
import type { DockerModule, VariableNames, VenvModule } from '../../src/setup/modules.ts';
import { wrapCommand } from '../../src/setup/steps.ts';
import { openChannel, fakeConda } from '../setup/conda.ts';
import { hasDocker, openDockerd, openRegistry } from '../setup/dockerd.ts';
import { busyboxImage } from '../setup/image.ts';
import { openHost } from '../setup/shell.ts';
import { eventually } from '../support/eventually.ts';
import { requireReal } from '../support/real.ts';

const none: VariableNames = { plain: [], secret: [] };

test('an image is pulled or built, and commands run in it unchanged', { timeout: 240_000 }, async (t) => {
  if (!requireReal(t, 'dockerd, docker and a static busybox, as root', hasDocker())) return;
  const host = openHost(t, { patienceMs: 20_000 });
  const { world, home } = host;
  const DOCKER_HOST = await openDockerd(world);
  const image = busyboxImage(world);
  const registry = await openRegistry(world, image);
  const docker = (...args: readonly string[]) =>
    spawnSync('docker', args, { env: { ...world.env, DOCKER_HOST }, encoding: 'utf8' });
  const module: DockerModule = {
    name: 'docker',
    image: `${registry}/lab/box:1`,
    envVars: ['WRITTEN=it\'s "$HOME" `x` \\', 'HANDED_ON', 'HOME=/tmp'],
    mounts: ['~/data', `${home}/b c:/in side:ro`],
    workdir: '/in side',
    flags: ['--network=host', '--label=note=two words'],
  };
  mkdirSync(join(home, 'data'), { recursive: true });
  host.write('~/b c/file', 'from the worker\n');

  await t.test('pulled from a registry if missing, and once only', async () => {
    const step = dockerStep(module);
    assert.equal(host.run(step.check ?? '', { DOCKER_HOST }).code, 1);
    // The registry is in this process, so the pull must not block it.
    const pulled = await host.start(step.apply, { DOCKER_HOST });
    assert.equal(pulled.code, 0, pulled.out);
    assert.equal(host.run(step.check ?? '', { DOCKER_HOST }).code, 0);
  });

  await t.test('a missing image is named', async () => {
    const step = dockerStep({ ...module, image: `${registry}/lab/none:1` });
    host.program('sleep', 'exit 0');
    const failed = await host.start(step.apply, { DOCKER_HOST });
    host.program('sleep', 'exec /bin/sleep "$@"');
    assert.equal(failed.code, 1);
    assert.match(failed.out, /Docker could not pull the image 127\.0\.0\.1:\d+\/lab\/none:1 in three tries\.\n$/);
  });

  await t.test(
    'variables, folders, the working directory and flags are inside, and nothing is expanded twice',
    async () => {
      const script = `cat <<'END'
"double" 'single' \`back\` $HOME \${HOME} \\ $(echo no) %s !
END
printf '%s|' "$WRITTEN" "$HANDED_ON" "$FROM_IMAGE" "$VALUE" "$JOBMAN_JOB_ID" "$HOME" "$PWD"
cat file; echo new >"${home}/data/written"; touch here 2>/dev/null || echo read-only; exit 7
`;
      const ran = await host.start(wrapCommand(script, [module], { plain: ['VALUE'], secret: [] }), {
        DOCKER_HOST,
        HANDED_ON: "a\nb 'c'",
        VALUE: '$x "y"',
        JOBMAN_JOB_ID: '000042',
        NOT_WANTED: 'z',
      });
      const line = '"double" \'single\' `back` $HOME ${HOME} \\ $(echo no) %s !\n';
      const values = ['it\'s "$HOME" `x` \\', "a\nb 'c'", 'kept', '$x "y"', '000042', '/tmp', '/in side'];
      assert.deepEqual(ran, { code: 7, out: `${line}${values.join('|')}|from the worker\nread-only\n` });
      assert.equal(readFileSync(join(home, 'data/written'), 'utf8'), 'new\n');
    },
  );

  await t.test(
    '`jobman mark`, and a line of a shell, reach the metrics file for any user of a read-only image',
    async () => {
      const run = join(world.folder, 'run');
      const readMetrics = () => readFileSync(join(run, 'metrics'), 'utf8').trimEnd().split('\n');
      host.write(join(run, 'bin/jobman'), markScript, 0o700);
      const script = `id -u
for step in $(seq 1 20); do jobman mark step=$step loss=0.5 & done; wait
"$JOBMAN_MARK" step=21 loss=nan; echo 'step=22 loss=0.5' >>"$JOBMAN_METRICS"`;
      const flags = ['--user=1234:1234', '--read-only', '--network=none'];
      const ran = await host.start(wrapCommand(script, [{ ...module, workdir: null, flags }], none), { DOCKER_HOST });
      assert.deepEqual(ran, { code: 0, out: '1234\n' });
      const steps = readMetrics().map((line) => metricsOfReport(line)?.step ?? Number.NaN);
      assert.deepEqual(
        steps.toSorted((one, other) => one - other),
        Array.from({ length: 22 }, (_, index) => index + 1),
      );
    },
  );

  await t.test("a container ends with its caller, has its job's label, and shows no secret", async () => {
    const secret = 's3cret-of-the-container';
    const script = wrapCommand('echo "$API_KEY" | sha256sum; exec sleep 1010', [module], {
      plain: [],
      secret: ['API_KEY'],
    });
    const JOBMAN_RUN = 'abc123/000042/1/0';
    const running = host.start(script, { DOCKER_HOST, API_KEY: secret, JOBMAN_RUN });
    const label = 'label=jobman-run=abc123/000042';
    const id = await eventually(() => docker('ps', '--quiet', '--filter', label).stdout.trim() || undefined, {
      withinMs: 30_000,
    });
    assert.ok(id !== undefined);
    const client = await eventually(
      () => spawnSync('pgrep', ['-f', '^docker run .*jobman-run=abc123/000042']).stdout.toString().trim() || undefined,
      { withinMs: 30_000 },
    );
    assert.ok(client !== undefined);
    const logged = await eventually(() => docker('logs', id).stdout || undefined, { withinMs: 30_000 });
    assert.match(logged ?? '', /^[0-9a-f]{64} {2}-\n$/);
    assert.ok(!docker('inspect', id).stdout.includes(secret), 'inspect does not show it');
    assert.ok(!readFileSync(`/proc/${client}/environ`, 'latin1').includes(secret), 'nor does the client');
    const files = spawnSync('grep', ['-rls', '--exclude-dir=data', secret, world.folder]).stdout.toString();
    assert.equal(files, '');
    // Like a worker's out-of-memory killer: the daemon gets no farewell.
    process.kill(Number(client), 'SIGKILL');
    await running;
    const isGone = await eventually(
      () => (docker('ps', '--quiet', '--filter', label).stdout === '' ? true : undefined),
      { withinMs: 30_000 },
    );
    assert.equal(isGone, true);
  });

  await t.test('a built image needs no registry, and its venv is created once', async () => {
    assert.equal(docker('import', image, 'made-here:1').status, 0);
    const python = spawnSync('python3', ['-c', 'import sys; print(sys.base_prefix)'], {
      encoding: 'utf8',
    }).stdout.trim();
    // The container uses this machine's Python and its libraries as mounted folders.
    const folders = new Set(['/usr', '/lib', '/lib64', realpathSync(python)]);
    const inside: DockerModule = {
      ...module,
      image: 'made-here:1',
      envVars: [`HOME=${home}/data`, 'PATH=/usr/local/bin:/usr/bin:/bin', 'PIP_NO_INDEX=1'],
      mounts: ['~/data', ...[...folders].map((folder) => `${folder}:${folder}:ro`)],
      workdir: null,
    };
    assert.equal(host.run(dockerStep(inside).check ?? '', { DOCKER_HOST }).code, 0);
    const venv: VenvModule = {
      name: 'venv',
      folder: '~/env',
      python: join(realpathSync(python), 'bin/python3'),
      requirements: null,
    };
    const script = wrapCommand('python -c "import sys; print(sys.prefix)"', [inside, venv], none);
    const first = await host.start(script, { DOCKER_HOST });
    assert.equal(first.out.trim().split('\n').at(-1), join(home, 'data/env'), first.out);
    const second = await host.start(script, { DOCKER_HOST });
    assert.deepEqual(second, { code: 0, out: `${join(home, 'data/env')}\n` });
  });

  await t.test('a conda environment is created once inside the image and follows its file', async () => {
    const environment = openChannel(host);
    host.write('~/conda/bin/conda', fakeConda, 0o755);
    const inside: DockerModule = {
      ...module,
      image: 'made-here:1',
      envVars: [`HOME=${home}/data`],
      mounts: ['~/data', '~/channel:/channel:ro', '~/conda:/opt/conda'],
      workdir: null,
    };
    for (const version of ['1.0', '2.0']) {
      const script = wrapCommand('probe; exit 7', [inside, environment(version, '/channel')], none);
      const output = `probe ${version} in /opt/conda/envs/fms\n`;
      assert.deepEqual(await host.start(script, { DOCKER_HOST }), { code: 7, out: output });
      assert.deepEqual(await host.start(script, { DOCKER_HOST }), { code: 7, out: output });
    }
    const asked = readFileSync(join(home, 'conda/commands'), 'utf8').match(/^env (create|update)/gm);
    assert.deepEqual(asked, ['env create', 'env update']);
    const missing = wrapCommand('probe', [inside, environment('3.0', '/channel')], none);
    const { code, out } = await host.start(missing, { DOCKER_HOST });
    assert.equal(code, 1);
    assert.match(
      out,
      /PackagesNotFoundError: probe-3\.0\nThe conda environment could not be created in the container\.\n$/,
    );
  });

  await t.test('a container ends itself when the daemon is killed', async () => {
    const nap = `9${process.pid}`;
    const script = wrapCommand(`sleep ${nap} & sleep ${nap}`, [{ ...module, image: 'made-here:1' }], none);
    const running = host.start(script, { DOCKER_HOST, JOBMAN_RUN: 'abc123/000043/1/0' });
    const alive = (): number => Number(spawnSync('pgrep', ['-cxf', `sleep ${nap}`]).stdout.toString());
    assert.ok(await eventually(() => alive() === 2, { withinMs: 30_000 }));
    process.kill(Number(readFileSync(join(world.folder, 'dockerd/pid'), 'utf8')), 'SIGKILL');
    assert.notEqual((await running).code, 0);
    assert.ok(await eventually(() => alive() === 0, { withinMs: 30_000 }), `${alive()} processes are alive`);
  });
});
