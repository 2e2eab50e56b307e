/**
 * The package of `npm pack`, installed like `npm install --global`: the files of the package in `lib` with its
 * dependencies, and links in `bin`. npm itself would need a registry, so the test links the packages of the lockfile
 * from node_modules.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { mkdirSync, openSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { version } from '../../src/version.ts';
import { createCertificates } from '../support/certificates.ts';
import { copySources } from '../support/copy.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld, type World } from '../support/world.ts';

test('the package of npm pack runs the first job from a global installation', (t) => {
  for (const name of ['npm', 'git', 'python3', 'openssl']) if (!requireReal(t, name, findProgram(name))) return;
  const world = openWorld(t);
  const sources = join(world.folder, 'sources');
  copySources(sources);
  symlinkSync(join(root, 'node_modules'), join(sources, 'node_modules'));
  execFileSync('npm', ['pack', '--pack-destination', world.folder], { cwd: sources, env: world.env, stdio: 'pipe' });

  const lib = join(world.folder, 'prefix/lib/node_modules');
  const bin = join(world.folder, 'prefix/bin');
  mkdirSync(lib, { recursive: true });
  mkdirSync(bin);
  execFileSync('tar', ['-xzf', join(world.folder, `jobman-${version}.tgz`), '-C', lib]);
  const installed = join(lib, 'jobman');
  execFileSync('mv', [join(lib, 'package'), installed]);
  linkDependencies(installed);
  for (const name of ['jobman', 'tpu']) symlinkSync(`../lib/node_modules/jobman/bin/${name}`, join(bin, name));

  // The machine's own Node, of any version, is on PATH too.
  const run = (...argv: readonly [string, ...string[]]) =>
    spawnSync(argv[0], argv.slice(1), {
      cwd: world.folder,
      env: { ...world.env, PATH: `${bin}:/usr/bin:/bin` },
      encoding: 'utf8',
    });
  world.atEnd(() => {
    run('jobman', 'controller', 'stop');
    run('jobman', 'emulator', 'stop');
  });
  assert.equal(run('jobman', '--version').stdout, `jobman ${version}\n`);
  assert.equal(run('tpu', 'help').status, 0);

  const example = join(installed, 'configs/quick-start.yaml');
  const { status, stdout, stderr } = run(
    'jobman',
    'create',
    example,
    '--follow',
    '--set',
    'command.env.IRIS_PACE=0.01',
  );
  assert.equal(status, 0, stderr);
  assert.match(stdout, /finished after 300 steps: final loss 0\.0643610742/);
  assert.ok(!readdirSync(installed).includes('src'), 'the bundle runs, not the source');

  useAsLibrary(world, installed, run);
});

/** As a TypeScript program of a user, whose types are checked and which the machine's own Node runs too. */
const userProgram = `
import { readFileSync } from 'node:fs';
import { connect, JobmanError, type JobView } from 'jobman';

const env = process.env;
const ca = readFileSync(String(env['CA_FILE']), 'utf8');
const server = connect({ server: String(env['JOBMAN_SERVER']), token: String(env['JOBMAN_TOKEN']), ca });
const made = await server.createFrom('library.yaml', { sets: ['job.name=flower'], env });
if (made.kind !== 'created') throw new Error(made.confirmation.reasons.map(({ message }) => message).join());
const isOver = ({ phase }: JobView): boolean => phase === 'succeeded' || phase === 'failed';
for await (const change of server.changesSince(null, [made.id]))
  if (change.kind !== 'log' && isOver(await server.show(made.id))) break;
const [log] = await server.logs(made.id, {});
const { bytes } = await server.readLog(made.id, log?.id ?? '', 0, 1000);
const absent = await server.show('77').catch((error: unknown) => (error instanceof JobmanError ? error.code : error));
console.log(JSON.stringify([made.row.name, made.warnings, new TextDecoder().decode(bytes), absent]));
await server.close();
`;

function useAsLibrary(
  world: World,
  installed: string,
  run: (...argv: readonly [string, ...string[]]) => SpawnSyncReturns<string>,
): void {
  const project = join(world.folder, 'project');
  mkdirSync(join(project, 'node_modules/@types'), { recursive: true });
  symlinkSync(installed, join(project, 'node_modules/jobman'));
  symlinkSync(join(root, 'node_modules/@types/node'), join(project, 'node_modules/@types/node'));
  symlinkSync(join(root, 'node_modules/undici-types'), join(project, 'node_modules/undici-types'));
  const write = (name: string, text: string) => writeFileSync(join(project, name), text);
  write('package.json', '{"type": "module"}');
  write('program.ts', userProgram);
  write('token.txt', 'a-secret');
  write(
    'library.yaml',
    'job: {secrets: {TOKEN: ./token.txt}, checkpoint_shared: true}\nlocal: {}\ncommand: {cmd: "echo ${oc.env:USER_TEXT} $TOKEN"}\n',
  );
  const compiled = spawnSync(
    join(root, 'node_modules/.bin/tsc'),
    ['--strict', '--module', 'nodenext', '--target', 'es2022', '--types', 'node', 'program.ts'],
    { cwd: project, encoding: 'utf8' },
  );
  assert.equal(compiled.status, 0, compiled.stdout);
  run('jobman', 'controller', 'stop');
  const token = run('jobman', 'token', 'create', '--name', 'library').stdout.trim();
  const output = openSync(join(project, 'server.log'), 'w');
  const { certFile, keyFile, caFile } = createCertificates(join(world.folder, 'certificates'));
  const server = spawn(
    'jobman',
    ['server', '--listen', '127.0.0.1:0', '--tls-certificate', certFile, '--tls-key', keyFile],
    {
      env: { ...world.env, PATH: `${join(world.folder, 'prefix/bin')}:/usr/bin:/bin` },
      stdio: ['ignore', output, output],
    },
  );
  world.atEnd(() => void server.kill('SIGTERM'));
  const address = /runs at (http\S+)\. /;
  const started = run(
    'sh',
    '-c',
    'for i in $(seq 200); do grep -q "runs at" project/server.log && exit; sleep 0.1; done',
  );
  assert.equal(started.status, 0);
  const [, url = ''] = address.exec(readFileSync(join(project, 'server.log'), 'utf8')) ?? [];
  // The PATH of the tests begins with the Node of jobman, which is newer than the oldest one that runs the library.
  const systemNode = run('sh', '-c', 'command -v node').stdout.trim();
  const major = Number(/^v(\d+)/.exec(run('node', '--version').stdout)?.[1] ?? 0);
  for (const node of [process.execPath, ...(major >= 20 ? [systemNode] : [])]) {
    const { status, stdout, stderr } = spawnSync(node, ['program.js'], {
      cwd: project,
      encoding: 'utf8',
      env: { ...world.env, JOBMAN_SERVER: url, JOBMAN_TOKEN: token, CA_FILE: caFile, USER_TEXT: 'hello' },
    });
    assert.equal(status, 0, stderr);
    const warning = 'library.yaml:1:57: job.checkpoint_shared: has no effect without job.checkpoint_dir';
    assert.deepEqual(JSON.parse(stdout), ['flower', [warning], 'hello a-secret\n', 3]);
  }
}

/** The packages of the lockfile that are not development dependencies. */
function linkDependencies(installed: string): void {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly dev?: true; readonly optional?: true }>>;
  };
  for (const [path, { dev, optional }] of Object.entries(packages)) {
    if (path === '' || dev === true || optional === true) continue;
    const link = join(installed, path);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(root, path), link);
  }
  mkdirSync(join(installed, 'node_modules/.bin'));
  symlinkSync('../node/bin/node', join(installed, 'node_modules/.bin/node'));
}
